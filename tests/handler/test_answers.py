"""The table of answers, row by row, over HTTP against gunicorn."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.deliveries import Delivery, without
from tests.support.faults import Fault, Script, Step, eventually
from tests.support.handler import Answer, Handler
from tests.support.lab import Lab


def expect(answer: Answer, status: int, outcome: str, delivery: Delivery) -> None:
    """Check everything that an answer about a run must be."""
    assert (answer.status, answer.outcome) == (status, outcome)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body == {"outcome": outcome, "run_id": delivery.key.id, "job": delivery.job}
    assert ("Retry-After" in answer.headers) == (outcome == "in_progress")


def test_job_that_returns_is_completed_and_its_repeat_a_duplicate(
    handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count")

    expect(handler.post(delivery), 200, "completed", delivery)
    expect(handler.post(delivery), 200, "duplicate", delivery)

    assert len(lab.effects(delivery.key.id)) == 1
    record = lab.backend.get(delivery.key)
    assert record is not None
    assert record["status"] == "completed"


def test_fatal_is_failed_and_its_repeat_a_duplicate(handler: Handler, lab: Lab) -> None:
    delivery = Delivery("fatal")

    expect(handler.post(delivery), 200, "failed", delivery)
    expect(handler.post(delivery), 200, "duplicate", delivery)

    assert len(lab.effects(delivery.key.id)) == 1
    record = lab.backend.get(delivery.key)
    assert record is not None
    assert record["status"] == "failed"
    assert "the-text-of-an-exception" in record["error"]


def test_run_that_another_attempt_holds_is_in_progress(handler: Handler, lab: Lab) -> None:
    gate = lab.gate("held")
    delivery = Delivery("gate", body=json.dumps({"gate": str(gate)}).encode())
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(handler.post, delivery)
        eventually(lambda: bool(lab.effects(delivery.key.id, "entered")), "the job runs")

        second = handler.post(delivery)

        gate.touch()
        expect(second, 409, "in_progress", delivery)
        assert 1 <= int(second.headers["Retry-After"]) <= 360
        expect(first.result(), 200, "completed", delivery)
    assert len(lab.effects(delivery.key.id)) == 1


def test_attempt_that_was_overtaken_has_lost_its_lease(brief_handler: Handler, lab: Lab) -> None:
    closed, opened = lab.gate("overtaken"), lab.gate("overtaking")
    opened.touch()
    slow = Delivery("gate", body=json.dumps({"gate": str(closed)}).encode())
    quick = Delivery(
        "gate",
        job=slow.job,
        schedule_time=slow.schedule_time,
        body=json.dumps({"gate": str(opened)}).encode(),
    )
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(brief_handler.post, slow)
        eventually(lambda: bool(lab.effects(slow.key.id, "entered")), "the job runs")
        answers = brief_handler.post_until_over(quick)
        closed.touch()
        lost = first.result()

    expect(lost, 409, "lease_lost", slow)
    expect(answers[-1], 200, "completed", slow)
    attempts = lab.effects(slow.key.id, "entered")
    assert len(attempts) == 2
    assert attempts[0]["fence"] < attempts[1]["fence"]
    record = lab.backend.get(slow.key)
    assert record is not None
    assert (record["status"], record["attempt_id"]) == ("completed", attempts[1]["attempt_id"])


@pytest.mark.parametrize("function", ["raise", "exit"])
def test_job_that_raises_is_released_and_runs_again(
    function: str, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery(function)

    expect(handler.post(delivery), 500, "released", delivery)
    assert lab.backend.get(delivery.key) is None
    expect(handler.post(delivery), 500, "released", delivery)

    assert len(lab.effects(delivery.key.id)) == 2


def test_job_that_fails_once_is_completed_by_the_retry(handler: Handler, lab: Lab) -> None:
    delivery = Delivery("fail-once")

    expect(handler.post(delivery), 500, "released", delivery)
    expect(handler.post(delivery), 200, "completed", delivery)
    expect(handler.post(delivery), 200, "duplicate", delivery)


def test_release_that_the_store_refuses_is_unreleased(
    wired_handler: Handler, script: Script, lab: Lab
) -> None:
    delivery = Delivery("raise")
    script.on(Step.RELEASE, Fault.DENY)

    expect(wired_handler.post(delivery), 500, "unreleased", delivery)

    expect(wired_handler.post(delivery), 409, "in_progress", delivery)
    assert len(lab.effects(delivery.key.id)) == 1


@pytest.mark.parametrize(("function", "status"), [("count", "completed"), ("fatal", "failed")])
def test_end_that_the_store_refuses_is_unrecorded_until_it_can_be_written(
    function: str, status: str, wired_handler: Handler, script: Script, lab: Lab, handler: Handler
) -> None:
    delivery = Delivery(function)
    script.on(Step.FINISH, Fault.DENY, run_id=delivery.key.id, times=None)

    expect(wired_handler.post(delivery), 200, "unrecorded", delivery)
    expect(wired_handler.post(delivery), 200, "unrecorded", delivery)
    expect(handler.post(delivery), 409, "in_progress", delivery)  # another process cannot know
    other = Delivery("count")
    expect(wired_handler.post(other), 200, "completed", other)
    script.heal()
    assert wired_handler.post(Delivery("count")).outcome == "completed"

    record = lab.backend.get(delivery.key)
    assert record is not None
    assert record["status"] == status
    expect(handler.post(delivery), 200, "duplicate", delivery)
    assert len(lab.effects(delivery.key.id)) == 1


def test_claim_that_the_store_refuses_does_not_run(
    wired_handler: Handler, script: Script, lab: Lab
) -> None:
    delivery = Delivery("count")
    script.on(Step.CLAIM, Fault.DENY)

    expect(wired_handler.post(delivery), 500, "store_unavailable", delivery)
    assert lab.effects(delivery.key.id) == []

    expect(wired_handler.post(delivery), 200, "completed", delivery)


@pytest.mark.parametrize(
    "name",
    [
        "X-CloudScheduler-ScheduleTime",
        "X-CloudScheduler-JobName",
        "X-Scheduler-Project",
        "X-Scheduler-Region",
    ],
)
def test_delivery_without_a_header_is_a_bad_request_that_names_it(
    name: str, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count")

    answer = handler.request("POST", without(delivery.headers, name))

    assert (answer.status, answer.outcome) == (400, "bad_request")
    assert name in answer.body["detail"]
    assert answer.body["run_id"] is None
    assert lab.backend.get(delivery.key) is None


def test_delivery_without_a_schedule_time_is_told_how_to_run_a_job_by_hand(
    handler: Handler,
) -> None:
    answer = handler.request("POST", {})

    assert answer.status == 400
    assert "gcloud scheduler jobs run" in answer.body["detail"]


def test_function_that_nobody_registered_is_an_unknown_job(handler: Handler, lab: Lab) -> None:
    delivery = Delivery("no-such-function")

    answer = handler.post(delivery)

    assert (answer.status, answer.outcome) == (404, "unknown_job")
    assert answer.body["job"] == delivery.job
    assert "'no-such-function'" in answer.body["detail"]
    assert lab.backend.get(delivery.key) is None


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_method_other_than_post_is_not_allowed(method: str, handler: Handler, lab: Lab) -> None:
    delivery = Delivery("count")

    answer = handler.request(method, delivery.headers)

    assert (answer.status, answer.outcome) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "POST"
    assert lab.backend.get(delivery.key) is None


def test_no_answer_holds_the_text_of_an_exception_but_the_log_does(
    handler: Handler, lab: Lab
) -> None:
    for function in ("raise", "fatal", "exit"):
        assert "the-text-of-an-exception" not in handler.post(Delivery(function)).text
    assert "the-text-of-an-exception" in handler.output()
