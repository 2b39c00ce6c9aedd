"""Where the Pulumi CLI comes from, and what is said where it cannot come from anywhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engine import REPOSITORY
from tools.cache import ToolError, cached


def run(module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def empty(tmp_path: Path) -> dict[str, str]:
    """An environment with no tool, no cache and no network."""
    (tmp_path / "bin").mkdir()
    return {
        "PATH": str(tmp_path / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "https_proxy": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }


def test_cli_of_this_machine_runs_with_the_arguments() -> None:
    found = run("tools.pulumi", "version")

    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("v3.")


def test_cli_on_the_path_is_used_as_it_is(empty: dict[str, str], tmp_path: Path) -> None:
    cli = tmp_path / "bin" / "pulumi"
    cli.write_text('#!/bin/sh\necho "mine $*"\n')
    cli.chmod(0o755)

    assert run("tools.pulumi", "preview", **empty).stdout == "mine preview\n"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("module", ["tools.pulumi", "tools.actionlint"])
def test_without_a_tool_and_without_go_one_line_says_what_is_needed(
    empty: dict[str, str], module: str
) -> None:
    failed = run(module, "version", **empty)

    assert failed.returncode == 1
    last = failed.stderr.splitlines()[-1]
    assert "Go 1.26 or newer" in last
    assert "Traceback" not in failed.stderr


def test_tool_that_cannot_be_made_leaves_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ToolError("no network")

    with pytest.raises(ToolError):
        cached("tool-1", fail)
    assert not (tmp_path / "scheduled-once" / "tool-1").exists()


def test_tool_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []
    for _ in range(2):
        folder = cached("tool-1", lambda folder: made.append(folder))

    assert folder == tmp_path / "scheduled-once" / "tool-1"
    assert len(made) == 1
