"""Drains a dead-letter subscription: lists what is there, shows it, publishes it again.

`python -m local.deadletters SUBSCRIPTION list` works on a real project with your own credentials,
and on the emulator where PUBSUB_EMULATOR_HOST says so.
"""

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from google.api_core.exceptions import Cancelled, DeadlineExceeded, GoogleAPICallError, NotFound
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.types import PubsubMessage

from local.pubsub import connect

# What Pub/Sub adds when it forwards a message.
# Source: https://cloud.google.com/pubsub/docs/handling-failures
_FORWARDED = "CloudPubSubDeadLetterSource"
_SUBSCRIPTION = f"{_FORWARDED}Subscription"
_PROJECT = f"{_FORWARDED}SubscriptionProject"
_COUNT = f"{_FORWARDED}DeliveryCount"
# What the handler adds when it gives an event up itself, and what it reads on a message that comes
# back: a test holds the names to handler/once.
_OWN = "once-"
_ONLY_FOR = "once-only-for"

_FULL_NAME = re.compile(r"projects/[^/]+/subscriptions/[^/]+")
_LEASE_SECONDS = 600
_CALL_SECONDS = 30
_PULLED_AT_ONCE = 100


class DrainError(Exception):
    """What was asked cannot be done; the message says why."""


@dataclass(frozen=True)
class DeadLetter:
    """One dead-lettered message.

    Attributes
    ----------
    id
        Its id in the dead-letter topic; the original's is another.
    published
        When it was put there.
    reason
        Why it is there.
    subscription
        Full name of the one that it failed in; None where it does not say.
    data, attributes, ordering_key
        Of the original message.
    ack_id
        By which it is taken away.
    """

    id: str
    published: datetime
    reason: str
    subscription: str | None
    data: bytes
    attributes: dict[str, str]
    ordering_key: str
    ack_id: str


class DeadLetters:
    """The messages of a dead-letter subscription.

    Parameters
    ----------
    subscription
        Full name.
    host
        An emulator's ``host:port``; without it PUBSUB_EMULATOR_HOST or Google.
    wait_seconds
        How long a pull waits for more.
    """

    def __init__(
        self, subscription: str, *, host: str | None = None, wait_seconds: float = 5
    ) -> None:
        self._publisher, self._subscriber = connect(host)
        self._subscription = subscription
        self._wait_seconds = wait_seconds
        self._held: dict[str, DeadLetter] = {}

    @contextmanager
    def pulled(self) -> Iterator[list[DeadLetter]]:
        """Yield what stands there; what is not taken away meanwhile stands there again after."""
        try:
            while more := self._pull():
                self._held.update((each.ack_id, each) for each in more)
            yield sorted(self._held.values(), key=lambda each: (each.published, each.id))
        finally:
            self._extend([*self._held], 0)
            self._held.clear()

    def republish(self, letter: DeadLetter, topic: str | None = None) -> str:
        """Publish a message again, then take it away; return its new id.

        It is marked for the subscription that it failed in, because the others of its topic had
        their copy. A crash between the two steps publishes it twice, never not at all.

        Parameters
        ----------
        letter
            The message.
        topic
            Where to; the topic of its own subscription unless given.

        Raises
        ------
        DrainError
            If it does not say where it came from.
        """
        attributes = {
            name: value
            for name, value in letter.attributes.items()
            if not name.startswith((_FORWARDED, _OWN, "goog"))
        }
        if letter.subscription:
            attributes[_ONLY_FOR] = letter.subscription
        message = PubsubMessage(
            data=letter.data, attributes=attributes, ordering_key=letter.ordering_key
        )
        published = self._publisher.publish(
            topic=topic or self._source(letter), messages=[message], timeout=_CALL_SECONDS
        )
        self._subscriber.acknowledge(
            subscription=self._subscription, ack_ids=[letter.ack_id], timeout=_CALL_SECONDS
        )
        self._held.pop(letter.ack_id, None)
        (message_id,) = published.message_ids
        return message_id

    def _source(self, letter: DeadLetter) -> str:
        if letter.subscription is None:
            raise DrainError(f"{letter.id} does not say where it came from: name a topic with --to")
        try:
            found = self._subscriber.get_subscription(
                subscription=letter.subscription, timeout=_CALL_SECONDS
            )
        except NotFound:
            raise DrainError(
                f"{letter.id} came from {letter.subscription}, which is gone: name a topic "
                "with --to"
            ) from None
        return found.topic

    def _pull(self) -> list[DeadLetter]:
        until = time.monotonic() + self._wait_seconds
        # A pull may come back with nothing though there is more.
        while (left := until - time.monotonic()) > 0:
            try:
                pulled = self._subscriber.pull(
                    subscription=self._subscription,
                    max_messages=_PULLED_AT_ONCE,
                    timeout=left,
                    retry=None,
                )
            except (Cancelled, DeadlineExceeded):  # the server may see the deadline first
                break
            if received := pulled.received_messages:
                self._extend([each.ack_id for each in received], _LEASE_SECONDS)
                return [_letter(each.message, each.ack_id) for each in received]
        return []

    def _extend(self, ack_ids: list[str], seconds: int) -> None:
        for start in range(0, len(ack_ids), _PULLED_AT_ONCE):
            self._subscriber.modify_ack_deadline(
                subscription=self._subscription,
                ack_ids=ack_ids[start : start + _PULLED_AT_ONCE],
                ack_deadline_seconds=seconds,
                timeout=_CALL_SECONDS,
            )


def _letter(message: PubsubMessage, ack_id: str) -> DeadLetter:
    attributes = dict(message.attributes)
    subscription = attributes.get(f"{_OWN}subscription") or attributes.get(_SUBSCRIPTION)
    if subscription and "/" not in subscription:
        subscription = f"projects/{attributes.get(_PROJECT, '')}/subscriptions/{subscription}"
    if f"{_OWN}outcome" in attributes:
        handler = attributes.get(f"{_OWN}handler", "?")
        reason = f"{attributes[f'{_OWN}outcome']} by {handler}: {attributes.get(f'{_OWN}reason')}"
    else:
        reason = f"not acknowledged in {attributes.get(_COUNT, '?')} deliveries"
    return DeadLetter(
        id=message.message_id,
        published=datetime.fromtimestamp(message.publish_time.timestamp(), UTC),  # type: ignore[attr-defined]
        reason=reason,
        subscription=subscription,
        data=message.data,
        attributes=attributes,
        ordering_key=message.ordering_key,
        ack_id=ack_id,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """List, show or publish again; return the exit code."""
    options = _parse(arguments)
    try:
        letters = DeadLetters(options.subscription, wait_seconds=options.wait)
        with letters.pulled() as found:
            return _COMMANDS[options.command](options, letters, found)
    except (DrainError, GoogleAPICallError, GoogleAuthError) as error:
        print(f"deadletters: {error}", file=sys.stderr)
        return 2


def _list(options: argparse.Namespace, letters: DeadLetters, found: list[DeadLetter]) -> int:
    for letter in found:
        size = f"{len(letter.data)} bytes"
        print(f"{letter.id}  {letter.published:%Y-%m-%d %H:%M:%SZ}  {size:>12}  {letter.reason}")
    print(f"{len(found)} in {options.subscription}")
    return 0


def _show(options: argparse.Namespace, letters: DeadLetters, found: list[DeadLetter]) -> int:
    for letter in _chosen(options, found):
        print(f"{letter.id}  {letter.reason}")
        print(f"  from: {letter.subscription or 'unknown'}")
        for name, value in sorted(letter.attributes.items()):
            print(f"  {name}: {value}")
        print(letter.data.decode(errors="backslashreplace"))
    return 0


def _republish(options: argparse.Namespace, letters: DeadLetters, found: list[DeadLetter]) -> int:
    for letter in _chosen(options, found):
        print(f"{letter.id} is published again as {letters.republish(letter, options.to)}")
    return 0


_COMMANDS = {"list": _list, "show": _show, "republish": _republish}


def _chosen(options: argparse.Namespace, found: list[DeadLetter]) -> list[DeadLetter]:
    if options.all:
        return found
    by_id = {letter.id: letter for letter in found}
    if missing := [each for each in options.ids if each not in by_id]:
        raise DrainError(f"no message {missing[0]} was found in {options.subscription}")
    return [by_id[each] for each in options.ids]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local.deadletters",
        description="Lists, shows and re-publishes the messages of a dead-letter subscription.",
    )
    parser.add_argument("subscription", help="projects/PROJECT/subscriptions/NAME")
    parser.add_argument(
        "--wait", type=float, default=5, metavar="SECONDS", help="for more messages (default: 5)"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="one line for each message")
    for command, words in (("show", "everything about"), ("republish", "publish again")):
        each = commands.add_parser(command, help=f"{words} the messages")
        each.add_argument("ids", nargs="*", metavar="ID", help="as `list` shows them")
        each.add_argument("--all", action="store_true", help="all that are there")
    each.add_argument("--to", metavar="TOPIC", help="projects/PROJECT/topics/NAME")
    options = parser.parse_args(arguments)
    if not _FULL_NAME.fullmatch(options.subscription):
        parser.error(f"{options.subscription!r} is not projects/PROJECT/subscriptions/NAME")
    if options.command != "list" and options.all == bool(options.ids):
        parser.error("name messages, or give --all")
    return options


if __name__ == "__main__":
    sys.exit(main())
