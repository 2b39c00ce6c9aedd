"""What an author of event handlers sees: `Event`, `on_event`, `on_message` and their rules."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from once.attempt import Attempt
from once.errors import ErrorRule
from once.functions import check_function
from once.identity.events import MESSAGE_PUBLISHED, Envelope
from once.protocol import Claim, Dropped, Fatal, describe
from once.run import parse_json
from once.stack_events import NO_EVENT, StackEvent

Function = Callable[["Event"], object]
F = TypeVar("F", bound=Function)

Errors = type[BaseException] | ErrorRule | Callable[[BaseException], bool]
"""A class of exceptions, or a function that tells whether an exception is meant."""

ONLY_FOR = "once-only-for"
"""The attribute of a message that was published again: the one subscription it is meant for."""


@dataclass(frozen=True, kw_only=True)
class Event(Attempt):
    """One attempt at one event.

    Parameters
    ----------
    id, source, type
        Together they name the event, as CloudEvents defines it. Of a Pub/Sub message, `source` is
        the subscription (or the topic, through Eventarc) and `type` always
        `google.cloud.pubsub.topic.v1.messagePublished`.
    time
        When it happened or was published: aware, UTC; None where it does not say.
    subject
        What it is about, within the source.
    data
        The content, decoded.
    attributes
        The attributes of a Pub/Sub message, or the extension attributes of a CloudEvent.
    delivery_attempt
        From 1; None where the source does not count. Pub/Sub counts, approximately, for a
        subscription with a dead-letter topic.
    """

    id: str
    source: str
    type: str
    time: datetime | None
    subject: str | None
    data: bytes
    attributes: Mapping[str, str]
    delivery_attempt: int | None

    def json(self) -> Any:
        """Return the data as JSON.

        Raises
        ------
        BadBody
            If it is not JSON; left alone it ends the event as failed.
        """
        return parse_json(self.data)

    @classmethod
    def of(cls, envelope: Envelope, claim: Claim) -> "Event":
        """Make the event of a delivery whose claim was won."""
        return cls(
            id=envelope.id,
            source=envelope.source,
            type=envelope.type,
            time=envelope.time,
            subject=envelope.subject,
            data=envelope.data,
            attributes=envelope.attributes,
            delivery_attempt=envelope.delivery_attempt,
            _claim=claim,
        )


@dataclass(frozen=True)
class Rules:
    """When an event is given up.

    Parameters
    ----------
    max_age
        Older events are dropped, by the store's clock at the claim.
    max_attempts
        Deliveries beyond this one are dropped, where the source counts them.
    retry_on
        Errors that are retried even if `fatal_on` names them.
    fatal_on
        Errors that end the event as `Fatal` does.
    """

    max_age: timedelta | None = None
    max_attempts: int | None = None
    retry_on: tuple[Errors, ...] = ()
    fatal_on: tuple[Errors, ...] = ()

    def under(self, stack: StackEvent) -> "Rules":
        """Return the rules that hold in a stack: what its configuration says wins."""
        return replace(
            self,
            max_age=stack.max_age or self.max_age,
            max_attempts=stack.max_attempts or self.max_attempts,
        )

    def check(self, envelope: Envelope, claimed_at: datetime) -> None:
        """Drop what is too old or was tried too often.

        Raises
        ------
        Dropped
            With the reason.
        """
        if self.max_age is not None and envelope.time is not None:
            age = claimed_at - envelope.time
            if age > self.max_age:
                raise Dropped(f"the event is {age} old, more than max_age, {self.max_age}")
        attempt = envelope.delivery_attempt
        if self.max_attempts is not None and attempt is not None and attempt > self.max_attempts:
            raise Dropped(f"delivery attempt {attempt} is beyond max_attempts, {self.max_attempts}")

    def end(self, error: Exception) -> Fatal | None:
        """Return the error that ends the event, or None where it is to be retried."""
        if isinstance(error, Fatal):
            return error
        if _matches(error, self.retry_on) or not _matches(error, self.fatal_on):
            return None
        return Fatal(describe(error))


@dataclass(frozen=True)
class Handler:
    """A function and the events it handles."""

    name: str
    function: Function
    rules: Rules
    type: str = MESSAGE_PUBLISHED
    subscription: str | None = None
    topic: str | None = None

    def handles(self, envelope: Envelope, stack: StackEvent) -> bool:
        """Tell whether an event is for this function."""
        if envelope.type != self.type:
            return False
        if self.type != MESSAGE_PUBLISHED:
            return True
        named = stack.name if stack.subscription else None
        return all(
            wanted is None or wanted == alias or (full is not None and _is(wanted, full))
            for wanted, full, alias in (
                (self.subscription, envelope.subscription, named),
                (self.topic, envelope.topic or stack.topic, None),
            )
        )


HANDLERS: list[Handler] = []
"""The registered functions, in the order in which they run."""


def on_event(
    type: str,
    *,
    name: str | None = None,
    max_age: timedelta | None = None,
    max_attempts: int | None = None,
    retry_on: Errors | Collection[Errors] = (),
    fatal_on: Errors | Collection[Errors] = (),
) -> Callable[[F], F]:
    """Register a function for the CloudEvents of one type, as Eventarc sends them.

    Parameters
    ----------
    type
        The CloudEvents type.
    name
        The function's name in answers, logs and the event's key, so that two functions for one
        event both see it. Default: the function's own name. Whoever changes it lets events that
        are on their way take effect a second time.
    max_age
        An older event is dropped: acknowledged, recorded, logged. It must be longer than the event
        lease, or a crashed attempt would cost the event.
    max_attempts
        Deliveries beyond this one are dropped, where the source counts them. Answers of 409 while
        a crashed attempt holds its lease count too.
    fatal_on
        Exceptions that end the event as `Fatal` does: classes, or functions that take the
        exception, `permanent` among them. By default every exception but `Fatal` is retried.
    retry_on
        Exceptions that are retried even if `fatal_on` names them: `fatal_on=Exception,
        retry_on=transient` retries nothing else.

    Raises
    ------
    ValueError
        If the registration makes no sense or its name is taken.
    """
    if not isinstance(type, str) or not type:
        raise TypeError(f'on_event needs a CloudEvents type, not {type!r}: @on_event("TYPE")')
    if type == MESSAGE_PUBLISHED:
        raise ValueError("messages of Pub/Sub are for on_message(subscription=...) or (topic=...)")
    rules = _rules(max_age, max_attempts, retry_on, fatal_on)

    def register(function: F) -> F:
        _add(Handler(name or _name(function), function, rules, type=type))
        return function

    return register


def on_message(
    subscription: str | None = None,
    *,
    topic: str | None = None,
    name: str | None = None,
    max_age: timedelta | None = None,
    max_attempts: int | None = None,
    retry_on: Errors | Collection[Errors] = (),
    fatal_on: Errors | Collection[Errors] = (),
) -> Callable[[F], F]:
    """Register a function for messages of Pub/Sub, whether a push or Eventarc brings them.

    Parameters
    ----------
    subscription
        The event's name in the stack's configuration, or the subscription's id or full name.
    topic
        The topic's id or full name. A push names its subscription only, so its topic is known
        where the stack's configuration or Eventarc tells it.
    name, max_age, max_attempts, retry_on, fatal_on
        As for `on_event`.

    Raises
    ------
    ValueError
        If the registration makes no sense or its name is taken.
    """
    if callable(subscription) or not (subscription or topic):
        raise ValueError('on_message needs a subscription or a topic: @on_message("NAME")')
    rules = _rules(max_age, max_attempts, retry_on, fatal_on)

    def register(function: F) -> F:
        _add(
            Handler(
                name or _name(function), function, rules, subscription=subscription, topic=topic
            )
        )
        return function

    return register


def stack_event(envelope: Envelope, events: Mapping[str, StackEvent]) -> StackEvent:
    """Return what the stack's configuration says of an event; nothing where it names it not."""
    return next(
        (each for each in events.values() if each.covers(envelope.type, envelope.subscription)),
        NO_EVENT,
    )


def _rules(
    max_age: timedelta | None,
    max_attempts: int | None,
    retry_on: Errors | Collection[Errors],
    fatal_on: Errors | Collection[Errors],
) -> Rules:
    if max_age is not None and max_age <= timedelta(0):
        raise ValueError(f"max_age is {max_age}: give more than nothing")
    if max_attempts is not None and max_attempts < 1:
        raise ValueError(f"max_attempts is {max_attempts}: give at least 1")
    return Rules(max_age, max_attempts, _several(retry_on), _several(fatal_on))


def _add(handler: Handler) -> None:
    check_function(handler.function, "@on_event(...) or @on_message(...)")
    for other in HANDLERS:
        if other.name == handler.name and other.function is not handler.function:
            raise ValueError(
                f"two functions are registered as handler {handler.name!r}: give one a name="
            )
    HANDLERS.append(handler)


def _name(function: Function) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise ValueError(f"{function!r} has no name of its own: give one with name=")
    return name


def _several(errors: Errors | Collection[Errors]) -> tuple[Errors, ...]:
    return tuple(errors) if isinstance(errors, Collection) else (errors,)


def _matches(error: Exception, rules: tuple[Errors, ...]) -> bool:
    return any(isinstance(error, rule) if isinstance(rule, type) else rule(error) for rule in rules)


def _is(wanted: str, full: str) -> bool:
    return wanted in (full, full.rpartition("/")[2])
