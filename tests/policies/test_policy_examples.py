"""Both example stacks obey every rule, whenever it is asked, and no rule is left unanswered."""

import json
from pathlib import Path

import pytest

from tests.support.engine import IMAGE, Engine, Result
from tests.support.pack import CANNOT_RUN, PACK

EVERYTHING = {
    "events": [
        {"name": "orders", "pubsub": {}},
        {
            "name": "uploads",
            "eventarc": {
                "type": "google.cloud.storage.object.v1.finalized",
                "filters": {"bucket": "uploads"},
            },
        },
    ],
}


def is_clean(result: Result) -> bool:
    assert CANNOT_RUN not in result.text
    assert result.violations == []
    assert result.remediations == []
    return result.raise_for_status().ok


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_example_obeys_on_first_preview_on_up_and_on_update(tmp_path: Path, name: str) -> None:
    stack = Engine(tmp_path).example(name)  # the image is built, so its digest is not known yet
    config = PACK / f"{name}.json"
    assert is_clean(stack.preview(policies=PACK, policy_config=config))
    assert is_clean(stack.up(policies=PACK, policy_config=config))
    jobs = stack.settings["jobs"]
    stack.configure({"jobs": [{**jobs[0], "schedule": "15 4 * * *"}, *jobs[1:]]})
    result = stack.up(policies=PACK, policy_config=config)
    assert is_clean(result)
    assert [step.name for step in result.changed] == [jobs[0]["name"]]


def test_example_with_everything_switched_on_obeys(tmp_path: Path) -> None:
    stack = Engine(tmp_path).example("dev", {**EVERYTHING, "image": IMAGE})
    start = {"name": "report", "schedule": "0 4 * * *", "start": {"workflow": {"name": "report"}}}
    stack.configure({"jobs": [*stack.settings["jobs"], start]})
    assert is_clean(stack.preview(policies=PACK, policy_config=PACK / "dev.json"))


@pytest.mark.parametrize(("name", "stopped"), [("dev", False), ("prod", True)])
def test_open_ingress_stops_prod_only(tmp_path: Path, name: str, stopped: bool) -> None:
    stack = Engine(tmp_path).example(name, {"image": IMAGE})
    services = stack.settings.get("services", {"handler": {}})
    stack.configure({"services": {**services, "handler": {"ingress": "all"}}})
    result = stack.preview(policies=PACK, policy_config=PACK / f"{name}.json")
    assert {found.policy for found in result.violations} == {"cloud-run-ingress"}
    assert result.ok is not stopped


@pytest.mark.parametrize("allowed", [False, True])
def test_event_without_dead_letters_and_waits_has_to_be_allowed(
    tmp_path: Path, allowed: bool
) -> None:
    event = {"name": "ticks", "pubsub": {"deadLetter": False, "immediate": True}}
    stack = Engine(tmp_path).example("dev", {"image": IMAGE, "events": [event]})
    config = json.loads((PACK / "dev.json").read_text())
    rules = {"pubsub-dead-letter", "pubsub-retry-policy"}
    if allowed:
        config |= {rule: {"allow": {"*ticks": "the next one replaces it"}} for rule in rules}
    result = stack.preview(policies=PACK, policy_config=config)
    assert {found.policy for found in result.violations} == (set() if allowed else rules)
    assert result.ok is allowed
