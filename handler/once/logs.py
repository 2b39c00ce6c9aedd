"""Log lines: one JSON object each for Cloud Logging, readable text on a terminal."""

import json
import logging
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import IO, Any

from once.headers import folded

LOG = logging.getLogger("once")

_LABELS = "logging.googleapis.com/labels"
_TRACE = "logging.googleapis.com/trace"
_SPAN = "logging.googleapis.com/spanId"

_NONE: Mapping[str, str] = MappingProxyType({})
_fields: ContextVar[Mapping[str, Any]] = ContextVar("once_log_fields", default=_NONE)
_labels: ContextVar[Mapping[str, str]] = ContextVar("once_log_labels", default=_NONE)


@contextmanager
def fields(**added: Any) -> Iterator[None]:
    """Add fields to every line that is logged inside."""
    with _added(_fields, added):
        yield


@contextmanager
def labels(**added: str) -> Iterator[None]:
    """Add labels to every line that is logged inside, a job's own lines too."""
    with _added(_labels, added):
        yield


@contextmanager
def _added(variable: ContextVar[Mapping[str, Any]], added: Mapping[str, Any]) -> Iterator[None]:
    token = variable.set({**variable.get(), **added})
    try:
        yield
    finally:
        variable.reset(token)


def set_up(stream: IO[str] = sys.stdout) -> None:
    """Send the root logger's lines to `stream`, as JSON unless it is a terminal."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Text() if stream.isatty() else _Json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def trace(headers: Mapping[str, str], project: str | None) -> dict[str, str]:
    """Return the fields that tie a line to Cloud Run's request log, if the request has a trace.

    Source: https://cloud.google.com/trace/docs/trace-context
    """
    own = folded(headers)
    match = re.match(r"00-([0-9a-f]{32})-([0-9a-f]{16})-", own.get("traceparent", ""))
    trace_id, span_id = match.groups() if match else (None, None)
    if trace_id is None:
        match = re.match(r"([0-9a-f]{32})", own.get("x-cloud-trace-context", ""))
        trace_id = match.group(1) if match else None
    if trace_id is None:
        return {}
    fields = {_TRACE: f"projects/{project}/traces/{trace_id}" if project else trace_id}
    if span_id is not None:
        fields[_SPAN] = span_id
    return fields


def delivery(
    severity: str,
    message: str,
    *,
    labels: Mapping[str, str | None],
    numbers: Mapping[str, int],
    cause: BaseException | None = None,
) -> None:
    """Write the one line of a delivery.

    The numbers stand twice: as labels, by which people filter, and as fields, from which
    log-based metrics take their values.
    """
    known = {name: str(value) for name, value in {**labels, **numbers}.items() if value is not None}
    extra = {"once_fields": numbers, "once_labels": known}
    LOG.log(getattr(logging, severity), message, exc_info=cause, extra=extra)


class _Json(logging.Formatter):
    """The structured form. Source: https://cloud.google.com/logging/docs/structured-logging."""

    def format(self, record: logging.LogRecord) -> str:
        seconds, microseconds = divmod(round(record.created * 1e6), 1_000_000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        entry: dict[str, Any] = {
            "severity": record.levelname,
            "time": f"{stamp}.{microseconds:06d}Z",
            "message": record.getMessage(),
            "logger": record.name,
            **_fields.get(),
            **getattr(record, "once_fields", {}),
        }
        if found := {**_labels.get(), **getattr(record, "once_labels", {})}:
            entry[_LABELS] = found
        if record.exc_info:
            entry["stack_trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
