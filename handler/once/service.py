"""From an HTTP request to an answer: the rooms in their order, and the one log line."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from once import logs
from once.answer import Answer, Outcome, answer, severity
from once.dispatch import Dispatch
from once.events import HANDLERS, Handler
from once.headers import Folded, folded
from once.identity import BadDelivery, Delivery
from once.identity.events import Envelope, read_event
from once.identity.scheduler import ScheduledDelivery, scheduled
from once.protocol import Claim, Guard, Report, describe
from once.run import JOBS, Job, Run
from once.settings import STARTS, Settings


class Service:
    """Answers deliveries; knows no web framework.

    Parameters
    ----------
    settings
        Store and durations.
    stopping
        Tells whether this process was told to stop.
    jobs
        The functions that may run, by name, beside those that start Google APIs.
    handlers
        The functions that handle events.

    Raises
    ------
    SystemExit
        If a function has the name of one that starts a Google API, or a rule for events cannot
        hold.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        stopping: Callable[[], bool] = lambda: False,
        jobs: Mapping[str, Job] = JOBS,
        handlers: Sequence[Handler] = HANDLERS,
    ) -> None:
        self._guard = Guard(settings.store, settings.durations, stopping=stopping)
        durations = settings.event_durations or settings.durations
        guard = self._guard.lasting(durations)
        self._events = Dispatch(guard, durations, handlers, settings.events)
        self._project = settings.project
        if both := sorted(jobs.keys() & settings.starts.keys()):
            raise SystemExit(f"{STARTS} names {both[0]!r}, which is a function too: rename one")
        self._jobs = {**jobs, **settings.starts}

    def deliver(self, method: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one delivery.

        Parameters
        ----------
        method, headers, body
            The HTTP request, whatever its path.
        """
        begun = time.monotonic()
        headers = folded(headers)
        with logs.fields(**logs.trace(headers, self._project)):
            if method != "POST":
                return refused(Outcome.METHOD_NOT_ALLOWED, begun, f"{method} is refused: use POST")
            if (missing := _missing(headers, body)) > 0:
                detail = f"the body was cut off: {missing} bytes are missing"
                return refused(Outcome.BAD_REQUEST, begun, detail)
            try:
                envelope = read_event(headers, body)
                if envelope is not None:
                    return self._deliver_event(envelope, begun)
                delivery = scheduled(headers)
            except BadDelivery as error:
                return refused(Outcome.BAD_REQUEST, begun, str(error))
            function = self._jobs.get(delivery.function)
            if function is None:
                known = ", ".join(sorted(self._jobs)) or "none"
                detail = f"no function is registered as {delivery.function!r}; known: {known}"
                return refused(Outcome.UNKNOWN_JOB, begun, detail, delivery.job)
            report = self._guard.run(delivery, _call(function, delivery, body))
            return answered(delivery, report, begun)

    def _deliver_event(self, envelope: Envelope, begun: float) -> Answer:
        """Answer an event; where several functions handle it, with the worst that became of one."""
        answers = [
            (answered(delivery, report, since), report.outcome)
            for delivery, report, since in self._events.run(envelope)
        ]
        if not answers:
            return refused(Outcome.UNKNOWN_JOB, begun, self._events.unhandled(envelope))
        worst, _ = max(answers, key=lambda each: (each[0].status, each[1] != Outcome.DUPLICATE))
        return worst


def _missing(headers: Folded, body: bytes) -> int:
    """Return how many bytes of the body never came: servers hand on what they got without a word.

    A body that a framework has decompressed cannot be counted.
    """
    length = headers.get("content-length", "")
    if headers.get("content-encoding") or not re.fullmatch("[0-9]{1,18}", length):
        return 0
    return int(length) - len(body)


def _call(function: Job, delivery: ScheduledDelivery, body: bytes) -> Callable[[Claim], object]:
    return lambda claim: function(Run.of(delivery, claim, body))


def refused(outcome: Outcome, begun: float, detail: str, job: str | None = None) -> Answer:
    """Log and answer a request that never reached the store.

    Parameters
    ----------
    begun
        When it came, on the monotonic clock.
    detail
        What is wrong with it.
    """
    logs.delivery(
        severity(outcome),
        f"{outcome}: {detail}",
        labels={"outcome": outcome, "job": job},
        numbers={"duration_ms": _ms(time.monotonic() - begun)},
    )
    return answer(outcome, run_id=None, job=job, detail=detail)


def answered(delivery: Delivery, report: Report, begun: float) -> Answer:
    """Log what became of a delivery and return the answer to it.

    Parameters
    ----------
    begun
        When it came, on the monotonic clock.
    """
    numbers = {"duration_ms": _ms(time.monotonic() - begun)}
    if report.claim is not None and delivery.due is not None:
        lateness = report.claim.version.time - delivery.due
        numbers["lateness_ms"] = lateness // timedelta(milliseconds=1)
    words = [f"{report.outcome}: {delivery.name}"]
    if report.why:
        words.append(report.why)
    if report.cause is not None:
        words.append(describe(report.cause))
    logs.delivery(
        severity(report.outcome),
        "; ".join(words),
        labels={
            "outcome": report.outcome,
            "job": delivery.name,
            "run_id": report.key.id,
            "attempt_id": report.attempt_id,
        },
        numbers=numbers,
        cause=report.cause,
    )
    return answer(
        report.outcome,
        run_id=report.key.id,
        job=delivery.name,
        retry_after=report.retry_after,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
