"""What a delivery is: headers to key. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from once.identity import BadDelivery
from once.identity.scheduler import FORCED_AHEAD, parse_rfc_3339, scheduled

from tests.support.deliveries import Delivery

SLOT = datetime(2025, 10, 17, 23, 50, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2025-10-17T23:50:00Z",
        "2025-10-17t23:50:00z",
        "2025-10-17T16:50:00.510855-07:00",
        "2025-10-17T23:50:00.123456789Z",
        "2025-10-17T23:50:00.5Z",
        "2025-10-17T23:50:59.999999999Z",
        "2025-10-18T05:35:00+05:45",
        "2025-10-17T23:50:00-00:00",
        "2025-10-17T23:50:60Z",
        "  2025-10-17T23:50:00Z ",
    ],
)
def test_ways_of_writing_one_slot_are_one_run(text: str) -> None:
    plain = Delivery(job="j", schedule_time="2025-10-17T23:50:00Z")
    other = Delivery(job="j", schedule_time=text)

    assert other.identity().slot == SLOT
    assert other.key.id == plain.key.id


@pytest.mark.parametrize(
    "text",
    [
        "2025-10-17T23:50:00",  # no offset: which minute would it be?
        "2025-10-17 23:50:00Z",
        "2025-10-17T23:50Z",
        "2025-10-17T23:50:00.Z",
        "2025-10-17T23:50:00.1234567890Z",
        "2025-10-17T23:50:00+0700",
        "2025-10-17T23:50:00+24:00",
        "2025-10-17T23:50:00+07:60",
        "2025-13-17T23:50:00Z",
        "2025-02-29T23:50:00Z",
        "2025-10-17T24:00:00Z",
        "2025-10-17T23:50:61Z",
        "٢٠٢٥-10-17T23:50:00Z",
        "0001-01-01T00:00:00+01:00",
        "1760745000",
        "tomorrow",
        "2025-10-17T23:50:00Z, 2025-10-17T23:51:00Z",
    ],
)
def test_malformed_schedule_time_is_a_bad_delivery_that_names_the_header(text: str) -> None:
    with pytest.raises(BadDelivery, match="X-CloudScheduler-ScheduleTime"):
        Delivery(schedule_time=text).identity()


def test_finer_than_a_microsecond_is_cut_off() -> None:
    assert parse_rfc_3339("2025-10-17T23:50:00.123456789Z", "x").microsecond == 123456


def test_case_of_header_names_does_not_matter() -> None:
    headers = Delivery(job="j").headers

    for change in (str.lower, str.upper, str.swapcase):
        assert scheduled({change(name): value for name, value in headers.items()}).job == "j"


def test_tuples_of_equal_concatenation_are_different_runs() -> None:
    time = "2025-10-17T23:50:00Z"
    tuples = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("a", 'b", "c', "d")]
    ids = {
        Delivery(project=project, region=region, job=job, schedule_time=time).key.id
        for project, region, job in tuples
    }

    assert len(ids) == len(tuples)


def test_run_id_is_fixed_for_ever() -> None:
    """A new version of the handler must recognise the runs of the one before."""
    delivery = Delivery(project="p", region="r", job="j", schedule_time="2025-10-17T23:50:00Z")

    run = "cecb026874a845a2d23eb5daa2469a62fdefea111b966ad1c8901d614ce90437"
    forced = "0fad1bab1096ae330a7ec5b8186d4f1e9ec08b6f99737241b457b7e6790c9837"
    assert (delivery.key.id, delivery.forced_key.id) == (run, forced)


def test_job_name_is_the_function_where_no_other_is_named() -> None:
    assert Delivery(function="", job="j").identity().function == "j"
    assert Delivery(function="f", job="j").identity().function == "f"


def test_function_is_no_part_of_the_identity() -> None:
    time = "2025-10-17T23:50:00Z"

    assert (
        Delivery("f", job="j", schedule_time=time).key
        == Delivery("g", job="j", schedule_time=time).key
    )


def test_delivery_is_forced_while_its_slot_lies_more_than_ten_seconds_ahead() -> None:
    delivery = Delivery(job="j", schedule_time="2025-10-17T23:50:00Z")
    identity = delivery.identity()
    edge = SLOT - FORCED_AHEAD

    assert identity.key(edge - timedelta(microseconds=1)).kind == "forced"
    assert identity.key(edge).kind == "run"
    assert identity.key(SLOT + timedelta(days=9)).kind == "run"
    assert timedelta(seconds=10) == FORCED_AHEAD
    assert delivery.forced_key.id != delivery.key.id


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", 'quo"te', "naïve", "日本語", "n" * 500, "a\\b"])
def test_any_text_makes_a_document_id(name: str) -> None:
    key = Delivery(job=name.encode().decode("latin-1")).key

    assert len(key.id) == 64
    assert set(key.id) <= set("0123456789abcdef")
    assert key.parts[2] == name  # WSGI's latin-1 was undone
