"""Writes that the store refuses, or whose answers are lost: each ends as the protocol says."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.deliveries import Delivery
from tests.support.faults import Fault, Script, Step, eventually
from tests.support.handler import Handler
from tests.support.lab import Lab, Wire


def record(status: str = "in_progress", **fields: Any) -> dict[str, Any]:
    """Return a record of another attempt, whose lease is over unless the test says otherwise."""
    expire_at = datetime.now(UTC) + timedelta(days=7)
    return {
        "status": status,
        "attempt_id": "another",
        "lease_seconds": 0,
        "expire_at": expire_at,
        **fields,
    }


LIVE: dict[str, Any] = {"lease_seconds": 600}


@pytest.fixture
def delivery() -> Delivery:
    return Delivery("count")


# --- Claim ----------------------------------------------------------------------------------------


def test_claim_whose_answer_was_lost_is_found_to_be_ours(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    script.on(Step.CLAIM, Fault.LOSE)

    assert wired_handler.post(delivery).outcome == "completed"

    assert len(lab.effects(delivery.key.id)) == 1
    assert script.counted(delivery.key.id) == {Step.CLAIM: 2, Step.READ: 1, Step.FINISH: 1}


def test_takeover_whose_answer_was_lost_is_found_to_be_ours(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    lab.backend.put(delivery.key, record())
    script.on(Step.TAKEOVER, Fault.LOSE)

    assert wired_handler.post(delivery).outcome == "completed"

    assert len(lab.effects(delivery.key.id)) == 1
    assert script.counted(delivery.key.id)[Step.TAKEOVER] == 2


def test_record_that_vanishes_between_the_refused_create_and_the_read_is_created(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    lab.backend.put(delivery.key, record(**LIVE))
    script.on(Step.READ, Fault.ADD, act=lambda: lab.backend.delete(delivery.key))

    assert wired_handler.post(delivery).outcome == "completed"
    assert len(lab.effects(delivery.key.id)) == 1


def test_record_that_is_taken_over_by_another_before_our_takeover_is_in_progress(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    lab.backend.put(delivery.key, record())
    script.on(Step.TAKEOVER, Fault.ADD, act=lambda: lab.backend.put(delivery.key, record(**LIVE)))

    answer = wired_handler.post(delivery)

    assert (answer.status, answer.outcome) == (409, "in_progress")
    assert 590 <= int(answer.headers["Retry-After"]) <= 600
    assert lab.effects(delivery.key.id) == []


def test_record_that_is_completed_by_another_before_our_takeover_is_a_duplicate(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    lab.backend.put(delivery.key, record())
    script.on(
        Step.TAKEOVER, Fault.ADD, act=lambda: lab.backend.put(delivery.key, record("completed"))
    )

    assert wired_handler.post(delivery).outcome == "duplicate"
    assert lab.effects(delivery.key.id) == []


def test_record_that_is_deleted_before_our_takeover_is_created(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    lab.backend.put(delivery.key, record())
    script.on(Step.TAKEOVER, Fault.ADD, act=lambda: lab.backend.delete(delivery.key))

    assert wired_handler.post(delivery).outcome == "completed"
    assert len(lab.effects(delivery.key.id)) == 1


def test_record_that_changes_under_three_takeovers_sends_the_delivery_back_at_once(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    lab.backend.put(delivery.key, record())
    script.on(
        Step.TAKEOVER,
        Fault.ADD,
        times=3,
        act=lambda: lab.backend.put(delivery.key, record(attempt_id=str(datetime.now(UTC)))),
    )

    answer = wired_handler.post(delivery)

    assert (answer.status, answer.outcome, answer.headers["Retry-After"]) == (
        409,
        "in_progress",
        "1",
    )
    assert wired_handler.post(delivery).outcome == "completed"


def test_expired_end_that_was_not_deleted_yet_is_taken_over(
    delivery: Delivery, wired_handler: Handler, lab: Lab
) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    lab.backend.put(delivery.key, record("completed", expire_at=past, result="old", extra="stays"))

    assert wired_handler.post(delivery).outcome == "completed"

    found = lab.backend.get(delivery.key)
    assert found is not None
    assert found["result"] is None
    assert found["attempt_id"] != "another"
    assert found["expire_at"] > datetime.now(UTC)


def test_expired_record_in_progress_is_judged_by_its_lease_alone(
    wired_handler: Handler, lab: Lab
) -> None:
    past = datetime.now(UTC) - timedelta(days=30)
    live, over = Delivery("count"), Delivery("count")
    lab.backend.put(live.key, record(expire_at=past, **LIVE))
    lab.backend.put(over.key, record(expire_at=datetime.now(UTC) + timedelta(days=30)))

    assert wired_handler.post(live).outcome == "in_progress"
    assert wired_handler.post(over).outcome == "completed"


def test_record_by_hand_without_lease_seconds_is_judged_by_the_reader(
    delivery: Delivery, wired_handler: Handler, brief_handler: Handler, lab: Lab
) -> None:
    lab.backend.put(delivery.key, {"status": "in_progress", "attempt_id": "by hand"})

    answer = wired_handler.post(delivery)
    assert (answer.status, answer.outcome) == (409, "in_progress")
    assert 350 <= int(answer.headers["Retry-After"]) <= 360

    assert brief_handler.post_until_over(delivery)[-1].outcome == "completed"


# --- Finish ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "outcome"), [("count", "completed"), ("fatal", "failed")])
def test_finish_whose_answer_was_lost_is_found_to_be_done(
    function: str, outcome: str, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    delivery = Delivery(function)
    script.on(Step.FINISH, Fault.LOSE)

    assert wired_handler.post(delivery).outcome == outcome

    assert len(lab.effects(delivery.key.id)) == 1
    found = lab.backend.get(delivery.key)
    assert found is not None
    assert found["status"] == outcome


def test_record_that_vanished_before_the_finish_is_created_as_completed(
    delivery: Delivery, wired_handler: Handler, handler: Handler, script: Script, lab: Lab
) -> None:
    script.on(Step.FINISH, Fault.ADD, act=lambda: lab.backend.delete(delivery.key))

    assert wired_handler.post(delivery).outcome == "completed"

    assert handler.post(delivery).outcome == "duplicate"
    assert len(lab.effects(delivery.key.id)) == 1


def test_own_claim_that_was_written_again_is_finished_with_its_new_version(
    delivery: Delivery, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    def touch() -> None:
        found = lab.backend.get(delivery.key)
        assert found is not None
        lab.backend.put(delivery.key, {**found, "note": "by hand"})

    script.on(Step.FINISH, Fault.ADD, act=touch)

    assert wired_handler.post(delivery).outcome == "completed"
    found = lab.backend.get(delivery.key)
    assert found is not None
    assert found["status"] == "completed"


@pytest.mark.parametrize("function", ["count", "fatal"])
def test_finish_of_a_run_that_another_holds_loses_the_lease_and_leaves_its_record(
    function: str, wired_handler: Handler, script: Script, lab: Lab
) -> None:
    delivery = Delivery(function)
    theirs = record(**LIVE)
    script.on(Step.FINISH, Fault.ADD, act=lambda: lab.backend.put(delivery.key, theirs))

    answer = wired_handler.post(delivery)

    assert (answer.status, answer.outcome) == (409, "lease_lost")
    assert lab.backend.get(delivery.key) == theirs


# --- Release --------------------------------------------------------------------------------------


def test_release_whose_answer_was_lost_is_found_to_be_done(
    wired_handler: Handler, script: Script, lab: Lab
) -> None:
    delivery = Delivery("raise")
    script.on(Step.RELEASE, Fault.LOSE)

    assert wired_handler.post(delivery).outcome == "released"
    assert lab.backend.get(delivery.key) is None


def test_release_of_a_run_that_another_holds_leaves_its_record(
    wired_handler: Handler, script: Script, lab: Lab
) -> None:
    delivery = Delivery("raise")
    theirs = record(**LIVE)
    script.on(Step.RELEASE, Fault.ADD, act=lambda: lab.backend.put(delivery.key, theirs))

    answer = wired_handler.post(delivery)

    assert (answer.status, answer.outcome) == (409, "lease_lost")
    assert lab.backend.get(delivery.key) == theirs


# --- Writes that come late ------------------------------------------------------------------------


def test_writes_that_come_after_their_retries_change_nothing(
    wired_handler: Handler, script: Script, lab: Lab
) -> None:
    """Each first try is kept on the way; the retry gets through; then the first arrives."""
    claimed, finished, released = Delivery("count"), Delivery("count"), Delivery("raise")
    script.on(Step.CLAIM, Fault.LATE, run_id=claimed.key.id)
    script.on(Step.FINISH, Fault.LATE, run_id=finished.key.id)
    script.on(Step.RELEASE, Fault.LATE, run_id=released.key.id)

    answers = wired_handler.post_all([claimed, finished, released])
    assert [each.outcome for each in answers] == ["completed", "completed", "released"]
    assert wired_handler.post(replace(released, function="count")).outcome == "completed"
    before = [lab.backend.get(each.key) for each in (claimed, finished, released)]
    script.deliver_late()

    assert [lab.backend.get(each.key) for each in (claimed, finished, released)] == before
    assert len(lab.effects(claimed.key.id)) == len(lab.effects(finished.key.id)) == 1
    assert [each.outcome for each in wired_handler.post_all([claimed, finished])] == [
        "duplicate",
        "duplicate",
    ]


# --- Stalls ---------------------------------------------------------------------------------------


def test_worker_that_stalls_between_claim_and_job_until_the_lease_is_over_does_not_run(
    delivery: Delivery, lab: Lab, script: Script, wire: Wire
) -> None:
    settings = {**wire.settings, "ONCE_LEASE_SECONDS": "1"}
    with lab.handler(settings=settings) as stalling, ThreadPoolExecutor(1) as pool:
        script.on(Step.CLAIM, Fault.STOP_AFTER)
        stalled = pool.submit(stalling.post, delivery)
        script.wait_until_held()
        _pass(1.1)
        script.resume()
        answer = stalled.result()

    assert (answer.status, answer.outcome) == (500, "released")
    assert lab.effects(delivery.key.id) == []
    assert lab.backend.get(delivery.key) is None


def test_worker_that_stalls_until_another_took_over_neither_runs_nor_deletes(
    delivery: Delivery, lab: Lab, script: Script, wire: Wire, handler: Handler
) -> None:
    settings = {**wire.settings, "ONCE_LEASE_SECONDS": "1"}
    with lab.handler(settings=settings) as stalling, ThreadPoolExecutor(1) as pool:
        script.on(Step.CLAIM, Fault.STOP_AFTER)
        stalled = pool.submit(stalling.post, delivery)
        script.wait_until_held()
        assert handler.post_until_over(delivery)[-1].outcome == "completed"
        script.resume()
        answer = stalled.result()

    assert (answer.status, answer.outcome) == (409, "lease_lost")
    assert len(lab.effects(delivery.key.id)) == 1
    found = lab.backend.get(delivery.key)
    assert found is not None
    assert found["status"] == "completed"


def test_job_that_takes_longer_than_its_lease_is_recorded_if_nobody_took_over(
    brief_handler: Handler, lab: Lab
) -> None:
    gate = lab.gate("long")
    delivery = Delivery("gate", body=json.dumps({"gate": str(gate)}).encode())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(brief_handler.post, delivery)
        eventually(lambda: bool(lab.effects(delivery.key.id, "entered")), "the job runs")
        _pass(2.1)
        gate.touch()

        assert answer.result().outcome == "completed"


def _pass(seconds: float) -> None:
    """Let the store's clock move on by more than a lease."""
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    reached: Callable[[], bool] = lambda: datetime.now(UTC) >= end  # noqa: E731
    eventually(reached, "the time")
