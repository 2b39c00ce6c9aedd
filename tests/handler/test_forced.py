"""Forced runs: they carry the next schedule time, and must not swallow the run of that time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from once.answer import Outcome
from once.protocol import Claim, Durations, Guard, Report

from tests.support.deliveries import Delivery, now_text
from tests.support.faults import Fault, Script, Step, eventually
from tests.support.handler import Handler
from tests.support.lab import Lab, Wire

DURATIONS = Durations(lease=timedelta(minutes=6), retention=timedelta(days=7))
HOUR = timedelta(hours=1)


def forced(ahead: timedelta = HOUR, function: str = "count") -> Delivery:
    return Delivery(function, schedule_time=now_text(ahead))


class Worker:
    """A process of its own with a clock of its own; its job succeeds unless told otherwise."""

    def __init__(self, lab: Lab, clock_ahead: timedelta = timedelta(0)) -> None:
        self.claims: list[Claim] = []
        self.guard = Guard(
            lab.backend.store(), DURATIONS, wall_clock=lambda: datetime.now(UTC) + clock_ahead
        )

    def take(self, delivery: Delivery) -> Report:
        return self.guard.run(delivery.identity(), self.claims.append)


def test_forced_run_runs_once_and_leaves_the_scheduled_run_alone(
    handler: Handler, lab: Lab
) -> None:
    delivery = forced()

    assert handler.post(delivery).outcome == "completed"
    assert handler.post(delivery).outcome == "duplicate"

    assert len(lab.effects(delivery.forced_key.id)) == 1
    assert lab.backend.get(delivery.forced_key) is not None
    assert lab.backend.get(delivery.key) is None


def test_scheduled_run_happens_after_its_forced_run(handler: Handler, lab: Lab) -> None:
    delivery = forced(timedelta(seconds=13))  # forced for three seconds more

    assert handler.post(delivery).outcome == "completed"
    _wait_until_its_slot_has_come(delivery)
    assert handler.post(delivery).outcome == "completed"
    assert handler.post(delivery).outcome == "duplicate"

    assert len(lab.effects(delivery.forced_key.id)) == 1
    assert len(lab.effects(delivery.key.id)) == 1


def test_forced_run_retried_after_its_slot_has_come_joins_the_scheduled_run(
    handler: Handler, lab: Lab
) -> None:
    delivery = forced(timedelta(seconds=13), "raise")

    assert handler.post(delivery).outcome == "released"
    _wait_until_its_slot_has_come(delivery)
    delivery = replace(delivery, function="count")
    assert handler.post(delivery).outcome == "completed"  # the retry of the forced run
    assert handler.post(delivery).outcome == "duplicate"  # the scheduled run itself

    assert len(lab.effects(delivery.key.id)) == 1


def test_run_forced_in_the_last_ten_seconds_is_the_scheduled_run(
    handler: Handler, lab: Lab
) -> None:
    delivery = forced(timedelta(seconds=9))

    assert handler.post(delivery).outcome == "completed"
    assert lab.backend.get(delivery.key) is not None
    assert lab.backend.get(delivery.forced_key) is None


def test_clock_ahead_does_not_make_a_forced_run_the_scheduled_run(lab: Lab) -> None:
    delivery = forced()
    worker = Worker(lab, clock_ahead=2 * HOUR)

    assert worker.take(delivery).outcome is Outcome.COMPLETED
    assert worker.take(delivery).outcome is Outcome.DUPLICATE
    assert Worker(lab).take(delivery).outcome is Outcome.DUPLICATE

    assert [claim.key for claim in worker.claims] == [delivery.forced_key]
    assert lab.backend.get(delivery.key) is None  # the claim of the wrong kind was undone


def test_clock_behind_does_not_make_a_scheduled_run_a_forced_run(lab: Lab) -> None:
    delivery = Delivery()
    worker = Worker(lab, clock_ahead=-2 * HOUR)

    assert worker.take(delivery).outcome is Outcome.COMPLETED
    assert Worker(lab).take(delivery).outcome is Outcome.DUPLICATE
    assert Worker(lab, clock_ahead=-2 * HOUR).take(delivery).outcome is Outcome.DUPLICATE

    assert [claim.key for claim in worker.claims] == [delivery.key]
    assert lab.backend.get(delivery.forced_key) is None


def test_clocks_that_are_wrong_both_ways_agree_on_one_forced_run(lab: Lab) -> None:
    delivery = forced()
    workers = [Worker(lab, clock_ahead=sign * 400 * 24 * HOUR) for sign in (-1, 1)]

    outcomes = [worker.take(delivery).outcome for worker in workers]

    assert outcomes == [Outcome.COMPLETED, Outcome.DUPLICATE]
    assert lab.backend.get(delivery.key) is None


def test_slot_that_comes_between_the_question_and_the_claim_makes_it_the_scheduled_run(
    lab: Lab, wire: Wire, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read says forced; by the commit time of the claim the slot has come."""
    delivery = forced(timedelta(seconds=13))
    guard = Guard(wire.store(monkeypatch), DURATIONS)
    claims: list[Claim] = []
    script.on(Step.CLAIM, Fault.ADD, act=lambda: _wait_until_its_slot_has_come(delivery))

    assert guard.run(delivery.identity(), claims.append).outcome is Outcome.COMPLETED

    assert [claim.key for claim in claims] == [delivery.key]
    assert lab.backend.get(delivery.forced_key) is None


def test_next_run_is_not_a_duplicate_of_a_run_that_this_process_saw_end(handler: Handler) -> None:
    delivery = Delivery("count")
    assert handler.post(delivery).outcome == "completed"

    following = replace(delivery, schedule_time=now_text(HOUR))
    assert handler.post(following).outcome == "completed"
    assert handler.post(delivery).outcome == "duplicate"


def _wait_until_its_slot_has_come(delivery: Delivery) -> None:
    eventually(
        lambda: delivery.identity().key(datetime.now(UTC)) == delivery.key, "the slot has come"
    )
