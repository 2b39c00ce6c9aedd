"""What is read off the program's resources, and the mistakes that show on this machine."""

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.program import build
from infra.stackfile import read_stack
from infra.timing import Timing
from local.evaluate import Resource, evaluate
from local.messages import apart
from local.stack import WiringError, load, read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def program() -> list[Resource]:
    config = read_stack(ROOT, "dev", {"events": [{"name": "orders", "pubsub": {}}]})
    return evaluate(lambda: build(config), project="scheduled-once", stack="dev")


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_every_job_of_an_example_stack_is_played(name: str) -> None:
    config, stack = read_stack(ROOT, name, {"examples": True}), load(ROOT, name)
    by_name = sorted(config.jobs, key=lambda job: job.name)
    assert [job.name for job in stack.jobs] == [config.called(job.name) for job in by_name]
    for job, configured in zip(stack.jobs, by_name, strict=True):
        assert job.retry == configured.retry
        assert job.schedule == configured.schedule
        assert job.attempt_deadline == configured.timing.attempt_deadline
    for service in stack.services.values():
        assert service.lease == Timing(service.timeout).lease
    assert any(job.starts for job in stack.jobs)


def test_stack_without_a_file_is_an_error() -> None:
    with pytest.raises(WiringError, match=r"Pulumi\.none\.yaml; known: dev, prod"):
        load(ROOT, "none")


def change(kind: str, edit: Callable[[dict[str, Any]], object]) -> Callable[[Resource], None]:
    def apply(resource: Resource) -> None:
        if resource.type.endswith(kind):
            edit(resource.inputs)

    return apply


def drop_lease(inputs: dict[str, Any]) -> None:
    (container,) = inputs["template"]["containers"]
    container["envs"] = [each for each in container["envs"] if "LEASE" not in each["name"]]


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            change(":Job", lambda job: job["httpTarget"].pop("oidcToken")),
            "sends no OIDC token: Cloud Run would answer 403",
        ),
        (
            change(
                ":Job", lambda job: job["httpTarget"]["oidcToken"].update(audience="https://x/")
            ),
            "Cloud Run would answer 401",
        ),
        (
            change(":Job", lambda job: job["httpTarget"].update(uri="https://a-1.b.run.app/")),
            "where no service answers",
        ),
        (
            change("ServiceIamMember", lambda grant: grant.update(role="roles/run.viewer")),
            "which may not invoke it",
        ),
        (
            change("ServiceIamMember", lambda grant: grant.update(name="another")),
            "which may not invoke it",
        ),
        (change("v2/service:Service", drop_lease), "has no ONCE_LEASE_SECONDS"),
        (
            change(":Subscription", lambda it: it.get("pushConfig", {}).pop("oidcToken", None)),
            "subscription orders sends no OIDC token",
        ),
        (
            change(":Subscription", lambda it: it.get("pushConfig", {}).update(pushEndpoint="x:")),
            "subscription orders calls x:, where no service answers",
        ),
    ],
)
def test_wiring_mistake_is_named(
    program: list[Resource], mistake: Callable[[Resource], None], message: str
) -> None:
    resources = deepcopy(program)
    for resource in resources:
        mistake(resource)
    with pytest.raises(WiringError, match=message):
        read(resources, "dev")


def test_paused_job_is_left_out_with_a_reason(program: list[Resource]) -> None:
    resources = deepcopy(program)
    next(each for each in resources if each.name == "invoice-run").inputs["paused"] = True
    stack = read(resources, "dev")
    assert "invoice-run" not in {job.label for job in stack.jobs}
    assert stack.notes == ("job invoice-run is paused",)


def test_subscription_is_read(program: list[Resource]) -> None:
    (push,) = read(program, "dev").pushes
    assert push.name == "projects/my-project-dev/subscriptions/scheduled-once-orders"
    assert push.topic == "projects/my-project-dev/topics/scheduled-once-orders"
    assert push.dead_letter_topic == f"{push.topic}-dead"
    assert (push.service, push.path, push.max_attempts) == ("handler", "/", 10)
    assert push.deadline == timedelta(minutes=5)


def test_names_of_two_runs_stay_apart() -> None:
    setting = '{"a":{"subscription":"projects/p/subscriptions/s","topic":"projects/q/topics/t"}}'
    assert apart(setting, "1") == (
        '{"a":{"subscription":"projects/p-1/subscriptions/s","topic":"projects/q-1/topics/t"}}'
    )


def test_duration_of_a_resource_is_read(program: list[Resource]) -> None:
    (service,) = read(program, "dev").services.values()
    assert service.timeout == timedelta(minutes=5)
