"""What the program says of a start, and what the handler makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from once.settings import STARTS
from once.starts import build_trigger, cloud_run_job, read_endpoints, read_starts, workflow
from once.starts.starter import Starter
from once.starts.target import Target

from infra import contract, example, starts
from infra.model import BuildTrigger, CloudRunJob, Start, Workflow

PLACE = "projects/other-project/locations/europe-west1"
DECLARED: list[Start] = [
    Workflow(f"{PLACE}/workflows/w", {"any": [1, None, {"deep": 0.5}]}),
    Workflow(f"{PLACE}/workflows/w", {}),
    CloudRunJob(f"{PLACE}/jobs/j", ("--all",), {"MODE": "full"}),
    CloudRunJob(f"{PLACE}/jobs/j", (), {}),
    BuildTrigger(f"{PLACE}/triggers/t", "main", None, {"_A": "b"}, "b@p.iam.gserviceaccount.com"),
    BuildTrigger(f"{PLACE}/triggers/t", None, None, {}, None),
]


def read(start: Start) -> Target:
    """Return the handler's target of what the program declares."""
    setting = json.dumps(starts.as_setting({"function": start}))
    starter = read_starts(setting, read_endpoints("{}"))["function"]
    assert isinstance(starter, Starter)
    return starter._target


def test_setting_has_one_name() -> None:
    assert contract.STARTS == STARTS


@pytest.mark.parametrize("start", DECLARED, ids=repr)
def test_handler_reads_what_the_program_writes(start: Start) -> None:
    target: Any = read(start)

    for name in ("name", "argument", "args", "env", "branch", "tag", "substitutions"):
        assert getattr(target, name, None) == getattr(start, name, None)


def test_keys_that_the_program_refuses_are_the_tokens() -> None:
    assert contract.TOKEN_KEYS == {
        "argument": workflow.TOKEN,
        "env": cloud_run_job.TOKEN,
        "substitutions": build_trigger.TOKEN,
    }


def test_example_job_gives_the_workflow_what_it_reads() -> None:
    job = example.job(f"{PLACE}/workflows/example", "https://booking.example")
    assert isinstance(job.start, Workflow)
    source = yaml.safe_load(example.SOURCE.read_text())
    args = source["main"]["steps"][0]["book"]["try"]["args"]
    texts = [args["url"], *args["body"].values()]
    reads = {text.removeprefix("${argument.").removesuffix("}") for text in texts}

    assert reads == {*job.start.argument, workflow.TOKEN}


@pytest.mark.parametrize("start", DECLARED, ids=repr)
def test_roles_that_the_log_asks_for_are_those_that_the_program_grants(start: Start) -> None:
    target = read(start)
    on_project = starts._on_project(start)
    granted = {on_project[0]} if on_project else set(starts._JOB_ROLES)

    assert {target.starting_role, target.looking_role} == granted
