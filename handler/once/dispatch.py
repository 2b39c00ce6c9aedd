"""From an event to the functions that handle it, each under its own key."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from once.deadletter import publish
from once.events import ONLY_FOR, Event, Handler, stack_event
from once.identity.events import Envelope, EventDelivery
from once.protocol import Claim, Dropped, Durations, Guard, Report
from once.stack_events import EVENTS, StackEvent


class Dispatch:
    """Runs the functions of an event one after the other, in the order of their registration.

    Each has a record of its own, so when the event comes again those that ended are duplicates
    and only the others run.

    Parameters
    ----------
    guard
        Runs each function once.
    durations
        The guard's own.
    handlers
        The functions that may run.
    stack
        What the stack's configuration says of its events.

    Raises
    ------
    SystemExit
        If a rule would drop the event of a crashed attempt before its lease is over.
    """

    def __init__(
        self,
        guard: Guard,
        durations: Durations,
        handlers: Sequence[Handler],
        stack: Mapping[str, StackEvent],
    ) -> None:
        self._guard = guard
        self._handlers = handlers
        self._stack = stack
        ages = {f"max_age of handler {each.name!r}": each.rules.max_age for each in handlers}
        ages |= {f"{EVENTS}: {name}.maxAgeSeconds": each.max_age for name, each in stack.items()}
        for where, age in ages.items():
            if age is not None and age <= durations.lease:
                raise SystemExit(
                    f"{where} is {age}, which is not longer than the event lease, "
                    f"{durations.lease}: a crashed attempt would cost the event; give more, or "
                    "the service a shorter timeout"
                )

    def run(self, envelope: Envelope) -> Iterator[tuple[EventDelivery, Report, float]]:
        """Run the functions of an event.

        Yields
        ------
        tuple
            The delivery to a function, what became of it, and when it began (monotonic clock).
        """
        stack = stack_event(envelope, self._stack)
        for handler in self._handlers:
            if handler.handles(envelope, stack):
                begun = time.monotonic()
                delivery = EventDelivery(envelope, handler.name)
                yield delivery, self._guard.run(delivery, _work(handler, delivery, stack)), begun

    def unhandled(self, envelope: Envelope) -> str:
        """Say that nothing handles an event, and what would be handled."""
        known = {
            each.subscription or (f"topic {each.topic}" if each.topic else each.type)
            for each in self._handlers
        }
        what = envelope.subscription or envelope.type
        return f"nothing handles {what[:200]!r}; known: {', '.join(sorted(known)) or 'none'}"


def _work(
    handler: Handler, delivery: EventDelivery, stack: StackEvent
) -> Callable[[Claim], object]:
    envelope = delivery.envelope
    rules = handler.rules.under(stack)

    def work(claim: Claim) -> object:
        only_for = envelope.attributes.get(ONLY_FOR)
        if only_for and envelope.subscription not in (None, only_for):
            raise Dropped(f"the message was published again for {only_for} only")
        try:
            rules.check(envelope, claim.version.time)
            return handler.function(Event.of(envelope, claim))
        except Exception as error:
            end = rules.end(error)
            if end is None:
                raise
            if stack.dead_letter_topic:
                publish(stack.dead_letter_topic, delivery, claim, end)
            if end is error:
                raise
            raise end from error

    return work
