"""Plays Pub/Sub: real push subscriptions of Google's emulator, which push to a front of ours."""

import json
import re
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local.handler import HandlerError
from local.player import LOST, Played
from local.pubsub import PubSub, Subscription
from local.road import Event, Road
from local.scheduler import Answer
from local.stack import Push
from tools.serving import serving

_PATIENCE_SECONDS = 30.0
"""How much longer than the lease and the longest wait a message may take."""
_SHORTEST_BACKOFF = timedelta(seconds=1)
"""The emulator waits whole seconds."""
_NAME = re.compile(r"projects/([^/\"]+)/(topics|subscriptions)/")
_HOP_BY_HOP = ("host", "connection", "content-length", "transfer-encoding")


def apart(text: str, tag: str) -> str:
    """Give every topic and subscription in a text a project of its own.

    An emulator may be shared; the names are the stack's, and another run has the same.
    """
    return _NAME.sub(rf"projects/\1-{tag}/\2/", text)


class Messages:
    """The subscriptions of a stack, and the messages that are published to them.

    Parameters
    ----------
    host
        The emulator's.
    tag
        Keeps this run's names apart.
    road
        Takes the pushes.
    """

    def __init__(self, host: str, tag: str, road: Road) -> None:
        self._pubsub = PubSub(host)
        self._tag = tag
        self._road = road
        self._publishing = threading.Lock()
        self._events: dict[str, Event] = {}

    def open(self, pushes: Sequence[Push], factors: dict[str, float], closing: ExitStack) -> None:
        """Make the subscriptions, until `closing` closes.

        Parameters
        ----------
        factors
            How many times faster each service is played.
        """
        front = _Front(("127.0.0.1", 0), _Handler)
        front.messages = self
        closing.enter_context(serving(front))
        closing.callback(self._pubsub.close)
        for push in pushes:
            dead, factor = push.dead_letter_topic, factors[push.service]
            # Without a retry policy Pub/Sub sends again at once; that is for no scale to change.
            shortest = _SHORTEST_BACKOFF if push.max_backoff else timedelta()
            self._pubsub.subscribe(
                Subscription(
                    name=apart(push.name, self._tag),
                    topic=apart(push.topic, self._tag),
                    endpoint=f"http://127.0.0.1:{front.server_address[1]}{push.path}",
                    dead_letter_topic=apart(dead, self._tag) if dead else None,
                    max_attempts=push.max_attempts,
                    min_backoff=max(push.min_backoff / factor, shortest),
                    max_backoff=max(push.max_backoff / factor, shortest),
                )
            )

    def play(self, event: Event) -> Played:
        """Publish one message and wait until it is acknowledged, or given up.

        Raises
        ------
        Stopped
            After `Road.stop`.
        """
        push = event.source
        assert isinstance(push, Push)
        with self._publishing:  # a push may come before the id of what was published is known
            message_id = self._pubsub.publish(apart(push.topic, self._tag), event.data)
            self._events[message_id] = event
            self._road.prepare(event, message_id)
        scale = self._road.site(event).scale
        longest = max(scale.seconds(push.max_backoff), _SHORTEST_BACKOFF.total_seconds())
        self._road.wait(event, scale.lease_seconds + longest + _PATIENCE_SECONDS)
        return self._road.played(event, message_id)

    def take(self, headers: dict[bytes, bytes], body: bytes) -> Answer:
        """Take a push of the emulator; return what it is to hear."""
        with self._publishing:
            event = self._events[json.loads(body)["message"]["messageId"]]
        return self._road.pass_on(event, headers, body)


class _Front(ThreadingHTTPServer):
    daemon_threads = True
    messages: Messages


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Front

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {
            name.encode(): value.encode()
            for name, value in self.headers.items()
            if name.lower() not in _HOP_BY_HOP
        }
        try:
            answer = self.server.messages.take(headers, body)
        except HandlerError:  # the local stack is closing
            answer = LOST
        if answer.status is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet: the table says what came."""
