"""What will be played: which runs, and what goes wrong with each. Pure; the seed decides."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice

from infra.cron import Schedule
from local.stack import Job

FORCED_AHEAD = timedelta(minutes=2)
"""A forced run carries the next schedule time; it must not come while this is played."""


class Fault(StrEnum):
    """What goes wrong with a run; the value is its option's name."""

    NONE = "none"
    DUPLICATE = "duplicate"
    LOST_ANSWER = "lost-answer"
    RAISE = "raise"
    SLOW = "slow"
    KILL = "kill"
    KILL_AFTER = "kill-after"
    STALL = "stall"


@dataclass(frozen=True)
class Words:
    """What a fault is called: in the table, and in the help."""

    short: str
    long: str


WORDS: Mapping[Fault, Words] = {
    Fault.NONE: Words("nothing", "nothing goes wrong"),
    Fault.DUPLICATE: Words("3 at once", "it is delivered 3 times at once"),
    Fault.LOST_ANSWER: Words("answer lost", "its answer is lost after the work was done"),
    Fault.RAISE: Words("raises once", "the job raises, or the API that it starts gives no answer"),
    Fault.SLOW: Words("outlasts deadline", "the job takes longer than the attempt deadline"),
    Fault.KILL: Words("killed mid-job", "SIGKILL in the middle of the job"),
    Fault.KILL_AFTER: Words("killed after work", "SIGKILL after the work, before its record"),
    Fault.STALL: Words("stalls past lease", "the job stalls until its lease is over, then goes on"),
}

DEFAULT_SHARES: Mapping[Fault, float] = {
    Fault.DUPLICATE: 0.2,
    Fault.LOST_ANSWER: 0.15,
    Fault.RAISE: 0.15,
    Fault.SLOW: 0.05,
    Fault.KILL: 0.1,
    Fault.KILL_AFTER: 0.1,
    Fault.STALL: 0.05,
}

MAY_REPEAT = frozenset({Fault.KILL_AFTER, Fault.STALL})
"""The work was done, or will be, by an attempt that lost its run: a takeover repeats it."""


@dataclass(frozen=True)
class PlannedRun:
    """One run to be played.

    Attributes
    ----------
    slot
        The schedule time.
    forced
        Whether somebody pressed "Force run".
    seed
        Decides what is left to chance within the run.
    """

    job: Job
    slot: datetime
    fault: Fault
    forced: bool
    seed: str

    @property
    def title(self) -> str:
        """What it is called in the output: its job, and its slot in UTC."""
        return f"{self.job.label} {self.slot:%m-%d %H:%M}Z"

    @property
    def trouble(self) -> str:
        """What goes wrong with it, in few words."""
        if self.forced:
            return "forced, twice"
        if self.fault is Fault.RAISE and self.job.starts:
            return "API answer lost"
        return WORDS[self.fault].short


def plan(
    jobs: Sequence[Job],
    *,
    slots: int,
    forced: int,
    shares: Mapping[Fault, float],
    seed: int,
    now: datetime,
) -> list[PlannedRun]:
    """Plan the last `slots` runs of each job before `now`, and `forced` forced runs of each.

    The same jobs, numbers and seed give the same faults, whatever the time is.
    """
    faults = assign(len(jobs) * slots, shares, seed)
    runs = []
    for number, job in enumerate(jobs):
        for index, slot in enumerate(last_slots(job.schedule, slots, now)):
            fault = faults[number * slots + index]
            runs.append(PlannedRun(job, slot, fault, False, f"{seed}/{job.name}/{index}"))
        coming = islice(job.schedule.after(now + FORCED_AHEAD), forced)
        for index, slot in enumerate(coming, slots):
            run = PlannedRun(
                job, slot.astimezone(UTC), Fault.NONE, True, f"{seed}/{job.name}/{index}"
            )
            runs.append(run)
    return runs


def assign(runs: int, shares: Mapping[Fault, float], seed: int) -> list[Fault]:
    """Deal the faults out: each as often as its share says, at least once if the runs suffice."""
    counts = {fault: max(round(share * runs), 1) for fault, share in shares.items() if share > 0}
    faults = [fault for fault, count in counts.items() for _ in range(count)][:runs]
    faults += [Fault.NONE] * (runs - len(faults))
    random.Random(seed).shuffle(faults)
    return faults


def last_slots(schedule: Schedule, count: int, now: datetime) -> list[datetime]:
    """Return the last `count` fire times before `now`, in UTC, oldest first."""
    reach = timedelta(hours=1)
    while True:
        times = []
        for time in schedule.after(now - reach):
            if time >= now:
                break
            times.append(time.astimezone(UTC))
        if len(times) >= count:
            return times[len(times) - count :]
        reach *= 4
