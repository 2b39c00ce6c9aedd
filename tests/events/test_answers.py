"""What becomes of an event, over HTTP against gunicorn, on both stores."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.events.conftest import APP
from tests.support.faults import eventually
from tests.support.handler import Answer, Handler
from tests.support.lab import Lab
from tests.support.pushes import CloudEvent, Message, Request, time_text


def post(handler: Handler, request: Request) -> Answer:
    return handler.request("POST", request.headers, request.body)


def outcomes(answers: Sequence[Answer]) -> list[tuple[int, str | None]]:
    return [(answer.status, answer.outcome) for answer in answers]


COMPLETED = (200, "completed")
DUPLICATE = (200, "duplicate")
FAILED = (200, "failed")
DROPPED = (200, "dropped")
RELEASED = (500, "released")
IN_PROGRESS = (409, "in_progress")


def test_event_that_comes_twice_takes_effect_once(handler: Handler, lab: Lab) -> None:
    request = Message("count").wrapped
    key = request.key("count")

    answers = [post(handler, request), post(handler, request)]

    assert outcomes(answers) == [COMPLETED, DUPLICATE]
    assert answers[0].body == {"outcome": "completed", "run_id": key.id, "job": "count"}
    (effect,) = lab.effects(key.id)
    assert 0 < effect["remaining"] <= 4
    record = lab.backend.get(key)
    assert record is not None
    assert (record["status"], record["handler"]) == ("completed", "count")
    assert record["event_id"] == effect["id"]
    assert record["expire_at"] > record["finished_at"]


def test_event_that_comes_ten_times_at_once_takes_effect_once(handler: Handler, lab: Lab) -> None:
    gate = lab.gate("ten")
    request = Message("gate", attributes={"gate": str(gate)}).wrapped
    key = request.key("gate")
    with ThreadPoolExecutor(10) as pool:
        answers = [pool.submit(post, handler, request) for _ in range(10)]
        eventually(lambda: sum(each.done() for each in answers) == 9, "nine are answered")

        gate.touch()

        words = sorted(outcomes([each.result() for each in answers]))

    assert words == sorted([COMPLETED, *[IN_PROGRESS] * 9])
    assert len(lab.effects(key.id)) == 1


def test_message_is_one_event_in_every_form_of_a_push(handler: Handler, lab: Lab) -> None:
    message = Message("count", attributes={"kind": "test"})

    answers = [post(handler, message.wrapped), post(handler, message.unwrapped)]

    assert outcomes(answers) == [COMPLETED, DUPLICATE]
    (effect,) = lab.effects(message.wrapped.key("count").id)
    assert effect["attributes"] == {"kind": "test"}


def test_unwrapped_message_has_no_attributes_but_its_own(handler: Handler, lab: Lab) -> None:
    request = Message("count", attributes={"kind": "test"}).unwrapped

    assert post(handler, request).outcome == "completed"

    (effect,) = lab.effects(request.key("count").id)
    assert effect["attributes"] == {"kind": "test"}


def test_cloud_event_is_one_event_in_both_modes(handler: Handler, lab: Lab) -> None:
    event = CloudEvent()

    answers = [post(handler, event.binary), post(handler, event.structured)]

    assert outcomes(answers) == [COMPLETED, DUPLICATE]
    (effect,) = lab.effects(event.binary.key("count").id)
    assert effect["subject"] == "objects/a.csv"
    assert effect["type"] == "test.counted"


def test_message_through_eventarc_finds_its_handler_by_topic(handler: Handler, lab: Lab) -> None:
    request = Message("eventarc-sub-1").from_eventarc()

    assert outcomes([post(handler, request), post(handler, request)]) == [COMPLETED, DUPLICATE]

    assert len(lab.effects(request.key("by_topic").id)) == 1


def test_function_that_raises_is_released_and_runs_again(handler: Handler, lab: Lab) -> None:
    request = Message("fail-once").wrapped
    key = request.key("fail_once")

    first = post(handler, request)

    assert outcomes([first]) == [RELEASED]
    assert "the-text" not in first.text
    assert lab.backend.get(key) is None
    assert outcomes([post(handler, request), post(handler, request)]) == [COMPLETED, DUPLICATE]
    assert len(lab.effects(key.id)) == 2


def test_fatal_is_acknowledged_once_recorded_and_never_retried(handler: Handler, lab: Lab) -> None:
    request = Message("fatal").wrapped
    key = request.key("fatal")

    assert outcomes([post(handler, request), post(handler, request)]) == [FAILED, DUPLICATE]

    assert len(lab.effects(key.id)) == 1
    record = lab.backend.get(key)
    assert record is not None
    assert record["status"] == "failed"


def test_crashed_attempt_is_taken_over_when_its_lease_is_over(lab: Lab) -> None:
    request = Message("die-once").wrapped
    key = request.key("die_once")
    with lab.handler(source=APP, settings={"ONCE_EVENT_LEASE_SECONDS": "3"}) as handler:
        with pytest.raises((http.client.HTTPException, OSError)):
            post(handler, request)
        handler.wait_until_serving()
        answers: list[Answer] = []

        def over() -> bool:
            answers.append(post(handler, request))
            return answers[-1].outcome != "in_progress"

        eventually(over, "the lease is over")

        assert outcomes(answers) == [*[IN_PROGRESS] * (len(answers) - 1), COMPLETED]
        assert len(answers) > 1
        assert post(handler, request).outcome == "duplicate"
    crashed, took_over = lab.effects(key.id, "begun")
    assert crashed["fence"] < took_over["fence"]
    assert len(lab.effects(key.id)) == 1


def test_event_lease_is_its_own(brief_handler: Handler, lab: Lab) -> None:
    request = Message("count").wrapped

    post(brief_handler, request)

    (effect,) = lab.effects(request.key("count").id)
    assert effect["remaining"] <= 2


# --- Two functions of one event -------------------------------------------------------------------


def test_two_functions_of_one_event_both_run_and_the_worst_is_answered(
    handler: Handler, lab: Lab
) -> None:
    request = Message("both").wrapped
    first, second = request.key("first").id, request.key("second").id
    assert first != second

    answers = [post(handler, request) for _ in range(3)]

    assert outcomes(answers) == [RELEASED, COMPLETED, DUPLICATE]
    assert answers[0].body["job"] == "second"
    assert len(lab.effects(first, "first")) == 1
    assert len(lab.effects(second, "second")) == 2


# --- Rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["message", "event"])
def test_event_older_than_max_age_is_acknowledged_and_not_run(
    form: str, handler: Handler, lab: Lab
) -> None:
    old = time_text(timedelta(hours=1, minutes=1))
    request = (
        Message("aged", published=old).wrapped
        if form == "message"
        else CloudEvent("test.aged", time=old).binary
    )
    key = request.key("aged")

    assert outcomes([post(handler, request), post(handler, request)]) == [DROPPED, DUPLICATE]

    assert lab.effects(key.id) == []
    record = lab.backend.get(key)
    assert record is not None
    assert record["status"] == "failed"
    assert "more than max_age, 1:00:00" in record["error"]
    (line,) = [each for each in handler.log() if key.id in str(each) and "dropped" in str(each)]
    assert line["severity"] == "WARNING"
    assert line["logging.googleapis.com/labels"]["outcome"] == "dropped"


def test_event_without_a_time_is_not_too_old(handler: Handler) -> None:
    headers = {"ce-id": time_text(), "ce-source": "s", "ce-type": "test.aged"}

    assert post(handler, Request(headers, b"")).outcome == "completed"


@pytest.mark.parametrize("ahead", [timedelta(minutes=10), -timedelta(minutes=10)])
def test_clock_that_is_wrong_drops_no_young_event_and_keeps_no_old_one(
    ahead: timedelta, lab: Lab
) -> None:
    settings = {"TEST_CLOCK_AHEAD_SECONDS": str(ahead.total_seconds())}
    young = Message("aged", published=time_text(timedelta(minutes=55))).wrapped
    old = Message("aged", published=time_text(timedelta(minutes=65))).wrapped
    with lab.handler(source=APP, settings=settings) as handler:
        answers = [post(handler, young), post(handler, old)]

    assert outcomes(answers) == [COMPLETED, DROPPED]


def test_event_whose_attempt_crashed_is_not_dropped_while_its_lease_lives(lab: Lab) -> None:
    """max_age is 5 s: the event is older than that only after the lease of 2 s is over."""
    request = Message("aged-crash").wrapped
    key = request.key("aged_crash")
    subscription = {"subscription": "projects/p/subscriptions/aged-crash", "maxAgeSeconds": 5}
    settings = {
        "ONCE_EVENT_LEASE_SECONDS": "2",
        "ONCE_EVENTS": json.dumps({"aged-crash": subscription}),
    }
    with lab.handler(source=APP, settings=settings) as handler:
        with pytest.raises((http.client.HTTPException, OSError)):
            post(handler, request)
        handler.wait_until_serving()
        seen: list[str | None] = []

        def over() -> bool:
            seen.append(post(handler, request).outcome)
            return seen[-1] != "in_progress"

        eventually(over, "the lease is over")

    # A slow machine may bring the retry only after the event has become too old; the claim of the
    # crashed attempt was respected until then all the same.
    assert seen[:-1] == ["in_progress"] * (len(seen) - 1)
    assert len(seen) > 1
    assert seen[-1] in ("completed", "dropped")
    assert len(lab.effects(key.id)) == (seen[-1] == "completed")


@pytest.mark.parametrize(("attempt", "outcome"), [(None, COMPLETED), (3, COMPLETED), (4, DROPPED)])
def test_delivery_beyond_max_attempts_is_dropped_where_attempts_are_counted(
    attempt: int | None, outcome: tuple[int, str], handler: Handler, lab: Lab
) -> None:
    request = Message("tried", attempt=attempt).wrapped

    assert outcomes([post(handler, request)]) == [outcome]

    assert len(lab.effects(request.key("tried").id)) == (outcome == COMPLETED)


@pytest.mark.parametrize(
    ("function", "error", "outcome"),
    [
        ("ruled", "value", FAILED),  # permanent
        ("ruled", "timeout", RELEASED),
        ("ruled", "busy", RELEASED),  # in no table
        ("strict", "other", FAILED),
        ("strict", "timeout", RELEASED),
        ("strict", "busy", RELEASED),
    ],
)
def test_error_ends_the_event_or_brings_it_back_as_the_rules_say(
    function: str, error: str, outcome: tuple[int, str], handler: Handler
) -> None:
    request = Message(function, attributes={"raise": error}).wrapped

    assert outcomes([post(handler, request)]) == [outcome]


def test_message_published_again_is_for_the_subscription_that_it_names(
    handler: Handler, lab: Lab
) -> None:
    def meant_for(subscription: str) -> Request:
        full = f"projects/p/subscriptions/{subscription}"
        return Message("count", attributes={"once-only-for": full}).wrapped

    mine, other = meant_for("count"), meant_for("other")

    assert outcomes([post(handler, mine), post(handler, other)]) == [COMPLETED, DROPPED]
    assert lab.effects(other.key("count").id) == []


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        Message("count", data=b""),
        Message("count", data=b"", attributes={"only": "attributes"}),
        Message("count", data=b"[1, 2]"),
        Message("count", data=b"\xff\xfe no text"),
    ],
)
def test_message_that_is_odd_but_whole_is_handled(
    message: Message, handler: Handler, lab: Lab
) -> None:
    assert post(handler, message.wrapped).outcome == "completed"

    (effect,) = lab.effects(message.wrapped.key("count").id)
    assert effect["size"] == len(message.data)


def test_message_of_ten_megabytes_is_handled(handler: Handler, lab: Lab) -> None:
    request = Message("count", data=b"x" * 10_000_000).wrapped

    assert outcomes([post(handler, request), post(handler, request)]) == [COMPLETED, DUPLICATE]

    (effect,) = lab.effects(request.key("count").id)
    assert effect["size"] == 10_000_000


@pytest.mark.parametrize("data", [b"", b"no json", b"\xff"])
def test_data_that_is_not_json_ends_the_event_of_a_function_that_needs_it(
    data: bytes, handler: Handler
) -> None:
    request = Message("json", data=data).wrapped

    assert outcomes([post(handler, request), post(handler, request)]) == [FAILED, DUPLICATE]


def test_json_that_is_no_object_brings_the_event_back_when_the_function_trips_over_it(
    handler: Handler,
) -> None:
    assert outcomes([post(handler, Message("json", data=b"[1]").wrapped)]) == [RELEASED]


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (Message("count", id="").wrapped, "id"),
        (Request({}, b'{"message": {"data": "?"}, "subscription": "s"}'), "message.data"),
        (Request({"Content-Type": "application/cloudevents+json"}, b"[]"), "CloudEvent"),
    ],
)
def test_envelope_that_cannot_be_read_is_not_acknowledged(
    request_: Request, named: str, handler: Handler
) -> None:
    answer = post(handler, request_)

    assert outcomes([answer]) == [(400, "bad_request")]
    assert named in answer.body["detail"]


@pytest.mark.parametrize("request_", [Message("nobody").wrapped, CloudEvent("test.nobody").binary])
def test_event_that_nobody_handles_is_not_acknowledged(request_: Request, handler: Handler) -> None:
    answer = post(handler, request_)

    assert outcomes([answer]) == [(404, "unknown_job")]
    assert "nobody" in answer.body["detail"]
    assert "count" in answer.body["detail"]


def test_subject_of_a_megabyte_is_cut_in_the_record_and_whole_for_the_function(
    handler: Handler, lab: Lab
) -> None:
    request = CloudEvent(subject="s" * 1_500_000).structured

    assert post(handler, request).outcome == "completed"

    key = request.key("count")
    (effect,) = lab.effects(key.id)
    assert len(effect["subject"]) == 1_500_000
    record = lab.backend.get(key)
    assert record is not None
    assert len(record["subject"]) == 1_000


def test_scheduled_run_with_an_event_for_a_body_is_no_event(handler: Handler) -> None:
    headers = {
        "X-CloudScheduler-JobName": "count",
        "X-CloudScheduler-ScheduleTime": time_text(),
        "X-Scheduler-Project": "p",
        "X-Scheduler-Region": "r",
    }
    body = json.dumps({"message": {"messageId": "1"}, "subscription": "count"}).encode()

    answer = handler.request("POST", headers, body)

    assert outcomes([answer]) == [(404, "unknown_job")]
    assert "no function is registered as 'count'" in answer.body["detail"]
