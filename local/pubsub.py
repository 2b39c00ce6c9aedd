"""Plays Pub/Sub, with Google's own emulator: real push subscriptions, redelivery, dead letters.

Events of Eventarc, which has no emulator, are sent over HTTP as Eventarc sends them.
"""

import http.client
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import grpc
from google.protobuf import duration_pb2
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from google.pubsub_v1.types import (
    DeadLetterPolicy,
    PubsubMessage,
    PushConfig,
    RetryPolicy,
)
from google.pubsub_v1.types import Subscription as ApiSubscription

EMULATOR_HOST = "PUBSUB_EMULATOR_HOST"

# A message of Pub/Sub is at most 10 MB; gRPC's own limit for what is received is 4 MB.
_CHANNEL_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_CALL_SECONDS = 30


def connect(host: str | None = None) -> tuple[PublisherClient, SubscriberClient]:
    """Return clients for the emulator at `host`, or the one in PUBSUB_EMULATOR_HOST, or Google.

    Parameters
    ----------
    host
        ``host:port``.
    """
    host = host or os.environ.get(EMULATOR_HOST)
    if not host:
        return PublisherClient(), SubscriberClient()
    channel = grpc.insecure_channel(host, options=_CHANNEL_OPTIONS)
    return (
        PublisherClient(transport=PublisherGrpcTransport(channel=channel)),
        SubscriberClient(transport=SubscriberGrpcTransport(channel=channel)),
    )


@dataclass(frozen=True)
class Subscription:
    """A subscription, as `infra/` declares it.

    Attributes
    ----------
    name, topic
        Full names.
    endpoint
        Where messages are pushed to; None: they wait to be pulled.
    dead_letter_topic, max_attempts
        Where a message goes after so many deliveries: a full name, and 5 to 100.
    min_backoff, max_backoff
        The waits between deliveries; zero for both: none. The emulator waits whole seconds.
    ack_deadline
        How long an answer may take: 10 s to 10 min.
    unwrapped
        Send the data as the body and everything else as headers.
    """

    name: str
    topic: str
    endpoint: str | None = None
    dead_letter_topic: str | None = None
    max_attempts: int = 5
    min_backoff: timedelta = timedelta(0)
    max_backoff: timedelta = timedelta(0)
    ack_deadline: timedelta = timedelta(seconds=10)
    unwrapped: bool = False


class PubSub:
    """An emulator with topics and subscriptions; each has what it needs made first.

    Parameters
    ----------
    host
        The emulator's ``host:port``, as `tools.emulators.pubsub_emulator` yields it.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self._publisher, self._subscriber = connect(host)
        self._topics: set[str] = set()
        self._subscriptions: list[str] = []

    def __enter__(self) -> "PubSub":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the subscriptions away, so that an emulator that goes on pushes nothing more."""
        while self._subscriptions:
            self._subscriber.delete_subscription(
                subscription=self._subscriptions.pop(), timeout=_CALL_SECONDS
            )

    def topic(self, name: str) -> None:
        """Make a topic, unless it was made here before."""
        if name not in self._topics:
            self._publisher.create_topic(name=name, timeout=_CALL_SECONDS)
            self._topics.add(name)

    def subscribe(self, subscription: Subscription) -> None:
        """Make a subscription and its topics."""
        self.topic(subscription.topic)
        request = ApiSubscription(
            name=subscription.name,
            topic=subscription.topic,
            ack_deadline_seconds=int(subscription.ack_deadline.total_seconds()),
        )
        if subscription.max_backoff:
            request.retry_policy = RetryPolicy(
                minimum_backoff=_duration(subscription.min_backoff),
                maximum_backoff=_duration(subscription.max_backoff),
            )
        if subscription.endpoint:
            request.push_config = PushConfig(push_endpoint=subscription.endpoint)
            if subscription.unwrapped:
                request.push_config.no_wrapper = PushConfig.NoWrapper(write_metadata=True)
        if subscription.dead_letter_topic:
            self.topic(subscription.dead_letter_topic)
            request.dead_letter_policy = DeadLetterPolicy(
                dead_letter_topic=subscription.dead_letter_topic,
                max_delivery_attempts=subscription.max_attempts,
            )
        self._subscriber.create_subscription(request=request, timeout=_CALL_SECONDS)
        self._subscriptions.append(subscription.name)

    def publish(
        self, topic: str, data: bytes = b"", attributes: Mapping[str, str] | None = None
    ) -> str:
        """Publish a message and return its id."""
        message = PubsubMessage(data=data, attributes=dict(attributes or {}))
        published = self._publisher.publish(topic=topic, messages=[message], timeout=_CALL_SECONDS)
        (message_id,) = published.message_ids
        return message_id


@dataclass(frozen=True)
class EventarcAnswer:
    """The answer to an event: Eventarc takes 2xx for done and sends again on anything else."""

    status: int
    body: bytes


def send_event(
    url: str,
    *,
    type: str,
    source: str,
    data: bytes = b"{}",
    id: str | None = None,
    subject: str | None = None,
    time: datetime | None = None,
    seconds: float = 600,
) -> EventarcAnswer:
    """Send a CloudEvent in binary content mode, as Eventarc does.

    Parameters
    ----------
    url
        The handler.
    type, source, subject, time
        The event's attributes; its time is now unless given.
    data
        JSON.
    id
        Repeat it to send the same event again; a new one unless given.
    seconds
        How long an answer may take.
    """
    attributes = {
        "specversion": "1.0",
        "id": id or uuid.uuid4().hex,
        "type": type,
        "source": source,
        "time": (time or datetime.now(UTC)).isoformat().replace("+00:00", "Z"),
        **({"subject": subject} if subject else {}),
    }
    headers = {f"ce-{name}": quote(value, safe="/:+.,=@ ") for name, value in attributes.items()}
    headers["Content-Type"] = "application/json"
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=seconds)
    try:
        connection.request("POST", parts.path or "/", data, headers)
        response = connection.getresponse()
        return EventarcAnswer(response.status, response.read())
    finally:
        connection.close()


def _duration(wait: timedelta) -> duration_pb2.Duration:
    duration = duration_pb2.Duration()
    duration.FromTimedelta(wait)
    return duration
