"""Actionlint, the linter of GitHub's workflow files: ``python -m tools.actionlint [FILE...]``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tools.cache import ToolError, cached, go_build

VERSION = "1.7.12"


def executable() -> str:
    """Return the path of actionlint: the one on the PATH, else a build from its Go module."""
    return shutil.which("actionlint") or str(cached(f"actionlint-{VERSION}", _build) / "actionlint")


def _build(folder: Path) -> None:
    print(f"building actionlint {VERSION} (once) ...", file=sys.stderr)
    module = go_build("github.com/rhysd/actionlint/cmd/actionlint", VERSION, folder / "actionlint")
    shutil.rmtree(module)


if __name__ == "__main__":
    try:
        path = executable()
    except ToolError as reason:
        sys.exit(f"no actionlint: put it on the PATH, or install Go ({reason})")
    os.execv(path, [path, *sys.argv[1:]])  # noqa: S606
