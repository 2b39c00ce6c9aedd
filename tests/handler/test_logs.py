"""Log lines: one per delivery, in the form that Cloud Logging understands."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from once import logs

from tests.support.deliveries import Delivery
from tests.support.faults import eventually
from tests.support.handler import Handler

LABELS = "logging.googleapis.com/labels"


def lines(handler: Handler, run_id: str) -> list[dict[str, Any]]:
    """Return the lines of the deliveries of a run."""
    return [line for line in handler.log() if line.get(LABELS, {}).get("run_id") == run_id]


def test_each_delivery_has_one_line_that_tells_its_outcome(handler: Handler) -> None:
    delivery = Delivery("count")
    handler.post(delivery)
    handler.post(delivery)
    eventually(lambda: len(lines(handler, delivery.key.id)) >= 2, "the lines are written")

    first, second = lines(handler, delivery.key.id)

    assert [each["severity"] for each in (first, second)] == ["INFO", "INFO"]
    assert [each[LABELS]["outcome"] for each in (first, second)] == ["completed", "duplicate"]
    assert first[LABELS]["job"] == delivery.job
    assert first[LABELS]["attempt_id"] != second[LABELS]["attempt_id"]
    assert first["duration_ms"] >= 0
    assert 0 <= first["lateness_ms"] < 120_000  # the slot is cut to the minute
    assert "lateness_ms" not in second  # nothing was claimed
    assert first["message"].startswith("completed: ")
    assert first["time"].endswith("Z")


@pytest.mark.parametrize(
    ("function", "severity", "text"),
    [
        ("raise", "ERROR", "RuntimeError"),
        ("fatal", "ERROR", "Fatal"),
        ("exit", "ERROR", "SystemExit"),
    ],
)
def test_line_of_a_job_that_raised_has_the_reason_and_where(
    function: str, severity: str, text: str, handler: Handler
) -> None:
    delivery = Delivery(function)
    handler.post(delivery)
    eventually(lambda: bool(lines(handler, delivery.key.id)), "the line is written")

    (line,) = lines(handler, delivery.key.id)

    assert line["severity"] == severity
    assert text in line["message"]
    assert "jobs.py" in line["stack_trace"]


@pytest.mark.parametrize(
    ("method", "headers", "outcome"),
    [("POST", {}, "bad_request"), ("GET", {}, "method_not_allowed"), ("POST", None, "unknown_job")],
)
def test_delivery_that_never_reached_the_store_has_its_line_too(
    method: str, headers: dict[str, str] | None, outcome: str, handler: Handler
) -> None:
    before = len(handler.log())
    handler.request(method, Delivery("nobody").headers if headers is None else headers)
    eventually(lambda: len(handler.log()) > before, "the line is written")

    (line,) = handler.log()[before:]

    assert line[LABELS]["outcome"] == outcome


@pytest.mark.parametrize(
    "header",
    [
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        {"X-Cloud-Trace-Context": "0af7651916cd43dd8448eb211c80319c/1;o=1"},
    ],
)
def test_line_has_the_trace_of_its_request(header: dict[str, str]) -> None:
    fields = logs.trace(header, "my-project")

    expected = "projects/my-project/traces/0af7651916cd43dd8448eb211c80319c"
    assert fields["logging.googleapis.com/trace"] == expected


@pytest.mark.parametrize(
    "header", [{}, {"traceparent": "00-x-y-01"}, {"X-Cloud-Trace-Context": ""}]
)
def test_request_without_a_trace_has_none(header: dict[str, str]) -> None:
    assert logs.trace(header, "my-project") == {}


def test_lines_on_a_terminal_are_text() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    root, terminal = logging.getLogger(), Terminal()
    kept, level = root.handlers[:], root.level
    try:
        logs.set_up(terminal)
        logging.getLogger("mine").info("hello")
    finally:
        root.handlers[:] = kept
        root.setLevel(level)

    assert terminal.getvalue().endswith("INFO    hello\n")
