"""A proxy under gunicorn, the three APIs on loopback, and a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from local.apis import Apis, Operation
from tests.support.backends import SqliteBackend
from tests.support.deliveries import Delivery
from tests.support.handler import MAIN, Answer, Handler
from tests.support.lab import Lab

PLACE = "projects/test-project/locations/europe-west1"

LEASE_SECONDS = 3
"""Long enough for a start and the looks after it, short enough to be waited for."""


@dataclass(frozen=True)
class Target:
    """Something to start, as the stack's configuration and the API call it.

    Attributes
    ----------
    function
        Its name in ONCE_STARTS.
    name
        Its full name.
    entry
        Its entry in ONCE_STARTS.
    roles
        What it takes to start it, and to look for what was started.
    """

    function: str
    name: str
    entry: dict[str, Any]
    roles: tuple[str, str]

    def new_delivery(self) -> Delivery:
        """Return a delivery of a run that nothing has happened to."""
        return Delivery(self.function)


ARGUMENT = {
    "text": "naïve ☃",
    "whole": 2**53 + 1,
    "number": 0.1,
    "yes": True,
    "nothing": None,
    "list": [1, [2, {"deep": "er"}], "3"],
    "object": {"idempotency_token": "not at the top", "": {}},
}
ENV = {"NAIVE": "naïve ☃", "EMPTY": "", "LINES": "a\nb", "NUMBER": "007"}
ARGS = ("--since", "", "-1", "naïve ☃")
SUBSTITUTIONS = {"_WHERE": "eu west", "_EMPTY": "", "_DOLLARS": "$$HOME"}


def _targets(suffix: str = "") -> list[Target]:
    workflow = f"{PLACE}/workflows/report{suffix}"
    job = f"{PLACE}/jobs/report{suffix}"
    trigger = f"{PLACE}/triggers/report{suffix}"
    builder = "roles/cloudbuild.builds.editor"
    return [
        Target(
            f"workflow{suffix}",
            workflow,
            {"workflow": {"name": workflow, "argument": ARGUMENT}},
            ("roles/workflows.invoker", "roles/workflows.invoker"),
        ),
        Target(
            f"job{suffix}",
            job,
            {"cloudRunJob": {"name": job, "args": list(ARGS), "env": ENV}},
            ("roles/run.jobsExecutorWithOverrides", "roles/run.viewer"),
        ),
        Target(
            f"trigger{suffix}",
            trigger,
            {"buildTrigger": {"name": trigger, "branch": "main", "substitutions": SUBSTITUTIONS}},
            (builder, builder),
        ),
    ]


TARGETS = _targets()
MISSING = _targets("-missing")
"""Targets that are configured and, until a test makes them, not there."""


@pytest.fixture(scope="session")
def apis() -> Iterator[Apis]:
    """Yield the APIs with every target that is there."""
    with Apis() as apis:
        for target in TARGETS:
            apis.add(target.name)
        yield apis


@pytest.fixture(params=TARGETS, ids=lambda target: target.function)
def target(request: pytest.FixtureRequest) -> Target:
    """Return each kind of target in turn."""
    found: Target = request.param
    return found


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return a lab on SQLite."""
    folder = tmp_path_factory.mktemp("starts")
    return Lab(SqliteBackend(folder / "runs.db"), folder)


def starting(lab: Lab, apis: Apis, targets: list[Target]) -> Handler:
    """Return a proxy that is starting; `with` waits until it serves."""
    env = {
        **lab.backend.env(),
        "ONCE_STARTS": json.dumps({target.function: target.entry for target in targets}),
        "ONCE_API_ENDPOINTS": json.dumps(apis.endpoints),
        "ONCE_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    return Handler(MAIN, lab.folder, env, threads=16)


@pytest.fixture(scope="session")
def proxy(lab: Lab, apis: Apis) -> Iterator[Handler]:
    """Yield a proxy that the tests share."""
    with starting(lab, apis, TARGETS + MISSING) as handler:
        yield handler


class Runs:
    """What the tests see of runs: the operations that carry their tokens, records and log."""

    def __init__(self, apis: Apis, lab: Lab, proxy: Handler) -> None:
        self._apis = apis
        self._lab = lab
        self._proxy = proxy

    def operations(self, delivery: Delivery) -> list[Operation]:
        """Return what was started for a run."""
        tokens = (delivery.key.id, delivery.forced_key.id)
        return [each for each in self._apis.started() if each.token in tokens]

    def record(self, delivery: Delivery) -> dict[str, Any] | None:
        """Return the run's record."""
        return self._lab.backend.get(delivery.key)

    def expect_one(self, answer: Answer, delivery: Delivery) -> Operation:
        """Check that the run completed with one operation, whose name is recorded."""
        assert (answer.status, answer.outcome) == (200, "completed")
        (operation,) = self.operations(delivery)
        record = self.record(delivery)
        assert record is not None
        assert (record["status"], record["result"]) == ("completed", operation.name)
        return operation

    def said(self, delivery: Delivery) -> str:
        """Return the message of the last log line about the run's job."""
        lines = [each for each in self._proxy.log() if delivery.job in each["message"]]
        return str(lines[-1]["message"])


@pytest.fixture
def runs(apis: Apis, lab: Lab, proxy: Handler) -> Runs:
    return Runs(apis, lab, proxy)
