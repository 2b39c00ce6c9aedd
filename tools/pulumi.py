"""The Pulumi CLI, from wherever it can be had: ``python -m tools.pulumi preview --stack dev``.

In this order: the one on the PATH; the official installer; a build from Pulumi's Go module, which
takes some minutes, once. What was installed or built stands in the cache, outside the work tree. A
build from source has no language plugin: there, and only there, `language_host.py` is put beside
it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import semver
from pulumi.automation import PulumiCommand

from tools.cache import ToolError, cached, go_build

VERSION = "3.274.1"
INSTALLER_TIMEOUT_SECONDS = 5.0
"""For the installer's first answer: where it cannot be reached, Go is tried soon."""


def environment() -> dict[str, str]:
    """Return this process's environment with a ``pulumi`` on the PATH that runs Python programs.

    Raises
    ------
    tools.cache.ToolError
        Where there is no CLI and no way to get one.
    """
    if shutil.which("pulumi"):
        return dict(os.environ)
    folder = cached(f"pulumi-{VERSION}", _make)
    bin_folder = folder / "bin"
    path = [str(bin_folder), os.environ.get("PATH", os.defpath)]
    if (bin_folder / "built-from-source").exists():
        _install_language_host(bin_folder / "pulumi-language-python")
        # The host is a Python program itself and needs the SDK that this process has.
        path.insert(1, str(Path(sys.executable).parent))
    return {**os.environ, "PATH": os.pathsep.join(path), "PULUMI_SKIP_UPDATE_CHECK": "true"}


def _make(folder: Path) -> None:
    try:
        _install(folder)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(folder)
        _build(folder / "bin")


def _install(folder: Path) -> None:
    """Run Pulumi's installer, through the SDK, which knows where it is and how to call it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(INSTALLER_TIMEOUT_SECONDS)
    try:
        PulumiCommand.install(root=str(folder), version=semver.VersionInfo.parse(VERSION))
    finally:
        socket.setdefaulttimeout(before)


def _build(folder: Path) -> None:
    print(f"building Pulumi {VERSION} from its Go module (once, some minutes) ...", file=sys.stderr)
    folder.mkdir(parents=True)
    module = go_build(
        "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        VERSION,
        folder / "pulumi",
        linked=f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{VERSION}",
    )
    sdk = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/pulumi/pulumi/sdk/v3"],  # noqa: S607
        cwd=module,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # Pulumi's own program that runs a Python program; the host that starts it is not in the module.
    executor = folder / "pulumi-language-python-exec"
    shutil.copyfile(Path(sdk) / "python" / "cmd" / executor.name, executor)
    shutil.rmtree(module)
    (folder / "built-from-source").touch()


def _install_language_host(target: Path) -> None:
    source = Path(__file__).with_name("language_host.py").read_bytes()
    if not target.exists() or target.read_bytes() != source:
        scratch = target.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(source)
        scratch.chmod(0o755)
        scratch.replace(target)


def main() -> None:
    """Become the CLI, with the arguments of this process."""
    try:
        variables = environment()
    except ToolError as reason:
        sys.exit(
            "no Pulumi CLI: install it (https://www.pulumi.com/docs/install), "
            f"or Go to build it here ({reason})"
        )
    os.execvpe("pulumi", ["pulumi", *sys.argv[1:]], variables)  # noqa: S606, S607


if __name__ == "__main__":
    main()
