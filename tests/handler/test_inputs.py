"""Deliveries that have hurt others, over HTTP."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest

from tests.support.deliveries import Delivery
from tests.support.handler import Handler
from tests.support.lab import Lab


def test_two_ways_of_writing_one_slot_run_once(handler: Handler, lab: Lab) -> None:
    first = Delivery("count", schedule_time="2025-10-17T16:50:00.510855-07:00")
    again = Delivery("count", job=first.job, schedule_time="2025-10-17T23:50:00Z")

    assert handler.post(first).outcome == "completed"
    assert handler.post(again).outcome == "duplicate"

    (effect,) = lab.effects(first.key.id)
    assert effect["schedule_time"] == "2025-10-17T23:50:00+00:00"
    record = lab.backend.get(first.key)
    assert record is not None
    assert record["schedule_time_raw"] == "2025-10-17T16:50:00.510855-07:00"


@pytest.mark.parametrize(
    "schedule_time", ["2025-10-17T23:50:00.123456789Z", "2025-10-17T23:50:00Z"]
)
def test_any_number_of_fractional_digits_is_taken(schedule_time: str, handler: Handler) -> None:
    assert handler.post(Delivery("count", schedule_time=schedule_time)).outcome == "completed"


@pytest.mark.parametrize(
    "schedule_time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"]
)
def test_first_and_last_time_that_can_be_written_are_taken(
    schedule_time: str, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count", schedule_time=schedule_time)

    assert handler.post(delivery).outcome == "completed"
    assert handler.post(delivery).outcome == "duplicate"


def test_lower_case_headers_are_the_same_headers(handler: Handler) -> None:
    delivery = Delivery("count")
    lower = {name.lower(): value for name, value in delivery.headers.items()}

    assert handler.request("POST", lower).outcome == "completed"
    assert handler.post(delivery).outcome == "duplicate"


@pytest.mark.parametrize(
    "job",
    [
        "j" * 500,
        "a/b",
        "50%",
        "a%2Fb",
        'a"b',
        "a'b",
        "a\\b",
        "../..",
        "__x__",
        ".",
        "naïve",
        "日本",
    ],
)
def test_any_job_name_runs_once_and_is_answered_in_json(
    job: str, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count", job=f"{job}")
    headers = {name: value.encode() for name, value in delivery.headers.items()}

    first, second = handler.request("POST", headers), handler.request("POST", headers)

    assert (first.outcome, second.outcome) == ("completed", "duplicate")
    assert first.body["job"] == job
    (effect,) = lab.effects(first.body["run_id"])
    assert effect["job"] == job


@pytest.mark.parametrize("name", ["project", "region"])
def test_any_text_in_project_or_region_runs_once(name: str, handler: Handler) -> None:
    delivery = replace(Delivery("count"), **{name: 'a/b%"日本'})  # type: ignore[arg-type]
    headers = {each: value.encode() for each, value in delivery.headers.items()}

    assert handler.request("POST", headers).outcome == "completed"
    assert handler.request("POST", headers).outcome == "duplicate"


def test_bytes_that_are_no_utf_8_run_once(handler: Handler) -> None:
    headers: dict[str, str | bytes] = {**Delivery("count").headers}
    headers["X-CloudScheduler-JobName"] = b"latin-\xe9"

    assert handler.request("POST", headers).outcome == "completed"
    assert handler.request("POST", headers).outcome == "duplicate"


def test_tuples_of_equal_concatenation_both_run(handler: Handler) -> None:
    time = "2025-10-17T23:50:00Z"
    one = Delivery("count", project="ab", region="c", job="d", schedule_time=time)
    other = Delivery("count", project="a", region="bc", job="d", schedule_time=time)

    assert handler.post(one).outcome == "completed"
    assert handler.post(other).outcome == "completed"


def test_one_function_serves_two_jobs(handler: Handler, lab: Lab) -> None:
    time = "2025-10-17T23:50:00Z"
    one = Delivery("count", schedule_time=time)
    other = Delivery("count", schedule_time=time)

    assert handler.post(one).outcome == "completed"
    assert handler.post(other).outcome == "completed"
    assert lab.effects(one.key.id)[0]["job"] == one.job
    assert lab.effects(other.key.id)[0]["job"] == other.job


@pytest.mark.parametrize("body", [b"", b"{", b"not json", b"\xff\xfe\x00", b'{"a": 1} trailing'])
def test_body_that_is_not_json_fails_for_good_where_the_job_asks_for_json(
    body: bytes, handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("json", body=body)

    answer = handler.post(delivery)

    assert (answer.status, answer.outcome) == (200, "failed")
    record = lab.backend.get(delivery.key)
    assert record is not None
    assert "the body is not JSON" in record["error"]


def test_body_that_is_not_json_does_not_matter_where_the_job_does_not_ask(
    handler: Handler,
) -> None:
    assert handler.post(Delivery("count", body=b"{")).outcome == "completed"


def test_body_is_no_part_of_the_identity(handler: Handler) -> None:
    first = Delivery("count", body=b"1")
    again = Delivery("count", job=first.job, schedule_time=first.schedule_time, body=b"2")

    assert handler.post(first).outcome == "completed"
    assert handler.post(again).outcome == "duplicate"


def test_get_with_valid_headers_is_refused_and_runs_nothing(handler: Handler, lab: Lab) -> None:
    delivery = Delivery("count")

    assert handler.request("GET", delivery.headers).status == 405

    assert lab.effects(delivery.key.id) == []
    assert handler.post(delivery).outcome == "completed"


def test_run_tells_the_job_what_it_needs(handler: Handler, lab: Lab) -> None:
    delivery = Delivery("count")

    answer = handler.post(delivery)

    (effect,) = lab.effects(answer.body["run_id"])
    record = lab.backend.get(delivery.key)
    assert record is not None
    assert (effect["project"], effect["region"]) == ("test-project", "europe-west1")
    assert effect["run_id"] == delivery.key.id
    assert effect["attempt_id"] == record["attempt_id"]
    assert effect["fence"] > 0
    assert 0 < effect["remaining"] <= 360
    assert record["project"] == "test-project"
    assert record["lease_seconds"] == 360
    assert json.dumps(effect["deadline"]).endswith('+00:00"')


@pytest.mark.parametrize(
    "mark",
    [
        {},
        {"x-goog-pubsub-message-id": "1", "x-goog-pubsub-subscription-name": "projects/p/s/s"},
        {"ce-id": "1", "ce-source": "s", "ce-type": "t"},
    ],
    ids=["run", "message", "event"],
)
def test_body_that_was_cut_off_is_refused_and_claims_nothing(
    mark: dict[str, str], handler: Handler, lab: Lab
) -> None:
    delivery = Delivery("count", body=b"{}")
    headers = {"Host": "x", **delivery.headers, **mark, "Content-Length": "7"}
    lines = ["POST / HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    request = "\r\n".join([*lines, "", '{"a'])
    with socket.create_connection(("127.0.0.1", handler.port), timeout=30) as connection:
        connection.sendall(request.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()

    assert b"400 BAD REQUEST" in answer
    assert b"4 bytes are missing" in answer
    assert lab.backend.get(delivery.key) is None
    assert handler.post(delivery).outcome == "completed"


def test_json_that_is_nested_too_deeply_ends_the_run(handler: Handler) -> None:
    body = b"[" * 100_000
    assert handler.post(Delivery("json", body=body)).outcome == "failed"
