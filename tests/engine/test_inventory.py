"""What the example stacks consist of, compared with a list, and what must be in neither."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.conftest import STACKS, Example
from tests.support.engine import PROJECT_NUMBER, UNKNOWN, Step

INVENTORY = Path(__file__).with_name("inventory")


def listed(stack: str) -> Any:
    return yaml.safe_load((INVENTORY / f"{stack}.yaml").read_text())


def address(step: Step) -> str:
    return f"{step.type} {step.name}"


def part(expected: Any, actual: Any) -> Any:
    """Cut from `actual` what `expected` does not mention."""
    if isinstance(expected, dict) and isinstance(actual, dict) and expected:
        return {key: part(value, actual.get(key)) for key, value in expected.items()}
    return actual


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value


@pytest.mark.parametrize("stack", STACKS)
def test_each_type_is_there_as_often_as_listed(examples: Mapping[str, Example], stack: str) -> None:
    counts = Counter(step.type for step in examples[stack].up.resources)
    assert dict(counts) == listed(stack)["counts"]


@pytest.mark.parametrize("stack", STACKS)
def test_listed_properties_are_what_the_provider_gets(
    examples: Mapping[str, Example], stack: str
) -> None:
    expected = listed(stack)["resources"]
    actual = {address(step): step.inputs for step in examples[stack].up.resources}

    assert {key: part(value, actual.get(key)) for key, value in expected.items()} == expected


@pytest.mark.parametrize("stack", STACKS)
def test_what_the_list_names_is_protected(examples: Mapping[str, Example], stack: str) -> None:
    protected = [address(step) for step in examples[stack].up.resources if step.protect]
    assert sorted(protected) == listed(stack)["protected"]


def test_there_are_members_only_and_no_keys(example: Example) -> None:
    types = {step.type for step in example.up.resources}
    assert not [one for one in types if re.search(r"(?i)iam(binding|policy|auditconfig)", one)]
    assert not [one for one in types if re.search(r"(?i)serviceaccount/key", one)]


def test_nobody_gets_a_basic_role_and_nobody_is_everybody(example: Example) -> None:
    grants = [step.inputs for step in example.up.resources if "member" in step.inputs]
    assert grants
    for grant in grants:
        assert grant["role"] not in ("roles/owner", "roles/editor", "roles/viewer")
        assert grant["member"] not in ("allUsers", "allAuthenticatedUsers")


def test_no_default_account_is_used(example: Example) -> None:
    for step in example.up.resources:
        for path, text in texts(step.inputs):
            assert not re.search(r"-compute@developer|@appspot|@cloudbuild", text), (step.urn, path)


def test_each_service_runs_as_its_own_account(example: Example) -> None:
    accounts = [
        step.inputs["template"]["serviceAccount"]
        for step in example.up.of(":Service")
        if "template" in step.inputs
    ]
    assert len(accounts) == len(set(accounts)) > 0


def test_scheduler_may_call_exactly_the_services_that_its_jobs_call(example: Example) -> None:
    called = {
        step.inputs["httpTarget"]["uri"].removeprefix("https://").partition(f"-{PROJECT_NUMBER}")[0]
        for step in example.up.of("job:Job")
    }
    allowed = {step.inputs["name"] for step in example.up.of("ServiceIamMember")}
    assert allowed == called


def test_every_value_is_known_on_the_first_preview(example: Example) -> None:
    """A policy that meets an unknown value says that it cannot run, and lets the stack pass."""
    unknown = [
        (address(step), path)
        for step in example.preview.resources
        for path, text in texts(step.inputs)
        if text == UNKNOWN
    ]
    assert unknown == []


def test_no_text_is_an_output_that_was_formatted_by_mistake(example: Example) -> None:
    for result in (example.preview, example.up):
        for step in result.steps:
            for path, text in texts([step.inputs, step.outputs]):
                assert "Calling __str__ on an Output" not in text, (step.urn, path)
                assert "<pulumi.output.Output" not in text, (step.urn, path)


def test_preview_promises_what_up_does(example: Example) -> None:
    promised = {address(step): step.inputs for step in example.preview.resources}
    assert {address(step): step.inputs for step in example.up.resources} == promised


def test_names_of_a_stack_carry_its_prefix(example: Example) -> None:
    """So that two stacks fit in one project."""
    for step in example.up.resources:
        if step.type == "gcp:projects/service:Service":
            continue
        named = next(
            step.inputs[key]
            for key in ("accountId", "displayName", "name", "database", "repositoryId", "member")
            if key in step.inputs
        )
        assert "scheduled-once" in named, step.urn


def test_outputs_say_what_a_person_needs_next(example: Example) -> None:
    outputs = example.up.outputs
    assert {"services", "schedulerAccount", "database", "jobs"} <= outputs.keys()
    for service in outputs["services"].values():
        assert service["url"] in service["urls"]
    for job in outputs["jobs"].values():
        assert len(job["nextRuns"]) == 3
        assert job["console"].startswith("https://console.cloud.google.com/")
