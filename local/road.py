"""The road from Google's front end to a container, for events, and what goes wrong on it.

Whoever delivers (Google's Pub/Sub emulator, or our Eventarc) decides when it tries again; the road
decides which container gets the request and what the sender hears.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle, islice

from local.ledger import Injection
from local.plan import WORDS, Fault
from local.player import HOPELESS, KILLED, SIMULTANEOUS, Played, Site, Stage, Stopped, killed, lost
from local.scheduler import Answer, post
from local.stack import SAMPLES, Push, Trigger

FAULTS = (Fault.NONE, Fault.DUPLICATE, Fault.LOST_ANSWER, Fault.RAISE, Fault.KILL)
"""What goes wrong with events, one after the other."""


@dataclass
class Event:
    """One event that is played: what is to happen to it, and what did.

    Attributes
    ----------
    source
        The subscription or trigger.
    title
        What it is called in the output.
    untouched
        Whether its fault is still to come.
    done
        Set when the sender has heard what ends it.
    """

    source: Push | Trigger
    title: str
    fault: Fault
    answers: list[Answer] = field(default_factory=list)
    untouched: bool = True
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def data(self) -> bytes:
        """Its content: the sample for its source, or else an empty object."""
        sample = SAMPLES / f"{self.source.label}.json"
        return sample.read_bytes() if sample.exists() else b"{}"


def plan(
    sources: Sequence[Push | Trigger], number: int, shares: Mapping[Fault, float]
) -> list[Event]:
    """Plan so many events for each source; a fault with a share of zero does not occur."""
    faults = [fault for fault in FAULTS if fault is Fault.NONE or shares.get(fault)]
    return [
        Event(source, f"{source.label} event {count}", fault)
        for source in sources
        for count, fault in enumerate(islice(cycle(faults), number), 1)
    ]


class Road(Stage):
    """Passes events on to the containers of a stack."""

    def site(self, event: Event) -> Site:
        """Return the service that an event goes to."""
        return self._sites[event.source.service]

    def prepare(self, event: Event, event_id: str) -> None:
        """Order what the handler is to do to itself, before the event is delivered."""
        if event.fault in (Fault.RAISE, Fault.KILL):
            self._injections.put("", event_id, Injection(event.fault))

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait until an event has ended; False where the time was over first.

        Raises
        ------
        Stopped
            After `stop`.
        """
        step = 0.2
        while seconds > 0 and not event.done.wait(min(step, seconds)):
            if self._stop.is_set():
                raise Stopped
            seconds -= step
        return event.done.is_set()

    def played(self, event: Event, event_id: str) -> Played:
        """Return an event as played."""
        return Played(
            event.title,
            WORDS[event.fault].short,
            event.fault,
            tuple(event.answers),
            event_id,
            None,
            self.site(event).scale.lease_seconds,
        )

    def pass_on(self, event: Event, headers: dict[bytes, bytes], body: bytes) -> Answer:
        """Pass a delivery on, and return what the sender is to hear.

        Raises
        ------
        HandlerError
            If a container does not start.
        """
        site = self.site(event)
        seconds = site.scale.seconds(event.source.deadline)

        def send(address: tuple[str, int]) -> Answer:
            return post(address, event.source.path, headers, body, seconds)

        def usual(number: int) -> Answer:
            answer = send(site.instances[number % len(site.instances)].address())
            event.answers.append(answer)
            return answer

        if event.fault is Fault.KILL and event.untouched:
            with site.doom:  # one at a time, since what dies takes all that it does along
                answer = send(site.doomed.address())
                if answer.status is None and site.doomed.died():
                    event.untouched, answer = False, KILLED
                    self._say(event.title, killed(site))
            event.answers.append(answer)
            return answer
        first, event.untouched = event.untouched, False
        if event.fault is Fault.DUPLICATE and first:
            with ThreadPoolExecutor(SIMULTANEOUS) as pool:
                answers = list(pool.map(usual, range(SIMULTANEOUS)))
            answer = next((each for each in answers if each.accepted), answers[0])
        else:
            answer = usual(len(event.answers))
        if event.fault is Fault.LOST_ANSWER and first and answer.accepted:
            event.answers[-1] = answer = lost(answer)
        if answer.accepted or answer.status in HOPELESS:
            event.done.set()
        return answer
