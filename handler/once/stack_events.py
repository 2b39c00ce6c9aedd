"""The setting ONCE_EVENTS: what the stack's configuration says of its events."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from once.json_setting import parse_object

EVENTS = "ONCE_EVENTS"

_FORM = (
    '{"NAME": {"subscription": "projects/P/subscriptions/S" or "type": "a CloudEvents type", '
    '"topic": "projects/P/topics/T", "maxAgeSeconds": 3600, "maxAttempts": 5, '
    '"deadLetterTopic": "projects/P/topics/T"}}'
)


@dataclass(frozen=True)
class StackEvent:
    """One event of the stack.

    Parameters
    ----------
    name
        Its name in the configuration.
    subscription, topic
        Full names, for messages of Pub/Sub.
    type
        The CloudEvents type, for events of Eventarc.
    max_age, max_attempts
        When an event is given up; what stands here wins over the function's own rules.
    dead_letter_topic
        Where events go that were given up, or that failed for good: a full name.
    """

    name: str
    subscription: str | None = None
    type: str | None = None
    topic: str | None = None
    max_age: timedelta | None = None
    max_attempts: int | None = None
    dead_letter_topic: str | None = None

    def covers(self, type: str, subscription: str | None) -> bool:
        """Tell whether an event of this type, or from this subscription, is meant."""
        return self.subscription == subscription if self.subscription else self.type == type


NO_EVENT = StackEvent("")


def read_stack_events(text: str) -> Mapping[str, StackEvent]:
    """Read the setting; empty means that the stack says nothing.

    Raises
    ------
    ValueError
        If it has another form; the message says where.
    """
    events = parse_object(text, f"events: give {_FORM}")
    return {name: _read(name, entry) for name, entry in events.items()}


def _read(name: str, entry: Any) -> StackEvent:
    if not isinstance(entry, dict):
        raise ValueError(f"{name} is not an object: give {_FORM}")
    left = dict(entry)

    def text(key: str, start: str = "") -> str | None:
        value = left.pop(key, None)
        if value is not None and not (isinstance(value, str) and value.startswith(start) and value):
            raise ValueError(f"{name}.{key} is {value!r}: give a text like {start or 'TYPE'}...")
        return value

    def number(key: str) -> int | None:
        value = left.pop(key, None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**9:
            raise ValueError(f"{name}.{key} is {value!r}: give a whole number, 1 to 1000000000")
        return value

    seconds = number("maxAgeSeconds")
    event = StackEvent(
        name=name,
        subscription=text("subscription", "projects/"),
        type=text("type"),
        topic=text("topic", "projects/"),
        max_age=None if seconds is None else timedelta(seconds=seconds),
        max_attempts=number("maxAttempts"),
        dead_letter_topic=text("deadLetterTopic", "projects/"),
    )
    if left:
        raise ValueError(f"{name}.{min(left)} is unknown: give {_FORM}")
    if (event.subscription is None) == (event.type is None):
        raise ValueError(f"{name} has to have either a subscription or a type: give {_FORM}")
    return event
