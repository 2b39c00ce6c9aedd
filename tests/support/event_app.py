"""The handler as deployed, with event handlers for the tests: each leaves a line of its effect.

`functions-framework --source tests/support/event_app.py --target handle` serves it.
"""

import os

if seconds := os.environ.get("TEST_CLOCK_AHEAD_SECONDS"):  # before anything reads a clock
    from tests.support import clock

    clock.set_ahead(float(seconds))

import json
import signal
import time
from datetime import timedelta
from pathlib import Path

from once import Event, Fatal, on_event, on_message, permanent, transient

SECRET = "the-text-of-an-exception"
"""Must never reach the body of an answer."""

_EFFECTS = Path(os.environ["TEST_EFFECTS"])


class Busy(Exception):
    """An error that no table knows."""


def _effect(event: Event, what: str = "ran") -> bool:
    """Leave a line; tell whether it is the first for this event."""
    first = event.run_id not in _EFFECTS.read_text()
    line = {
        "what": what,
        "run_id": event.run_id,
        "attempt_id": event.attempt_id,
        "fence": event.fence,
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time and event.time.isoformat(),
        "subject": event.subject,
        "size": len(event.data),
        "attributes": dict(event.attributes),
        "delivery_attempt": event.delivery_attempt,
        "remaining": event.remaining().total_seconds(),
    }
    with _EFFECTS.open("a") as file:  # one small write in append mode: lines never mix
        file.write(json.dumps(line) + "\n")
    return first


@on_event("test.counted")
@on_message("count")
def count(event: Event) -> None:
    _effect(event)


@on_message("gate")
def gate(event: Event) -> None:
    """Stay until the test opens the gate: a file that the attributes name."""
    _effect(event, "entered")
    while not Path(event.attributes["gate"]).exists():
        time.sleep(0.02)
    _effect(event)


@on_message("raise")
def fail(event: Event) -> None:
    _effect(event)
    raise RuntimeError(SECRET)


@on_message("fail-once")
def fail_once(event: Event) -> None:
    if _effect(event):
        raise RuntimeError(SECRET)


@on_message("fatal")
def fatal(event: Event) -> None:
    _effect(event)
    raise Fatal(SECRET)


@on_message("die-once")
def die_once(event: Event) -> None:
    """Kill the process at the first attempt."""
    if _effect(event, "begun"):
        os.kill(os.getpid(), signal.SIGKILL)
    _effect(event)


@on_message("json")
def needs_json(event: Event) -> None:
    _effect(event, event.json()["what"])


@on_event("test.aged", max_age=timedelta(hours=1))
@on_message("aged", max_age=timedelta(hours=1))
def aged(event: Event) -> None:
    _effect(event)


@on_message("aged-crash")
def aged_crash(event: Event) -> None:
    """Kill the process at the first attempt; the stack's configuration sets a maximum age."""
    if _effect(event, "begun"):
        os.kill(os.getpid(), signal.SIGKILL)
    _effect(event)


@on_message("tried", max_attempts=3)
def tried(event: Event) -> None:
    _effect(event)


@on_message("ruled", fatal_on=permanent)
def ruled(event: Event) -> None:
    """Raise what the attributes ask for."""
    _effect(event)
    raise {"busy": Busy, "value": ValueError, "timeout": TimeoutError}[event.attributes["raise"]](
        SECRET
    )


@on_message("strict", fatal_on=Exception, retry_on=(transient, Busy))
def strict(event: Event) -> None:
    """Raise what the attributes ask for."""
    _effect(event)
    raise {"busy": Busy, "other": RuntimeError, "timeout": TimeoutError}[event.attributes["raise"]](
        SECRET
    )


@on_message("both", name="first")
def first_of_two(event: Event) -> None:
    _effect(event, "first")


@on_message("both", name="second")
def second_of_two(event: Event) -> None:
    if _effect(event, "second"):
        raise RuntimeError(SECRET)


@on_message(topic="by-topic")
def by_topic(event: Event) -> None:
    _effect(event)


if True:  # the service takes the handlers when it is imported
    from main import handle

__all__ = ["handle"]
