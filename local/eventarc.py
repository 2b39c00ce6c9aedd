"""Plays Eventarc, which has no emulator: CloudEvents over HTTP, sent again until they are taken."""

import uuid
from datetime import UTC, datetime, timedelta

from infra.timing import MAX_EVENT_BACKOFF
from local.player import Played
from local.road import Event, Road
from local.stack import Trigger

_MIN_BACKOFF = timedelta(seconds=10)
"""Eventarc's own subscriptions wait 10 to 600 s between two deliveries.

Source: https://cloud.google.com/eventarc/docs/retry-events
"""


def play(event: Event, road: Road) -> Played:
    """Send one event until it is taken, or its lease is long over.

    Raises
    ------
    Stopped
        After `Road.stop`.
    """
    event_id = uuid.uuid4().hex
    road.prepare(event, event_id)
    scale = road.site(event).scale
    wait, waited = _MIN_BACKOFF, timedelta()
    road.pass_on(event, _headers(event, event_id), event.data)
    while waited < event.source.deadline + 2 * timedelta(
        seconds=scale.lease_seconds * scale.factor
    ) and not road.wait(event, scale.seconds(wait)):
        waited += wait
        wait = min(2 * wait, MAX_EVENT_BACKOFF)
        road.pass_on(event, _headers(event, event_id), event.data)
    return road.played(event, event_id)


def _headers(event: Event, event_id: str) -> dict[bytes, bytes]:
    """Write an event's attributes in binary content mode.

    Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
    """
    trigger = event.source
    assert isinstance(trigger, Trigger)
    attributes = {
        "specversion": "1.0",
        **trigger.attributes,
        "id": event_id,
        "source": f"//local/{trigger.label}",
        "time": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
    }
    headers = {f"ce-{name}": value for name, value in attributes.items()}
    headers["Content-Type"] = "application/json"
    return {name.encode(): value.encode() for name, value in headers.items()}
