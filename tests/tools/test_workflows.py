"""The pipeline's files: valid, pinned, and with no more rights than a job needs."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.engine import REPOSITORY
from tools import actionlint

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((REPOSITORY / ".github" / "actions").glob("*/action.yml"))

RIGHTS = {
    "test.yml": {"test": {"contents": "read"}},
    "pull-request.yml": {
        "test": {"contents": "read"},
        "preview": {"contents": "read", "id-token": "write", "pull-requests": "write"},
    },
    "deploy.yml": {
        "test": {"contents": "read"},
        "dev": {"contents": "read", "id-token": "write"},
        "prod": {"contents": "read", "id-token": "write"},
    },
    "deploy-stack.yml": {"up": {"contents": "read", "id-token": "write"}},
}


def content(file: Path) -> Any:
    # YAML reads the key `on` as true.
    return yaml.safe_load(file.read_text())


def test_actionlint_finds_nothing() -> None:
    run = subprocess.run(
        [actionlint.executable(), "-no-color", *map(str, WORKFLOWS)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("file", [*WORKFLOWS, *ACTIONS], ids=lambda file: str(file.name))
def test_foreign_actions_are_pinned_to_a_commit_and_say_their_version(file: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", file.read_text())
    assert used or file.name == "deploy.yml"
    for action, comment in used:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action)
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.name))
def test_each_job_has_the_rights_that_are_listed_and_no_others(file: Path) -> None:
    workflow = content(file)
    default = workflow["permissions"]
    rights = {name: job.get("permissions", default) for name, job in workflow["jobs"].items()}
    assert rights == RIGHTS[file.name]


@pytest.mark.parametrize("file", [*WORKFLOWS, *ACTIONS], ids=lambda file: str(file.name))
def test_there_is_no_key(file: Path) -> None:
    secrets = set(re.findall(r"secrets\.(\w+)", file.read_text()))
    assert secrets <= {"PULUMI_CONFIG_PASSPHRASE"}
    assert "credentials_json" not in file.read_text()


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.name))
def test_nothing_of_an_event_is_pasted_into_a_script(file: Path) -> None:
    """A branch may be called `$(curl ...)`: expressions reach scripts as variables only."""
    for job in content(file)["jobs"].values():
        for step in job.get("steps", []):
            assert "${{" not in step.get("run", "")


def test_prod_follows_dev_and_dev_follows_the_tests() -> None:
    jobs = content(REPOSITORY / ".github" / "workflows" / "deploy.yml")["jobs"]
    assert jobs["dev"]["needs"] == "test"
    assert jobs["prod"]["needs"] == "dev"


def test_each_stack_is_deployed_in_the_environment_of_its_name() -> None:
    """Without an environment there would be nothing that an approval could hang on."""
    workflow = content(REPOSITORY / ".github" / "workflows" / "deploy-stack.yml")
    assert workflow["jobs"]["up"]["environment"] == "${{ inputs.stack }}"


def test_upgrades_are_asked_for_wherever_versions_are_pinned() -> None:
    updates = content(REPOSITORY / ".github" / "dependabot.yml")["updates"]
    asked = {
        (one["package-ecosystem"], folder)
        for one in updates
        for folder in one.get("directories", [one.get("directory")])
    }
    assert asked == {
        ("pip", "/"),
        ("pip", "/handler"),
        ("pip", "/policies"),
        ("docker", "/handler"),
        ("github-actions", "/"),
        ("github-actions", "/.github/actions/setup"),
    }
