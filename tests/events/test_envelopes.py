"""What a request is taken for: every form, and every way in which it can be wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from once.identity import BadDelivery
from once.identity.events import MESSAGE_PUBLISHED, Envelope, read_event

from tests.support.deliveries import Delivery
from tests.support.pushes import CloudEvent, Message, Request

SUBSCRIPTION = "projects/p/subscriptions/orders"


def read(request: Request) -> Envelope:
    envelope = read_event(request.headers, request.body)
    assert envelope is not None
    return envelope


def push(message: object, **others: object) -> bytes:
    return json.dumps({"message": message, "subscription": SUBSCRIPTION, **others}).encode()


def test_wrapped_message_is_read_whole() -> None:
    message = Message("orders", b"\xff\x00", {"k": "v"}, "42", "2026-11-30T19:21:46.634Z", 3)

    assert read(message.wrapped) == Envelope(
        id="42",
        source=f"//pubsub.googleapis.com/{SUBSCRIPTION}",
        type=MESSAGE_PUBLISHED,
        time=datetime(2026, 11, 30, 19, 21, 46, 634_000, UTC),
        data=b"\xff\x00",
        attributes={"k": "v"},
        subscription=SUBSCRIPTION,
        delivery_attempt=3,
    )


def test_message_has_one_key_whether_it_is_wrapped_or_not() -> None:
    message = Message("orders", b'{"a": 1}', {"k": "v"})

    wrapped, unwrapped = read(message.wrapped), read(message.unwrapped)

    assert wrapped == unwrapped
    assert message.wrapped.key("pack") == message.unwrapped.key("pack")


@pytest.mark.parametrize("field", ["messageId", "message_id"])
def test_message_has_one_key_under_either_spelling_of_its_id(field: str) -> None:
    request = Request({}, push({"data": "", field: "42"}))

    assert request.key("pack") == Message("orders", id="42").wrapped.key("pack")


def test_message_through_eventarc_names_its_topic_and_its_subscription() -> None:
    message = Message("eventarc-europe-west1-orders-sub-123", attempt=2)

    envelope = read(message.from_eventarc("projects/p/topics/orders"))

    assert envelope.source == "//pubsub.googleapis.com/projects/p/topics/orders"
    assert (envelope.type, envelope.id) == (MESSAGE_PUBLISHED, message.id)
    assert envelope.topic == "projects/p/topics/orders"
    assert envelope.subscription == message.full_subscription
    assert envelope.data == message.data
    assert envelope.delivery_attempt == 2


def test_cloud_event_is_the_same_in_binary_and_structured_mode() -> None:
    event = CloudEvent()

    binary, structured = read(event.binary), read(event.structured)

    assert binary == structured
    assert (binary.id, binary.source, binary.type) == (event.id, event.source, event.type)
    assert binary.subject == "objects/a.csv"
    assert json.loads(binary.data) == {"name": "a.csv"}
    assert binary.attributes == {"bucket": "uploads"}


def test_header_of_a_binary_event_is_percent_decoded() -> None:
    headers = {"ce-id": "1", "ce-source": "s", "ce-type": "t", "ce-subject": "caf%C3%A9%20%22x%22"}

    assert read(Request(headers, b"")).subject == 'café "x"'


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ({"data_base64": base64.b64encode(b"\x00\x01").decode()}, b"\x00\x01"),
        ({"data": "plain", "datacontenttype": "text/plain"}, b"plain"),
        ({"data": "quoted", "datacontenttype": "application/json"}, b'"quoted"'),
        ({"data": [1, 2]}, b"[1, 2]"),
        ({"data": None}, b""),
        ({}, b""),
    ],
)
def test_data_of_a_structured_event_is_decoded_by_its_type(
    event: Mapping[str, Any], data: bytes
) -> None:
    body = {"id": "1", "source": "s", "type": "t", "specversion": "1.0", **event}
    headers = {"content-type": "application/cloudevents+json"}

    assert read(Request(headers, json.dumps(body).encode())).data == data


def test_key_keeps_its_parts_apart() -> None:
    a_bc = Request({"ce-id": "1", "ce-source": "bc", "ce-type": "t"}, b"").key("a")
    ab_c = Request({"ce-id": "1", "ce-source": "c", "ce-type": "t"}, b"").key("ab")

    assert a_bc.collection == "processed_events"
    assert a_bc.parts == ("a", "bc", "t", "1")
    assert a_bc.id != ab_c.id


@pytest.mark.parametrize("part", ["id", "source", "type"])
def test_events_that_differ_in_one_part_have_different_keys(part: str) -> None:
    headers = {"ce-id": "1", "ce-source": "s", "ce-type": "t"}

    changed = Request({**headers, f"ce-{part}": "other"}, b"")

    assert changed.key("h").id != Request(headers, b"").key("h").id
    assert Request(headers, b"").key("h").id != Request(headers, b"").key("other").id


# --- What is no event -----------------------------------------------------------------------------


def test_delivery_of_cloud_scheduler_is_no_event_whatever_its_body_says() -> None:
    body = Message().wrapped.body

    assert read_event(Delivery().headers, body) is None
    headers = {**Delivery().headers, "content-type": "application/cloudevents+json"}
    assert read_event(headers, CloudEvent().structured.body) is None


def test_attributes_of_an_unwrapped_message_make_no_scheduled_run_of_it() -> None:
    message = Message("orders", attributes=Delivery().headers)

    assert read(message.unwrapped).subscription == SUBSCRIPTION


@pytest.mark.parametrize(
    "body",
    [b"", b"plain text", b"[1, 2]", b'"message"', b"{", b'{"message": {}}', b"{" * 100_000],
)
def test_body_that_says_nothing_of_an_event_is_none(body: bytes) -> None:
    assert read_event({"content-type": "application/json"}, body) is None


# --- What is still good ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        {"messageId": "1"},
        {"messageId": "1", "data": ""},
        {"messageId": "1", "data": None, "attributes": None},
        {"messageId": "1", "attributes": {"only": "attributes"}},
    ],
)
def test_message_without_data_has_empty_data(message: Mapping[str, Any]) -> None:
    envelope = read(Request({}, push(message)))

    assert envelope.data == b""
    assert envelope.attributes == (message.get("attributes") or {})
    assert envelope.time is None


@pytest.mark.parametrize("attempt", [0, None])
def test_attempt_that_is_not_counted_is_none(attempt: int | None) -> None:
    body = push({"messageId": "1"}, deliveryAttempt=attempt)

    assert read(Request({}, body)).delivery_attempt is None


# --- What cannot be read --------------------------------------------------------------------------

STRUCTURED = {"content-type": "application/cloudevents+json"}
BINARY = {"ce-id": "1", "ce-source": "s", "ce-type": "t"}


@pytest.mark.parametrize(
    ("headers", "body", "named"),
    [
        ({}, push({"data": "aGk="}), "id"),
        ({}, push({"messageId": ""}), "id"),
        ({}, push({"messageId": 7}), "message.messageId"),
        ({}, push({"messageId": "\ud800"}), "id"),
        ({}, push("text"), "message"),
        ({}, push({"messageId": "1", "data": "not base64!"}), "message.data"),
        ({}, push({"messageId": "1", "data": "aGk"}), "message.data"),
        ({}, push({"messageId": "1", "data": {"a": 1}}), "message.data"),
        ({}, push({"messageId": "1", "attributes": ["a"]}), "message.attributes"),
        ({}, push({"messageId": "1", "attributes": {"a": 1}}), "message.attributes"),
        ({}, push({"messageId": "1", "publishTime": "yesterday"}), "message.publishTime"),
        ({}, push({"messageId": "1"}, deliveryAttempt="many"), "deliveryAttempt"),
        ({}, push({"messageId": "1"}, subscription=7), "subscription"),
        ({}, push({"messageId": "1"}, subscription=""), "subscription"),
        ({"x-goog-pubsub-message-id": "1"}, b"", "x-goog-pubsub-subscription-name"),
        (
            {"x-goog-pubsub-message-id": "", "x-goog-pubsub-subscription-name": SUBSCRIPTION},
            b"",
            "id",
        ),
        (STRUCTURED, b"{", "CloudEvent"),
        (STRUCTURED, b"[]", "CloudEvent"),
        (STRUCTURED, b'"text"', "CloudEvent"),
        (STRUCTURED, b'{"source": "s", "type": "t"}', "id"),
        (STRUCTURED, b'{"id": 1, "source": "s", "type": "t"}', "id"),
        (STRUCTURED, b'{"id": "1", "source": "s", "type": "t", "data_base64": 1}', "data_base64"),
        (STRUCTURED, b'{"id": "1", "source": "s", "type": "t", "time": "now"}', "time"),
        ({"content-type": "application/cloudevents-batch+json"}, b"[]", "one CloudEvent"),
        ({**BINARY, "ce-id": ""}, b"", "id"),
        ({"ce-id": "1", "ce-type": "t"}, b"", "source"),
        ({"ce-id": "1", "ce-source": "s"}, b"", "type"),
        ({**BINARY, "ce-time": "2026-13-01T00:00:00Z"}, b"", "time"),
        ({**BINARY, "ce-time": "9999-12-31T23:59:59Z"}, b"", "time"),
        ({**BINARY, "ce-type": MESSAGE_PUBLISHED}, b'{"other": 1}', "message"),
    ],
)
def test_event_that_cannot_be_read_is_refused_with_the_name_of_what_is_wrong(
    headers: Mapping[str, str], body: bytes, named: str
) -> None:
    with pytest.raises(BadDelivery, match=named):
        read_event(headers, body)
