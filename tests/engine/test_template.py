"""`pulumi new` from this repository, as its `template:` block promises."""

import subprocess
from pathlib import Path

import pytest

from tests.support.engine import IMAGE, PROJECT_NUMBER, PROVIDER, VIRTUALENV, Engine, Stack


@pytest.fixture
def project(engine: Engine, tmp_path: Path) -> Path:
    """A project of another name, made from a copy of this repository."""
    template = engine.repository()
    # A template comes with git, which has no environment in it.
    (template / ".venv").unlink()
    folder = tmp_path / "new"
    folder.mkdir()
    subprocess.run(
        ["pulumi", "new", template, "--generate-only", "--yes", "--name=anything", "--dir", folder],
        env=engine.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    (folder / ".venv").symlink_to(VIRTUALENV, target_is_directory=True)
    return folder


def test_project_of_any_name_previews(engine: Engine, project: Path) -> None:
    stack = Stack(engine, project, "dev")
    stack.configure({**PROVIDER, "projectNumber": PROJECT_NUMBER, "image": IMAGE})

    preview = stack.preview().raise_for_status()

    assert {step.name for step in preview.of("job:Job")} == {
        job["name"] for job in stack.settings["jobs"]
    }


def test_no_file_holds_a_placeholder_of_the_template(project: Path) -> None:
    for file in project.rglob("*"):
        if file.is_file() and ".venv" not in file.parts:
            assert "${PROJECT}" not in file.read_text()
            assert "${DESCRIPTION}" not in file.read_text()
