"""The handler's own way to a dead-letter topic, for what it acknowledges without success.

Pub/Sub forwards what is never acknowledged. What the handler gives up it acknowledges, so it has
to put it there itself, and does so before the event is recorded as ended: a crash in between
publishes it twice, never not at all.
"""

import base64
import os
from typing import Any

from once import rest
from once.events import ONLY_FOR
from once.identity.events import EventDelivery
from once.protocol import Claim, Dropped, Fatal, describe

_SCOPE = "https://www.googleapis.com/auth/pubsub"
_SECONDS = 10

# Limits of Pub/Sub: https://cloud.google.com/pubsub/quotas#resource_limits
_VALUE_BYTES = 1_024
_ATTRIBUTES = 100

PREFIX = "once-"
"""Begins the attributes that say why the message is there."""


class NotPublished(Exception):
    """The dead-letter topic could not be told; the event has to come again."""


def publish(topic: str, delivery: EventDelivery, claim: Claim, error: Fatal) -> None:
    """Publish an event that is given up, with the reason as attributes.

    Parameters
    ----------
    topic
        Full name.
    delivery
        The event.
    claim
        The attempt that gives it up.
    error
        Why.

    Raises
    ------
    NotPublished
        If the topic did not take it.
    """
    envelope = delivery.envelope
    reason = {
        "outcome": "dropped" if isinstance(error, Dropped) else "failed",
        "reason": describe(error),
        "handler": delivery.handler,
        "run-id": claim.key.id,
        "id": envelope.id,
        "source": envelope.source,
        "type": envelope.type,
        "time": envelope.time.isoformat() if envelope.time else "",
        "subject": envelope.subject or "",
        "subscription": envelope.subscription or "",
    }
    own = {f"{PREFIX}{name}": _fitting(value) for name, value in reason.items() if value}
    # Pub/Sub's own attributes cannot be published; those of an earlier failure are over.
    kept = {
        name: value
        for name, value in envelope.attributes.items()
        if not name.startswith(("goog", PREFIX)) and name != ONLY_FOR
    }
    room = _ATTRIBUTES - len(own)
    message: dict[str, Any] = {
        "data": base64.b64encode(envelope.data).decode(),
        "attributes": {**dict(list(kept.items())[:room]), **own},
    }
    if envelope.ordering_key:
        message["orderingKey"] = envelope.ordering_key
    try:
        _post(topic, message)
    except Exception as failure:
        raise NotPublished(f"{topic} did not take the event: {describe(failure)}") from error


def _post(topic: str, message: dict[str, Any]) -> None:
    emulator = os.environ.get("PUBSUB_EMULATOR_HOST")
    base = f"http://{emulator}" if emulator else "https://pubsub.googleapis.com"
    with rest.session(base, _SCOPE) as session:
        session.post(
            f"{base}/v1/{topic}:publish", json={"messages": [message]}, timeout=_SECONDS
        ).raise_for_status()


def _fitting(value: str) -> str:
    return value.encode(errors="replace")[:_VALUE_BYTES].decode(errors="ignore")
