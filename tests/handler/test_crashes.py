"""The process is killed at each step: what the next delivery gets, and that the run is not lost."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.support.deliveries import Delivery
from tests.support.faults import Fault, Script, Step, eventually
from tests.support.handler import Answer, Handler
from tests.support.lab import Lab, Wire

LEASE_SECONDS = 3
CUT = (ConnectionError, http.client.HTTPException)


@pytest.fixture
def victim(lab: Lab, wire: Wire) -> Iterator[Handler]:
    """Yield a handler of its own, to be killed."""
    settings = {**wire.settings, "ONCE_LEASE_SECONDS": str(LEASE_SECONDS)}
    with lab.handler(settings=settings) as handler:
        yield handler


@contextmanager
def killed(victim: Handler, script: Script, delivery: Delivery) -> Iterator[None]:
    """Send a delivery and kill the process when the block has seen it come to its step."""
    with ThreadPoolExecutor(1) as pool:
        answer: Future[Answer] = pool.submit(victim.post, delivery)
        yield
        victim.kill()
        script.drop()
        with pytest.raises(CUT):
            answer.result()


def test_killed_before_the_claim_the_next_delivery_runs(
    victim: Handler, script: Script, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count")
    script.on(Step.CLAIM, Fault.STOP_BEFORE)

    with killed(victim, script, delivery):
        script.wait_until_held()

    assert handler.post(delivery).outcome == "completed"
    assert len(lab.effects(delivery.key.id)) == 1


def test_killed_after_the_claim_the_next_delivery_waits_for_the_lease_and_runs(
    victim: Handler, script: Script, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count")
    script.on(Step.CLAIM, Fault.STOP_AFTER)

    with killed(victim, script, delivery):
        script.wait_until_held()

    _expect_a_takeover(handler, delivery)
    assert len(lab.effects(delivery.key.id)) == 1


def test_killed_in_the_job_the_next_delivery_waits_for_the_lease_and_runs(
    victim: Handler, script: Script, handler: Handler, lab: Lab
) -> None:
    gate = lab.gate("killed")
    delivery = Delivery("gate", body=json.dumps({"gate": str(gate)}).encode())

    with killed(victim, script, delivery):
        eventually(lambda: bool(lab.effects(delivery.key.id, "entered")), "the job runs")
    gate.touch()

    _expect_a_takeover(handler, delivery)
    assert len(lab.effects(delivery.key.id)) == 1
    first, second = lab.effects(delivery.key.id, "entered")
    assert first["fence"] < second["fence"]


def test_killed_before_the_finish_the_run_is_taken_over_and_the_fence_tells(
    victim: Handler, script: Script, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count")
    script.on(Step.FINISH, Fault.STOP_BEFORE)

    with killed(victim, script, delivery):
        script.wait_until_held()

    _expect_a_takeover(handler, delivery)
    first, second = lab.effects(delivery.key.id)
    assert first["fence"] < second["fence"]


def test_killed_after_the_finish_the_next_delivery_is_a_duplicate(
    victim: Handler, script: Script, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count")
    script.on(Step.FINISH, Fault.STOP_AFTER)

    with killed(victim, script, delivery):
        script.wait_until_held()

    assert handler.post(delivery).outcome == "duplicate"
    assert len(lab.effects(delivery.key.id)) == 1


def test_worker_that_gunicorn_replaces_serves_what_it_left(lab: Lab) -> None:
    """The killed process need not be the whole container: gunicorn starts another worker."""
    with lab.handler(settings={"ONCE_LEASE_SECONDS": str(LEASE_SECONDS)}) as handler:
        delivery = Delivery("die-once")
        with pytest.raises(CUT):
            handler.post(delivery)

        _expect_a_takeover(handler, delivery)
    first, second = lab.effects(delivery.key.id)
    assert first["pid"] != second["pid"]


def _expect_a_takeover(handler: Handler, delivery: Delivery) -> None:
    refused, *_, last = handler.post_until_over(delivery)
    assert (refused.status, refused.outcome) == (409, "in_progress")
    assert 1 <= int(refused.headers["Retry-After"]) <= LEASE_SECONDS
    assert (last.status, last.outcome) == (200, "completed")
    assert handler.post(delivery).outcome == "duplicate"
