"""Events in every form in which they can come."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from once.identity import Key
from once.identity.events import MESSAGE_PUBLISHED, EventDelivery, read_event

_numbers = itertools.count(1)


def time_text(ago: timedelta = timedelta(0)) -> str:
    """Return the machine's time, or one before it, as Pub/Sub writes it."""
    return (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class Request:
    """An HTTP request."""

    headers: Mapping[str, str]
    body: bytes

    def key(self, handler: str) -> Key:
        """Return the key under which a handler takes it."""
        envelope = read_event(self.headers, self.body)
        assert envelope is not None
        return EventDelivery(envelope, handler).key(datetime.now(UTC))


@dataclass(frozen=True)
class Message:
    """A Pub/Sub message; its id is its own unless the test gives one."""

    subscription: str = "count"
    data: bytes = b'{"what": "json"}'
    attributes: Mapping[str, str] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"{next(_numbers):016}")
    published: str = field(default_factory=time_text)
    attempt: int | None = None

    @property
    def full_subscription(self) -> str:
        return f"projects/p/subscriptions/{self.subscription}"

    def again(self, attempt: int) -> Message:
        """Return a later delivery of the same message."""
        return replace(self, attempt=attempt)

    @property
    def wrapped(self) -> Request:
        """As Pub/Sub pushes it."""
        push: dict[str, object] = {
            "message": {
                "data": base64.b64encode(self.data).decode(),
                "attributes": dict(self.attributes),
                "messageId": self.id,
                "message_id": self.id,
                "publishTime": self.published,
                "publish_time": self.published,
            },
            "subscription": self.full_subscription,
        }
        if self.attempt is not None:
            push["deliveryAttempt"] = self.attempt
        return Request({"Content-Type": "application/json"}, json.dumps(push).encode())

    @property
    def unwrapped(self) -> Request:
        """As Pub/Sub pushes it without a wrapper."""
        return Request(
            {
                **self.attributes,
                "x-goog-pubsub-subscription-name": self.full_subscription,
                "x-goog-pubsub-message-id": self.id,
                "x-goog-pubsub-publish-time": self.published,
            },
            self.data,
        )

    def from_eventarc(self, topic: str = "projects/p/topics/by-topic") -> Request:
        """As Eventarc sends it."""
        wrapped = self.wrapped
        return Request(
            {
                "Content-Type": "application/json",
                "ce-id": self.id,
                "ce-source": f"//pubsub.googleapis.com/{topic}",
                "ce-specversion": "1.0",
                "ce-type": MESSAGE_PUBLISHED,
                "ce-time": self.published,
            },
            wrapped.body,
        )


@dataclass(frozen=True)
class CloudEvent:
    """A CloudEvent; its id is its own unless the test gives one."""

    type: str = "test.counted"
    source: str = "//storage.googleapis.com/projects/_/buckets/uploads"
    subject: str = "objects/a.csv"
    data: object = field(default_factory=lambda: {"name": "a.csv"})
    id: str = field(default_factory=lambda: f"event-{next(_numbers)}")
    time: str = field(default_factory=time_text)

    @property
    def attributes(self) -> dict[str, str]:
        return {
            "specversion": "1.0",
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "subject": self.subject,
            "time": self.time,
            "bucket": "uploads",
        }

    @property
    def binary(self) -> Request:
        """In binary content mode, as Eventarc sends it."""
        headers = {f"Ce-{name.title()}": value for name, value in self.attributes.items()}
        return Request(
            {**headers, "Content-Type": "application/json"}, json.dumps(self.data).encode()
        )

    @property
    def structured(self) -> Request:
        """In structured content mode."""
        event = {**self.attributes, "datacontenttype": "application/json", "data": self.data}
        return Request(
            {"Content-Type": "application/cloudevents+json; charset=utf-8"},
            json.dumps(event).encode(),
        )
