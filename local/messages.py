"""Plays Pub/Sub: real push subscriptions of Google's emulator, and the road between them and us.

The emulator pushes to a front of ours, as Pub/Sub pushes to Google's. The front passes a push on to
a container and lets go wrong what goes wrong on that road.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice
from typing import Any

from local.handler import HandlerError
from local.ledger import Injection, Injections
from local.plan import WORDS, Fault
from local.player import HOPELESS, KILLED, LOST, SIMULTANEOUS, Played, Site, Stopped, killed
from local.pubsub import PubSub, Subscription
from local.scheduler import Answer, post
from local.stack import SAMPLES, Push

FAULTS = (Fault.NONE, Fault.DUPLICATE, Fault.LOST_ANSWER, Fault.RAISE, Fault.KILL)
"""What goes wrong with messages, one after the other."""

_PATIENCE_SECONDS = 30.0
"""How much longer than the lease and the longest wait a message may take."""
_SHORTEST_BACKOFF = timedelta(seconds=1)
"""The emulator waits whole seconds."""
_NAME = re.compile(r"projects/([^/\"]+)/(topics|subscriptions)/")


@dataclass(frozen=True)
class PlannedMessage:
    """One message to be played."""

    push: Push
    number: int
    fault: Fault

    @property
    def title(self) -> str:
        """What it is called in the output."""
        return f"{self.push.label} message {self.number}"

    @property
    def trouble(self) -> str:
        """What goes wrong with it, in few words."""
        return WORDS[self.fault].short


def plan(
    pushes: Sequence[Push], messages: int, shares: Mapping[Fault, float]
) -> list[PlannedMessage]:
    """Plan messages for each subscription; a fault with a share of zero does not occur."""
    faults = [fault for fault in FAULTS if fault is Fault.NONE or shares.get(fault)]
    return [
        PlannedMessage(push, number, fault)
        for push in pushes
        for number, fault in enumerate(islice(cycle(faults), messages), 1)
    ]


def apart(text: str, tag: str) -> str:
    """Give every topic and subscription in a text a project of its own.

    An emulator may be shared; the names are the stack's, and another run has the same.
    """
    return _NAME.sub(rf"projects/\1-{tag}/\2/", text)


@dataclass
class _Script:
    """What is to happen to one message, and what did."""

    message: PlannedMessage
    answers: list[Answer] = field(default_factory=list)
    pending: bool = True
    done: threading.Event = field(default_factory=threading.Event)


class Messages:
    """The subscriptions of a stack, and the messages that are published to them.

    Parameters
    ----------
    host
        The emulator's.
    tag
        Keeps this run's names apart.
    sites
        The services by name.
    injections
        Where faults are ordered that the handler must commit itself.
    say
        Takes the title of a message, and a line about it while it is played.
    """

    def __init__(
        self,
        host: str,
        tag: str,
        sites: Mapping[str, Site],
        injections: Injections,
        say: Callable[[str, str], None],
    ) -> None:
        self._pubsub = PubSub(host)
        self._tag = tag
        self._sites = sites
        self._injections = injections
        self._say = say
        self._publishing = threading.Lock()
        self._scripts: dict[str, _Script] = {}
        self._stop = threading.Event()

    def stop(self) -> None:
        """Let every message end at once, with `Stopped`."""
        self._stop.set()
        for script in list(self._scripts.values()):
            script.done.set()

    def open(self, pushes: Sequence[Push], closing: ExitStack) -> None:
        """Make the subscriptions, each with a front, until `closing` closes."""
        closing.callback(self._pubsub.close)
        for push in pushes:
            front = _Front(("127.0.0.1", 0), _Handler)
            front.push, front.messages = push, self
            thread = threading.Thread(target=front.serve_forever, args=(0.05,))
            thread.start()
            closing.callback(_close, front, thread)
            factor = self._sites[push.service].scale.factor
            dead = push.dead_letter_topic
            self._pubsub.subscribe(
                Subscription(
                    name=apart(push.name, self._tag),
                    topic=apart(push.topic, self._tag),
                    endpoint=f"http://127.0.0.1:{front.server_address[1]}{push.path}",
                    dead_letter_topic=apart(dead, self._tag) if dead else None,
                    max_attempts=push.max_attempts,
                    min_backoff=max(push.min_backoff / factor, _SHORTEST_BACKOFF),
                    max_backoff=max(push.max_backoff / factor, _SHORTEST_BACKOFF),
                )
            )

    def play(self, message: PlannedMessage) -> Played:
        """Publish one message and wait until it is acknowledged, or given up.

        Raises
        ------
        Stopped
            After `stop`.
        """
        push, script = message.push, _Script(message)
        scale = self._sites[push.service].scale
        sample = SAMPLES / f"{push.label}.json"
        data = sample.read_bytes() if sample.exists() else b"{}"
        with self._publishing:  # a push may come before the id of what was published is known
            message_id = self._pubsub.publish(apart(push.topic, self._tag), data)
            self._scripts[message_id] = script
            if message.fault in (Fault.RAISE, Fault.KILL):
                self._injections.put("", message_id, Injection(message.fault))
        backoff = max(scale.seconds(push.max_backoff), 1.0)
        script.done.wait(scale.lease_seconds + backoff + _PATIENCE_SECONDS)
        if self._stop.is_set():
            raise Stopped
        return Played(
            message.title,
            message.trouble,
            message.fault,
            tuple(script.answers),
            message_id,
            None,
            scale.lease_seconds,
        )

    def deliver(self, push: Push, headers: dict[bytes, bytes], body: bytes) -> Answer:
        """Pass a push on; return what Pub/Sub is to hear of it."""
        with self._publishing:
            script = self._scripts[json.loads(body)["message"]["messageId"]]
        site, fault = self._sites[push.service], script.message.fault

        def send(number: int) -> Answer:
            instance = site.instances[number % len(site.instances)]
            answer = post(instance.address(), push.path, headers, body, seconds)
            script.answers.append(answer)
            return answer

        seconds = site.scale.seconds(push.ack_deadline)
        first, number = script.pending, len(script.answers)
        if fault is Fault.KILL and script.pending:
            with site.doom:
                answer = post(site.doomed.address(), push.path, headers, body, seconds)
                if answer.status is None and site.doomed.died():
                    script.pending, answer = False, KILLED
                    self._say(script.message.title, killed(site))
            script.answers.append(answer)
            return answer
        script.pending = False
        if fault is Fault.DUPLICATE and first:
            with ThreadPoolExecutor(SIMULTANEOUS) as pool:
                answers = list(pool.map(send, range(SIMULTANEOUS)))
            answer = next((each for each in answers if each.accepted), answers[0])
        else:
            answer = send(number)
        if fault is Fault.LOST_ANSWER and first and answer.accepted:
            script.answers[-1] = answer = LOST
        if answer.accepted or answer.status in HOPELESS:
            script.done.set()
        return answer


class _Front(ThreadingHTTPServer):
    daemon_threads = True
    push: Push
    messages: Messages


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Front

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hop_by_hop = ("host", "connection", "content-length", "transfer-encoding")
        headers = {
            name.encode(): value.encode()
            for name, value in self.headers.items()
            if name.lower() not in hop_by_hop
        }
        try:
            answer = self.server.messages.deliver(self.server.push, headers, body)
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


def _close(front: _Front, thread: threading.Thread) -> None:
    front.shutdown()
    thread.join()
    front.server_close()
