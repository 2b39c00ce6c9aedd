"""Tools that are built or unpacked once and kept outside the work tree."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path


class ToolError(Exception):
    """A tool cannot be had here; the message says in one line what is needed."""


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of a tool, made on the first call.

    Parameters
    ----------
    name
        Folder in the cache, with the version: ``pulumi-3.274.1``.
    make
        Fills an empty folder. What it leaves there appears under `name` whole or not at all, and
        of two processes that need it at once, one makes it and the other waits.

    Returns
    -------
    pathlib.Path
        The folder, under ``$XDG_CACHE_HOME`` (else ``~/.cache``) ``/scheduled-once``.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scheduled-once"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=root, prefix=f"{name}.") as scratch:
                made = Path(scratch) / name
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


def go_build(package: str, version: str, binary: Path, linked: str = "") -> Path:
    """Build a command from its Go module.

    ``go install package@version`` refuses modules with replace directives, so the build runs in a
    module of its own that names the command as a tool.

    Parameters
    ----------
    package
        Import path of the command.
    version
        Version of its module, without the ``v``.
    binary
        Where to put the executable.
    linked
        More flags for the linker.

    Returns
    -------
    pathlib.Path
        The module's folder, in which ``go list -m`` can be asked about what was built. It is the
        caller's to keep or to remove.

    Raises
    ------
    ToolError
        Without Go, or where the build fails.
    """
    if not shutil.which("go"):
        raise ToolError("needs Go 1.26 or newer")
    module = binary.parent / "module"
    module.mkdir()
    (module / "go.mod").write_text("module tool\n\ngo 1.26\n")
    for command in (
        ["go", "get", "-tool", f"{package}@v{version}"],
        ["go", "build", "-trimpath", f"-ldflags=-s -w {linked}", "-o", str(binary), package],
    ):
        run = subprocess.run(command, cwd=module, capture_output=True, text=True)
        if run.returncode:
            reason = (run.stderr.strip() or run.stdout.strip()).splitlines()[-1:]
            raise ToolError(f"{' '.join(command[:3])} failed: {' '.join(reason)}")
    return module
