"""Plays Cloud Scheduler: every planned run, with what goes wrong in it."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta

from local.handler import Instance
from local.ledger import Injection, Injections, Ledger, Step
from local.plan import Fault, PlannedRun
from local.scale import Scale
from local.scheduler import Answer, headers, may_retry, post, retry_waits
from local.starts import function_of

SIMULTANEOUS = 3
"""How many deliveries of one run arrive at once where duplicates are played."""

HOPELESS = (400, 404, 405)
"""These would be repeated too; here they end a run, since nothing would change."""

_STALL_MARGIN_SECONDS = 1.0
"""What a successor gets to finish before the stalled attempt goes on."""

_ENDS = (Step.EFFECT, Step.RETURN, Step.RAISE)

KILLED = Answer(None, "killed")
LOST = Answer(None, "lost")


def lost(answer: Answer) -> Answer:
    """Return what the caller hears of an answer that is lost on its way."""
    return replace(LOST, unheard=answer.outcome)


class Stopped(Exception):
    """The local stack is being closed."""


@dataclass(frozen=True)
class Site:
    """One service on this machine.

    Attributes
    ----------
    instances
        The containers that take deliveries in turn, so that no memory of one process can help.
    doomed
        The container that is there to be killed.
    """

    scale: Scale
    instances: Sequence[Instance]
    doomed: Instance
    doom: threading.Lock

    def close(self) -> None:
        """End all of its containers."""
        for instance in (*self.instances, self.doomed):
            instance.close()


@dataclass(frozen=True)
class Played:
    """Something that was played to its end.

    Attributes
    ----------
    title, trouble
        What it was, and what went wrong with it, in few words.
    answers
        The answers to its deliveries, in their order.
    occasion, function
        Where its lines stand in the ledger; None: under any function.
    """

    title: str
    trouble: str
    fault: Fault
    answers: tuple[Answer, ...]
    occasion: str
    function: str | None
    lease_seconds: int


class Stage:
    """Where something is played, until it is stopped.

    Parameters
    ----------
    sites
        The services by name.
    injections
        Where faults are ordered that the handler must commit itself.
    say
        Takes the title of what is played, and a line about it meanwhile.
    """

    def __init__(
        self,
        sites: Mapping[str, Site],
        injections: Injections,
        say: Callable[[str, str], None],
    ) -> None:
        self._sites = sites
        self._injections = injections
        self._say = say
        self._stop = threading.Event()

    def stop(self) -> None:
        """Let all that is played end at its next step, with `Stopped`."""
        self._stop.set()


class Player(Stage):
    """Plays runs, several at once.

    Parameters
    ----------
    sites, injections, say
        As for `Stage`.
    ledger
        What really happened.
    """

    def __init__(
        self,
        sites: Mapping[str, Site],
        injections: Injections,
        ledger: Ledger,
        say: Callable[[str, str], None],
    ) -> None:
        super().__init__(sites, injections, say)
        self._ledger = ledger

    def play(self, run: PlannedRun) -> Played:
        """Play one run to its end.

        Raises
        ------
        Stopped
            After `stop`.
        HandlerError
            If an instance does not start.
        """
        site = self._sites[run.job.service]
        occasion = run.slot.isoformat()
        if injection := _injection(run, site.scale):
            by_api = run.job.starts and run.fault is Fault.RAISE
            function = function_of(run.job.name) if by_api else run.job.name
            self._injections.put(function, occasion, injection)
        streams = SIMULTANEOUS if run.fault is Fault.DUPLICATE else 1
        answers: list[Answer] = []
        with ThreadPoolExecutor(streams) as pool:
            for stream in [
                pool.submit(self._stream, run, site, number, answers) for number in range(streams)
            ]:
                stream.result()
        if run.fault is Fault.STALL:
            self._await_late_end(run, site.scale)
        return Played(
            run.title,
            run.trouble,
            run.fault,
            tuple(answers),
            occasion,
            run.job.name,
            site.scale.lease_seconds,
        )

    def _stream(self, run: PlannedRun, site: Site, number: int, answers: list[Answer]) -> None:
        """Deliver until Cloud Scheduler would stop."""
        chance = random.Random(f"{run.seed}/{number}")
        waits = retry_waits(run.job.retry)
        # Somebody who forces a run may do so twice.
        repeat = run.forced or run.fault is Fault.LOST_ANSWER
        with ExitStack() as doom:
            doomed = run.fault in (Fault.KILL, Fault.KILL_AFTER)
            if doomed:  # one run at a time, since what dies takes all that it does along
                doom.enter_context(site.doom)
                site.doomed.address()
            first = time.monotonic()
            while True:
                usual = site.instances[number % len(site.instances)]
                answer = self._deliver(run, site.doomed if doomed else usual, site.scale, chance)
                if doomed and answer.status is None and site.doomed.died():
                    doomed, answer = False, KILLED
                    doom.close()
                    self._say(run.title, killed(site))
                ended = answer.accepted and not repeat
                if answer.accepted and repeat:
                    repeat = False
                    answer = lost(answer) if run.fault is Fault.LOST_ANSWER else answer
                answers.append(answer)
                if ended or answer.status in HOPELESS:
                    return
                number += 1
                wait, retry = next(waits)
                self._sleep(site.scale.seconds(wait))
                since_first = timedelta(seconds=(time.monotonic() - first) * site.scale.factor)
                if not may_retry(run.job.retry, retry, since_first):
                    return

    def _deliver(
        self, run: PlannedRun, instance: Instance, scale: Scale, chance: random.Random
    ) -> Answer:
        answer = post(
            instance.address(),
            run.job.path,
            headers(run.job, run.slot, chance),
            run.job.body,
            scale.seconds(run.job.attempt_deadline),
        )
        if self._stop.is_set():
            raise Stopped
        return answer

    def _await_late_end(self, run: PlannedRun, scale: Scale) -> None:
        """Wait for the stalled attempt, whose caller is long gone."""
        until = time.monotonic() + _stall_seconds(run, scale)
        while time.monotonic() < until:
            steps = self._ledger.of(run.slot.isoformat(), run.job.name)
            begun = {each.attempt_id for each in steps if each.step is Step.BEGIN}
            ended = {each.attempt_id for each in steps if each.step in _ENDS}
            if begun == ended:
                return
            self._sleep(0.2)

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped


def killed(site: Site) -> str:
    """Say what a SIGKILL leaves behind."""
    return f"SIGKILL: its container is gone, its lease of {site.scale.lease_seconds} s is not"


def _injection(run: PlannedRun, scale: Scale) -> Injection | None:
    """Return what the handler must do to itself for a fault, if anything."""
    if run.fault in (Fault.RAISE, Fault.KILL, Fault.KILL_AFTER):
        return Injection(run.fault)
    if run.fault is Fault.SLOW:
        deadline = scale.seconds(run.job.attempt_deadline)
        return Injection(run.fault, deadline + (scale.lease_seconds - deadline) / 10)
    if run.fault is Fault.STALL:
        return Injection(run.fault, _stall_seconds(run, scale))
    return None


def _stall_seconds(run: PlannedRun, scale: Scale) -> float:
    """Long enough for the lease to end, a retry to come and the successor to finish."""
    wait = scale.seconds(run.job.retry.max_backoff)
    return scale.lease_seconds + wait + _STALL_MARGIN_SECONDS
