"""The image, where no digest is configured: built from `handler/` and pushed."""

from pathlib import Path

import pytest

from tests.support.engine import UNKNOWN, Engine, Stack

IMAGE = "docker-build:index:Image"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = Engine(tmp_path_factory.mktemp("built"))
    engine.example("dev").up().raise_for_status()
    return engine


@pytest.fixture
def built(original: Engine, tmp_path: Path) -> Stack:
    """The deployed example stack dev with an image of its own, in a copy."""
    return original.copy(tmp_path).example("dev")


def deployed(stack: Stack) -> str:
    (image,) = {
        str(one["inputs"]["template"]["containers"][0]["image"])
        for one in stack.engine.things().values()
        if one["type"] == "gcp:cloudrunv2/service:Service"
    }
    return image


def test_first_preview_needs_no_docker_and_does_not_know_the_digest(engine: Engine) -> None:
    result = engine.example("dev").preview().raise_for_status()

    assert result.one(IMAGE).operation == "create"
    template = result.one("cloudrunv2/service:Service").inputs["template"]
    assert template["containers"][0]["image"] == UNKNOWN


def test_service_runs_the_pushed_image_by_digest(built: Stack) -> None:
    (image,) = [one for one in built.engine.things().values() if one["type"] == IMAGE]

    assert deployed(built).endswith("@" + image["outputs"]["digest"])
    assert image["inputs"]["tags"][0].startswith(deployed(built).partition("@")[0])


def test_image_goes_into_the_stacks_own_repository(built: Stack) -> None:
    (repository,) = [
        one["outputs"]["registryUri"]
        for one in built.engine.things().values()
        if one["type"] == "gcp:artifactregistry/repository:Repository"
    ]
    assert deployed(built).startswith(repository + "/")


def test_no_change_shows_none(built: Stack) -> None:
    assert built.preview().raise_for_status().changed == []
    assert built.up().raise_for_status().changed == []


def test_changed_job_function_shows_in_the_preview_and_is_deployed(built: Stack) -> None:
    before = deployed(built)
    jobs = built.folder / "handler" / "jobs.py"
    jobs.write_text(jobs.read_text() + "\n# changed\n")

    preview = built.preview().raise_for_status()
    assert {(step.operation, step.type) for step in preview.changed} == {
        ("update", IMAGE),
        ("update", "gcp:cloudrunv2/service:Service"),
    }
    built.up().raise_for_status()
    assert deployed(built) != before


def test_files_that_are_not_deployed_show_no_change(built: Stack) -> None:
    for file in ("__pycache__/jobs.pyc", "once/__pycache__/x.pyc", ".venv/x", ".local/runs.db"):
        written = Path(built.folder, "handler", file)
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text("anything")

    assert built.preview().raise_for_status().changed == []


def test_deployers_token_is_a_secret_and_no_change(built: Stack) -> None:
    (state,) = [one for one in built.export() if one["type"] == IMAGE]

    assert "a-token" not in str(state)


def test_destroyed_stack_leaves_no_repository(built: Stack) -> None:
    built.destroy().raise_for_status()

    assert not [
        one for one in built.engine.things().values() if "artifactregistry/repo" in one["type"]
    ]
