"""An event, from the HTTP request that brought it: CloudEvents and Pub/Sub pushes in every form."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from once.headers import folded
from once.identity.key import BadDelivery, Delivery, Key
from once.identity.scheduler import JOB_NAME, SCHEDULE_TIME, parse_rfc_3339

MESSAGE_PUBLISHED = "google.cloud.pubsub.topic.v1.messagePublished"
"""The CloudEvents type of every Pub/Sub message, however it came."""

# Of a push with `noWrapper.writeMetadata`; a message attribute becomes a header of its own name.
# Source: https://cloud.google.com/pubsub/docs/payload-unwrapping
_UNWRAPPED_ID = "x-goog-pubsub-message-id"
_UNWRAPPED_SUBSCRIPTION = "x-goog-pubsub-subscription-name"
_UNWRAPPED_TIME = "x-goog-pubsub-publish-time"
# The second is what the emulator writes.
_UNWRAPPED_ORDERING = ("x-goog-pubsub-ordering-key", "x-goog-ordering-key")
# What a request has of its own and no attribute may be taken for.
_TRANSPORT_HEADERS = frozenset(
    {"accept", "accept-encoding", "authorization", "connection", "content-length", "forwarded"}
    | {"from", "function-execution-id", "host", "traceparent", "tracestate", "transfer-encoding"}
    | {"user-agent", "via", "x-cloud-trace-context", "x-forwarded-for", "x-forwarded-proto"}
)

_PUBSUB = "//pubsub.googleapis.com/"
_STRUCTURED = "application/cloudevents+json"
_BATCH = "application/cloudevents-batch"
_OWN_ATTRIBUTES = frozenset(
    {"id", "source", "type", "specversion", "time", "subject"}
    | {"datacontenttype", "dataschema", "data", "data_base64"}
)
# What a record keeps of a name; a document has a limit, and a record is read on every duplicate.
_NAME_CHARACTERS = 1_000


@dataclass(frozen=True)
class Envelope:
    """What an event says about itself, whatever form it came in.

    Parameters
    ----------
    id, source, type
        Together they name the event, as CloudEvents defines it. The source of a Pub/Sub message
        is its topic where that is told (by Eventarc), else its subscription.
    time
        When it happened or was published; None where it does not say.
    subject
        What it is about, within the source.
    data
        The content, decoded.
    attributes
        The attributes of a Pub/Sub message, or the extension attributes of a CloudEvent.
    subscription, topic
        Full names; None for what is no Pub/Sub message, or is not told.
    ordering_key
        Of a Pub/Sub message.
    delivery_attempt
        From 1; None where the source does not count. Pub/Sub counts only for a subscription with
        a dead-letter topic.
    """

    id: str
    source: str
    type: str
    time: datetime | None = None
    subject: str | None = None
    data: bytes = b""
    attributes: Mapping[str, str] = field(default_factory=dict)
    subscription: str | None = None
    topic: str | None = None
    ordering_key: str = ""
    delivery_attempt: int | None = None


@dataclass(frozen=True)
class EventDelivery(Delivery):
    """One delivery of one event to one of its handlers."""

    envelope: Envelope
    handler: str

    @property
    def name(self) -> str:
        return self.handler

    @property
    def due(self) -> datetime | None:
        return self.envelope.time

    def key(self, now: datetime) -> Key:
        """Return the key; the handler's name in it keeps two handlers of one event apart."""
        envelope = self.envelope
        return Key("event", (self.handler, envelope.source, envelope.type, envelope.id))

    def about(self) -> dict[str, str | datetime]:
        envelope = self.envelope
        names = {
            "handler": self.handler,
            "source": envelope.source,
            "type": envelope.type,
            "event_id": envelope.id,
            "subject": envelope.subject,
        }
        about: dict[str, str | datetime] = {
            name: value[:_NAME_CHARACTERS] for name, value in names.items() if value
        }
        if envelope.time is not None:
            about["event_time"] = envelope.time
        return about


def read_event(headers: Mapping[str, str], body: bytes) -> Envelope | None:
    """Read the event that a request brings.

    Parameters
    ----------
    headers, body
        The request; the case of header names does not matter.

    Returns
    -------
    Envelope or None
        None for a request that is no event: a delivery of Cloud Scheduler, or nothing we know.

    Raises
    ------
    BadDelivery
        If the request is an event by its marks but cannot be read; the message names the field.
    """
    own = folded(headers)
    content_type = own.get("content-type", "").partition(";")[0].strip().lower()
    unwrapped = _UNWRAPPED_ID in own
    # A job of Cloud Scheduler may send any body. A message's attributes, which become headers when
    # it is not wrapped, must not make a scheduled run of it.
    if not unwrapped and (SCHEDULE_TIME.lower() in own or JOB_NAME.lower() in own):
        return None
    if "ce-id" in own:
        return _checked(_binary(own, content_type, body))
    if content_type == _STRUCTURED:
        return _checked(_structured(_json_object(body, "the CloudEvent")))
    if content_type.startswith(_BATCH):
        raise BadDelivery(f"content type {content_type}: send one CloudEvent per request")
    if unwrapped:
        return _checked(_unwrapped(own, body))
    push = _push(body)
    return None if push is None else _checked(_message(push))


# --- CloudEvents ----------------------------------------------------------------------------------


def _binary(own: Mapping[str, str], content_type: str, body: bytes) -> Envelope:
    """Read binary content mode: attributes in headers, percent-encoded, and the data as the body.

    Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
    """
    attributes = {
        name.removeprefix("ce-"): unquote(value)
        for name, value in own.items()
        if name.startswith("ce-")
    }
    attributes["datacontenttype"] = content_type
    return _cloud_event(attributes, body)


def _structured(event: dict[str, Any]) -> Envelope:
    """Read structured content mode: the JSON format.

    Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
    """
    attributes = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in event.items()
        if name not in ("data", "data_base64") and value is not None
    }
    for name in ("id", "source", "type"):
        if not isinstance(event.get(name), str):
            raise BadDelivery(f"{name} of the CloudEvent is missing or no string")
    if event.get("data_base64") is not None:
        return _cloud_event(attributes, _base64(event["data_base64"], "data_base64"))
    data = event.get("data")
    json_data = "json" in attributes.get("datacontenttype", "application/json").lower()
    if data is None:
        return _cloud_event(attributes, b"")
    if isinstance(data, str) and not json_data:
        return _cloud_event(attributes, data.encode(errors="replace"))
    return _cloud_event(attributes, json.dumps(data).encode())


def _cloud_event(attributes: Mapping[str, str], data: bytes) -> Envelope:
    time = attributes.get("time")
    envelope = Envelope(
        id=attributes.get("id", ""),
        source=attributes.get("source", ""),
        type=attributes.get("type", ""),
        time=parse_rfc_3339(time, "time of the CloudEvent") if time else None,
        subject=attributes.get("subject"),
        data=data,
        attributes={
            name: value for name, value in attributes.items() if name not in _OWN_ATTRIBUTES
        },
    )
    if envelope.type != MESSAGE_PUBLISHED:
        return envelope
    # Eventarc's event of a Pub/Sub message carries the push as its data.
    push = _push(data)
    if push is None:
        raise BadDelivery(f"data of a {MESSAGE_PUBLISHED} has no message and subscription")
    return _message(push, envelope)


# --- Pub/Sub --------------------------------------------------------------------------------------


def _push(body: bytes) -> dict[str, Any] | None:
    """Return the body as a wrapped push, or None where it is none."""
    if body.lstrip()[:1] != b"{":
        return None
    try:
        push = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return push if {"message", "subscription"} <= push.keys() else None


def _message(push: dict[str, Any], event: Envelope | None = None) -> Envelope:
    """Read a wrapped push: https://cloud.google.com/pubsub/docs/push#receive_push.

    Parameters
    ----------
    push
        The JSON body.
    event
        The CloudEvent around it, where Eventarc sent it.
    """
    message, subscription = push["message"], push["subscription"]
    if not isinstance(message, dict) or not isinstance(subscription, str) or not subscription:
        raise BadDelivery("message is not an object, or subscription is not a name")

    def text(*names: str) -> str:
        """Return a field that stands under one of two spellings."""
        value = next((message[name] for name in names if message.get(name) is not None), "")
        if not isinstance(value, str):
            raise BadDelivery(f"message.{names[0]} is {value!r:.64}: give a string")
        return value

    attributes = message.get("attributes") or {}
    if not isinstance(attributes, dict) or not all(
        isinstance(value, str) for value in attributes.values()
    ):
        raise BadDelivery("message.attributes is not an object of strings")
    attempt = push.get("deliveryAttempt") or None
    if attempt is not None and (isinstance(attempt, bool) or not isinstance(attempt, int)):
        raise BadDelivery(f"deliveryAttempt is {attempt!r:.64}: give a number")
    published = text("publishTime", "publish_time")
    event_time = event.time if event else None
    return Envelope(
        id=text("messageId", "message_id") or (event.id if event else ""),
        source=event.source if event else f"{_PUBSUB}{subscription}",
        type=MESSAGE_PUBLISHED,
        time=parse_rfc_3339(published, "message.publishTime") if published else event_time,
        subject=event.subject if event else None,
        data=_base64(message.get("data") or "", "message.data"),
        attributes=attributes,
        subscription=subscription,
        topic=event.source.removeprefix(_PUBSUB) if event else None,
        ordering_key=text("orderingKey", "ordering_key"),
        delivery_attempt=attempt,
    )


def _unwrapped(own: Mapping[str, str], body: bytes) -> Envelope:
    """Read a push without its wrapper: the body is the data."""
    subscription = own.get(_UNWRAPPED_SUBSCRIPTION, "")
    if not subscription:
        raise BadDelivery(f"header {_UNWRAPPED_SUBSCRIPTION} is missing: set writeMetadata")
    published = own.get(_UNWRAPPED_TIME)
    return Envelope(
        id=own[_UNWRAPPED_ID],
        source=f"{_PUBSUB}{subscription}",
        type=MESSAGE_PUBLISHED,
        time=parse_rfc_3339(published, _UNWRAPPED_TIME) if published else None,
        data=body,
        attributes={
            name: value
            for name, value in own.items()
            if name not in _TRANSPORT_HEADERS and not name.startswith("x-goog-")
        },
        subscription=subscription,
        ordering_key=next((own[name] for name in _UNWRAPPED_ORDERING if name in own), ""),
    )


# --- Parts ----------------------------------------------------------------------------------------


def _checked(envelope: Envelope) -> Envelope:
    """Refuse an event that has no name of its own, or one that no store could hold."""
    for name in ("id", "source", "type"):
        value = getattr(envelope, name)
        if not value:
            raise BadDelivery(f"{name} of the event is missing: without it, a repeat is not seen")
        _encodable(value, name)
    _encodable(envelope.subject or "", "subject")
    if envelope.time is not None and envelope.time.year >= 9000:
        raise BadDelivery(f"time of the event is {envelope.time:%Y}: records cannot outlive it")
    return envelope


def _encodable(value: str, name: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadDelivery(f"{name} of the event is not Unicode text") from None


def _json_object(body: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadDelivery(f"{what} is not JSON: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise BadDelivery(f"{what} is {type(value).__name__}, not a JSON object")
    return value


def _base64(value: object, name: str) -> bytes:
    if not isinstance(value, str):
        raise BadDelivery(f"{name} is not a string: give base64")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise BadDelivery(f"{name} is not base64") from None
