"""What a job returns must never keep its run from being recorded."""

from __future__ import annotations

from datetime import timedelta

import pytest
from once.answer import Outcome
from once.protocol import Durations, Guard

from tests.support.deliveries import Delivery
from tests.support.lab import Lab

DURATIONS = Durations(lease=timedelta(minutes=6), retention=timedelta(days=7))


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def endless() -> object:
    value: list[object] = []
    value.append({"again": value})
    return value


@pytest.mark.parametrize(
    "result", [None, "done", 2**63 - 1, [1, [2]][:1], {"rows": 7}, nested(20), {"k" * 1000: 1}]
)
def test_small_json_is_recorded(result: object, lab: Lab) -> None:
    delivery = Delivery()

    report = Guard(lab.backend.store(), DURATIONS).run(delivery.identity(), lambda claim: result)

    assert (report.outcome, report.why) == (Outcome.COMPLETED, None)
    record = lab.backend.get(delivery.key)
    assert record is not None
    assert record["result"] == result


@pytest.mark.parametrize(
    "result",
    [
        object(),
        {1, 2},
        b"bytes",
        {1: "a number for a name"},
        {"": 1},
        {"__reserved__": 1},
        [[1]],
        {"a": [1, [2]]},
        2**63,
        "\ud800",
        {"\ud800": 1},
        "x" * 8192,
        nested(21),
        nested(100_000),
        {"k" * 1001: 1},
        {"k" * 600: {"k" * 600: 1}},
        endless(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_anything_else_completes_without_a_result_and_says_so(result: object, lab: Lab) -> None:
    delivery = Delivery()

    report = Guard(lab.backend.store(), DURATIONS).run(delivery.identity(), lambda claim: result)

    assert report.outcome is Outcome.COMPLETED
    assert "its result is not recorded" in (report.why or "")
    record = lab.backend.get(delivery.key)
    assert record is not None
    assert (record["status"], record["result"]) == ("completed", None)
