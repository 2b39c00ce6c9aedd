"""Rules of functions and of the stack, the table of errors, and what stops the handler."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message as Headers
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.auth import exceptions as auth
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from once import Event, Fatal, errors, on_event, on_message, permanent, transient
from once.events import HANDLERS, Rules
from once.identity.events import MESSAGE_PUBLISHED, Envelope
from once.protocol import Dropped
from once.service import Service
from once.settings import load
from once.stack_events import StackEvent, read_stack_events

# Their constructors have no types.
google: Any = exceptions
auth_errors: Any = auth

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
SUBSCRIPTION = "projects/p/subscriptions/stack-orders"


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    """Leave the registry as it was."""
    before = list(HANDLERS)
    yield
    HANDLERS[:] = before


def nothing(event: Event) -> None:
    """Handle an event."""


def other(event: Event) -> None:
    """Handle an event too."""


def envelope(**fields: object) -> Envelope:
    return Envelope(**{"id": "1", "source": "s", "type": "t", **fields})  # type: ignore[arg-type]


# --- The table of errors --------------------------------------------------------------------------


def http_error(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError(response=response)


def url_error(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://x", status, "", Headers(), None)


def api_error(status: int) -> HttpError:
    return HttpError(SimpleNamespace(status=status, reason=""), b"")


TRANSIENT = [
    ConnectionResetError(),
    TimeoutError(),
    socket.gaierror(),
    http.client.BadStatusLine("x"),
    urllib.error.URLError("refused"),
    requests.ConnectionError(),
    requests.ReadTimeout(),
    auth_errors.TransportError(),
    google.ServiceUnavailable("x"),
    google.TooManyRequests("x"),
    google.DeadlineExceeded("x"),
    google.InternalServerError("x"),
    google.Aborted("x"),
    google.RetryError("x", None),
    *(each(status) for each in (http_error, url_error, api_error) for status in (408, 429, 503)),
]
PERMANENT = [
    ValueError(),
    KeyError(),
    TypeError(),
    PermissionError(),
    json.JSONDecodeError("x", "", 0),
    google.PermissionDenied("x"),
    google.InvalidArgument("x"),
    google.NotFound("x"),
    google.AlreadyExists("x"),
    *(each(status) for each in (http_error, url_error, api_error) for status in (400, 402, 404)),
]
UNKNOWN = [RuntimeError(), Exception(), FileNotFoundError(), requests.HTTPError(), SystemExit(1)]


@pytest.mark.parametrize("error", TRANSIENT, ids=repr)
def test_error_that_may_pass_is_transient(error: Exception) -> None:
    assert (transient(error), permanent(error)) == (True, False)


@pytest.mark.parametrize("error", PERMANENT, ids=repr)
def test_error_that_another_try_meets_again_is_permanent(error: Exception) -> None:
    assert (transient(error), permanent(error)) == (False, True)


@pytest.mark.parametrize("error", UNKNOWN, ids=repr)
def test_error_in_no_table_is_neither(error: Exception) -> None:
    assert (transient(error), permanent(error)) == (False, False)


def test_table_takes_a_class_with_all_that_derive_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(Exception):
        pass

    class VeryBusy(Busy):
        pass

    monkeypatch.setattr(errors, "_CLASSES", dict(errors._CLASSES))
    transient.add(Busy)

    assert transient(VeryBusy())


# --- Rules of a function --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "error", "ends"),
    [
        (Rules(), ValueError(), False),
        (Rules(), Fatal(), True),
        (Rules(fatal_on=(ValueError,)), UnicodeError(), True),
        (Rules(fatal_on=(ValueError,)), KeyError(), False),
        (Rules(fatal_on=(permanent,)), KeyError(), True),
        (Rules(fatal_on=(permanent,)), TimeoutError(), False),
        (Rules(fatal_on=(Exception,), retry_on=(transient,)), RuntimeError(), True),
        (Rules(fatal_on=(Exception,), retry_on=(transient,)), TimeoutError(), False),
        (Rules(retry_on=(Exception,)), Fatal(), True),
        (Rules(fatal_on=(lambda error: str(error) == "x",)), RuntimeError("x"), True),
    ],
)
def test_error_ends_an_event_or_not(rules: Rules, error: Exception, ends: bool) -> None:
    assert isinstance(rules.end(error), Fatal) == ends


@pytest.mark.parametrize("age", [HOUR, timedelta(0), -HOUR])
def test_event_as_old_as_max_age_or_from_the_future_is_young(age: timedelta) -> None:
    Rules(max_age=HOUR).check(envelope(time=NOW - age), NOW)


def test_event_older_than_max_age_is_dropped() -> None:
    with pytest.raises(Dropped, match="more than max_age"):
        Rules(max_age=HOUR).check(envelope(time=NOW - HOUR - timedelta.resolution), NOW)


@pytest.mark.parametrize(
    ("register", "problem"),
    [
        (lambda: on_message(), "needs a subscription or a topic"),
        (lambda: on_event(MESSAGE_PUBLISHED), "on_message"),
        (lambda: on_message("a", max_age=timedelta(0)), "max_age"),
        (lambda: on_message("a", max_attempts=0), "max_attempts"),
    ],
)
def test_registration_that_makes_no_sense_is_refused(
    register: Callable[[], object], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        register()


def test_name_is_taken_once_but_one_function_may_handle_several_events() -> None:
    on_message("a")(nothing)
    on_message("b")(nothing)
    on_message("c", name="apart")(other)

    with pytest.raises(ValueError, match="two functions are registered as handler 'nothing'"):
        on_message("d", name="nothing")(other)


@pytest.mark.parametrize("wanted", ["orders", "stack-orders", SUBSCRIPTION])
def test_subscription_is_known_by_the_events_name_its_id_and_its_full_name(wanted: str) -> None:
    on_message(wanted)(nothing)
    message = envelope(type=MESSAGE_PUBLISHED, subscription=SUBSCRIPTION)

    assert HANDLERS[-1].handles(message, StackEvent("orders", SUBSCRIPTION))
    elsewhere = envelope(type=MESSAGE_PUBLISHED, subscription="projects/p/subscriptions/other")
    assert not HANDLERS[-1].handles(elsewhere, StackEvent("other", elsewhere.subscription))


@pytest.mark.parametrize("wanted", ["orders", "projects/p/topics/orders"])
def test_topic_is_known_where_eventarc_or_the_stack_tells_it(wanted: str) -> None:
    on_message(topic=wanted)(nothing)
    topic = "projects/p/topics/orders"
    message = envelope(type=MESSAGE_PUBLISHED, subscription=SUBSCRIPTION)

    assert HANDLERS[-1].handles(message, StackEvent("x", SUBSCRIPTION, topic=topic))
    assert HANDLERS[-1].handles(
        envelope(type=MESSAGE_PUBLISHED, subscription="s", topic=topic), StackEvent("")
    )
    assert not HANDLERS[-1].handles(message, StackEvent("x", SUBSCRIPTION))


# --- The stack's configuration --------------------------------------------------------------------


def test_rule_of_the_stack_wins_over_the_functions_own() -> None:
    rules = Rules(max_age=HOUR, max_attempts=3)

    assert rules.under(StackEvent("x")) == rules
    over = rules.under(StackEvent("x", max_age=2 * HOUR, max_attempts=5))
    assert (over.max_age, over.max_attempts) == (2 * HOUR, 5)


def test_setting_is_read_whole() -> None:
    orders = {
        "subscription": SUBSCRIPTION,
        "topic": "projects/p/topics/orders",
        "maxAgeSeconds": 60,
        "maxAttempts": 5,
        "deadLetterTopic": "projects/p/topics/dead",
    }

    assert read_stack_events(json.dumps({"orders": orders, "uploads": {"type": "t"}})) == {
        "orders": StackEvent(
            "orders",
            SUBSCRIPTION,
            None,
            "projects/p/topics/orders",
            timedelta(seconds=60),
            5,
            "projects/p/topics/dead",
        ),
        "uploads": StackEvent("uploads", type="t"),
    }
    assert read_stack_events("") == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Expecting"),
        ("[]", "not a JSON object"),
        ('{"orders": 1}', "orders is not an object"),
        ('{"orders": {}}', "either a subscription or a type"),
        ('{"orders": {"type": "t", "subscription": "projects/p"}}', "either a subscription"),
        ('{"orders": {"subscription": "orders"}}', "orders.subscription is 'orders'"),
        ('{"orders": {"type": "t", "maxAgeSeconds": 0}}', "orders.maxAgeSeconds is 0"),
        ('{"orders": {"type": "t", "maxAgeSeconds": true}}', "orders.maxAgeSeconds is True"),
        ('{"orders": {"type": "t", "maxAttempts": "5"}}', "orders.maxAttempts is '5'"),
        ('{"orders": {"type": "t", "maxage": 5}}', "orders.maxage is unknown"),
    ],
)
def test_setting_of_another_form_stops_the_handler_with_the_place(
    text: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match=f"ONCE_EVENTS.*{problem}"):
        load({"ONCE_STORE": f"sqlite:///{tmp_path}/runs.db", "ONCE_EVENTS": text})


def test_event_lease_is_the_lease_unless_it_is_set(tmp_path: Path) -> None:
    environment = {"ONCE_STORE": f"sqlite:///{tmp_path}/runs.db", "ONCE_LEASE_SECONDS": "90"}

    durations = load(environment).event_durations
    set_to_20 = load({**environment, "ONCE_EVENT_LEASE_SECONDS": "20"}).event_durations

    assert durations is not None
    assert set_to_20 is not None
    assert durations.lease == timedelta(seconds=90)
    assert set_to_20.lease == timedelta(seconds=20)
    with pytest.raises(SystemExit, match="not longer than ONCE_EVENT_LEASE_SECONDS"):
        load({**environment, "ONCE_EVENT_LEASE_SECONDS": "604800"})


@pytest.mark.parametrize(
    ("own", "stack", "problem"),
    [
        (timedelta(seconds=60), None, "max_age of handler 'nothing' is 0:01:00"),
        (HOUR, 60, "ONCE_EVENTS: orders.maxAgeSeconds is 0:01:00"),
    ],
)
def test_max_age_within_the_event_lease_stops_the_handler(
    own: timedelta, stack: int | None, problem: str, tmp_path: Path
) -> None:
    on_message("orders", max_age=own)(nothing)
    events = {"orders": {"subscription": SUBSCRIPTION, "maxAgeSeconds": stack}}
    settings = load(
        {
            "ONCE_STORE": f"sqlite:///{tmp_path}/runs.db",
            "ONCE_EVENT_LEASE_SECONDS": "60",
            "ONCE_EVENTS": json.dumps(events),
        }
    )

    with pytest.raises(SystemExit, match=problem):
        Service(settings, handlers=HANDLERS[-1:])
