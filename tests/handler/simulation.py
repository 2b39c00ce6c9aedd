"""A small world in which workers, the store's clock and every fault follow one seed.

Each worker is a thread with a guard and a real SQLite store, but only one thread runs at a time:
it gives the turn back before and after each call to the store and in the middle of its job, and
the seed decides who goes on, what fails, who dies, and how much time has passed. Time is the
world's own, for the store and for the workers' monotonic clocks; nobody sleeps.

The invariants are checked at every step, from what the store holds and what the jobs do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest
from once import protocol
from once.answer import Outcome
from once.identity import Key
from once.protocol import Claim, Durations, Fatal, Guard, Report
from once.stores import Reading, Record, StoreError, Version, base, sqlite
from once.stores.base import Transient
from once.stores.sqlite import SqliteStore

from tests.support.deliveries import Delivery

T = TypeVar("T")

LEASE = timedelta(seconds=30)
RETENTION = timedelta(seconds=120)
# Far ahead of any machine: the store purges by the real clock what expired long ago.
START = datetime(2100, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """Unwinds the thread of a dead worker; nothing that it does on the way reaches the store."""


class Time:
    """What `time` is to the handler's modules."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.seconds

    def sleep(self, seconds: float) -> None:
        self._world.pause(seconds)


@dataclass
class Run:
    """What the world knows of one run, scheduled or forced."""

    key: Key
    holder: Claim | None = None
    """The claim that was won last, until it was given back."""
    held_by: Worker | None = None
    ended_until: datetime | None = None
    """The run was recorded as ended, and that is to be remembered until then."""
    last_ended_until: datetime = EPOCH
    starts: list[Claim] = field(default_factory=list)


class Worker:
    """A process: a guard, a clock that is wrong, and one thread.

    Parameters
    ----------
    world
        Where it lives.
    deliveries
        What it is sent, one after another.
    """

    def __init__(self, world: World, deliveries: list[Delivery]) -> None:
        self.dead = False
        self.wake_at = 0.0
        self.turn = threading.Event()
        self.reports: list[Report] = []
        self._world = world
        self._deliveries = deliveries
        ahead = timedelta(seconds=world.random.choice([0, 0, 600, -600, 10**6, -(10**6)]))
        self._guard = Guard(
            FaultyStore(world, self),
            Durations(LEASE, RETENTION),
            wall_clock=lambda: world.now + ahead,
        )
        self.thread = threading.Thread(target=self._live, daemon=True)

    def _live(self) -> None:
        try:
            self._world.wait_for_turn(self)
            for delivery in self._deliveries:
                if self._world.random.random() < 0.7:  # the Scheduler waits between its attempts
                    self._world.pause(self._world.random.uniform(0, 2) * LEASE.total_seconds())
                begun = self._world.now
                report = self._guard.run(delivery.identity(), self._job(delivery))
                self._world.check_report(report, begun)
        except Killed:
            pass
        except BaseException as error:
            self._world.errors.append(error)
        finally:
            self._world.gone(self)

    def _job(self, delivery: Delivery) -> Callable[[Claim], object]:
        def job(claim: Claim) -> object:
            self._world.check_start(delivery, claim)
            for _ in range(self._world.random.randrange(3)):
                self._world.step(self)
            if self._world.random.random() < self._world.long_share:  # it may outlast its lease
                self._world.pause(self._world.random.uniform(0, 2) * LEASE.total_seconds())
            match self._world.random.choice(["return", "return", "return", "raise", "fatal"]):
                case "raise":
                    raise RuntimeError
                case "fatal":
                    raise Fatal
            return {"done": True}

        return job


class FaultyStore(SqliteStore):
    """The real store of one worker; the world decides what becomes of each try."""

    def __init__(self, world: World, worker: Worker) -> None:
        super().__init__(world.path)
        self._world = world
        self._worker = worker

    def _read(self, key: Key, seconds: float) -> Reading:
        return self._play(seconds, lambda: SqliteStore._read(self, key, 60))

    def _create(self, key: Key, record: Record, seconds: float) -> Version | None:
        def apply() -> Version | None:
            version = SqliteStore._create(self, key, record, 60)
            return self._world.note_write(self._worker, key, record, version)

        return self._play(seconds, apply)

    def _replace(
        self, key: Key, record: Record, version: Version, seconds: float
    ) -> Version | None:
        def apply() -> Version | None:
            written = SqliteStore._replace(self, key, record, version, 60)
            return self._world.note_write(self._worker, key, record, written)

        return self._play(seconds, apply)

    def _delete(self, key: Key, version: Version, seconds: float) -> bool:
        def apply() -> bool:
            deleted = SqliteStore._delete(self, key, version, 60)
            return self._world.note_delete(self._worker, key, deleted)

        return self._play(seconds, apply)

    def _play(self, seconds: float, apply: Callable[[], T]) -> T:
        world = self._world
        world.step(self._worker)
        fault = world.choose_fault()
        if fault == "refuse":
            raise Transient("refused")
        if fault == "deny":
            raise StoreError("denied")
        if fault == "late":
            world.late.append(apply)
        if fault in ("hang", "late"):
            world.pause(seconds)
            raise Transient("no answer")
        answer = apply()
        world.step(self._worker)
        if fault == "lose":
            raise Transient("the answer was lost")
        if fault == "lose and hang":
            world.pause(seconds)
            raise Transient("no answer")
        return answer


class World:
    """Runs the workers of one seed.

    Parameters
    ----------
    seed
        Decides everything.
    path
        A database file of its own.
    patch
        Puts the world's time in the place of the machine's.
    """

    def __init__(self, seed: int, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.seconds = 0.0
        self.errors: list[BaseException] = []
        self.late: list[Callable[[], object]] = []
        self.healthy = False
        self._patch = patch
        self._workers: list[Worker] = []
        self._running: Worker | None = None
        self._back = threading.Event()
        for module in (protocol, base):
            patch.setattr(module, "time", Time(self))
        self._tell_the_store()
        # One slot has come; another comes in the middle, and until then its deliveries are forced.
        self.deliveries = [
            Delivery("f", job="job", schedule_time=(START + slot).isoformat())
            for slot in (timedelta(minutes=-1), timedelta(minutes=2))
        ][: self.random.randint(1, 2)]
        keys = [key for each in self.deliveries for key in (each.key, each.forced_key)]
        self.runs = {key: Run(key) for key in keys}
        self._fault_share = self.random.choice([0.0, 0.05, 0.2, 0.5])
        self.long_share = self.random.choice([0.0, 0.3, 0.9])
        self._death_share = self.random.choice([0.0, 0.02, 0.1])

    @property
    def now(self) -> datetime:
        """The store's time, to its own precision."""
        return START + timedelta(milliseconds=int(self.seconds * 1000))

    # --- Time and turns ---------------------------------------------------------------------------

    def play(self) -> None:
        """Let a few workers have a few deliveries each, then see that every run can end."""
        for _ in range(self.random.randint(2, 4)):
            deliveries = [
                self.random.choice(self.deliveries) for _ in range(self.random.randint(1, 5))
            ]
            self._start(Worker(self, deliveries))
        while self._workers:
            self._one_turn()
        self._end_every_run()
        if self.errors:
            raise self.errors[0]

    def step(self, worker: Worker) -> None:
        """Give the turn back and wait for the next one."""
        worker.wake_at = self.seconds
        self._hand_back(worker)

    def pause(self, seconds: float) -> None:
        """Give the turn back until so much time has passed."""
        worker = self._running
        assert worker is not None
        worker.wake_at = self.seconds + seconds
        self._hand_back(worker)

    def wait_for_turn(self, worker: Worker) -> None:
        """Wait until the world says go."""
        assert worker.turn.wait(60), "the world stands still"
        worker.turn.clear()
        if worker.dead:
            raise Killed

    def gone(self, worker: Worker) -> None:
        """Take a worker's last turn back."""
        self._workers.remove(worker)
        self._back.set()

    def _hand_back(self, worker: Worker) -> None:
        if worker.dead:
            raise Killed
        self._back.set()
        self.wait_for_turn(worker)

    def _start(self, worker: Worker) -> None:
        self._workers.append(worker)
        worker.thread.start()

    def _one_turn(self) -> None:
        if self.late and self.random.random() < 0.2:
            self.late.pop(self.random.randrange(len(self.late)))()
        awake = [each for each in self._workers if each.wake_at <= self.seconds]
        if not awake or self.random.random() < 0.1:
            soonest = min(each.wake_at for each in self._workers)
            self._pass(max(soonest - self.seconds, self.random.choice([0.01, 1, 10, 40, 150])))
            return
        worker = self.random.choice(awake)
        if not self.healthy and self.random.random() < self._death_share:
            worker.dead = True  # as by SIGKILL: it never reaches the store again
        self._pass(0.001)
        self._running = worker
        self._back.clear()
        worker.turn.set()
        assert self._back.wait(60), "a worker does not give its turn back"

    def _pass(self, seconds: float) -> None:
        self.seconds += seconds
        self._tell_the_store()

    def _tell_the_store(self) -> None:
        now_ms = (self.now - EPOCH) // timedelta(milliseconds=1)
        self._patch.setattr(sqlite, "_NOW_MS", str(now_ms))

    # --- Faults -----------------------------------------------------------------------------------

    def choose_fault(self) -> str | None:
        """Return what becomes of a call."""
        if self.healthy or self.random.random() >= self._fault_share:
            return None
        return self.random.choice(["refuse", "deny", "hang", "lose", "lose and hang", "late"])

    # --- Invariants -------------------------------------------------------------------------------

    def note_write(
        self, worker: Worker, key: Key, record: Record, version: Version | None
    ) -> Version | None:
        """Check a write that the store applied."""
        if version is None:
            return None
        run = self.runs[key]
        if record.ended:
            assert record.expire_at is not None
            self._expect(
                run.ended_until is None or version.time >= run.ended_until,
                "an ended run was ended again",
            )
            self._expect(
                run.holder is None or run.holder.attempt_id == record.attempt_id,
                "a run that another attempt holds was ended",
            )
            run.ended_until = run.last_ended_until = record.expire_at
            run.holder = run.held_by = None
            return version
        self._expect(
            run.ended_until is None or version.time >= run.ended_until,
            "a run that was recorded as ended was claimed again",
        )
        run.ended_until = None
        if run.holder is not None and run.holder.attempt_id != record.attempt_id:
            over = run.holder.version.time + LEASE
            self._expect(version.time >= over, "a live lease was stolen")
        run.holder = Claim(key, record.attempt_id, version, record, 0.0, self.now)
        run.held_by = worker
        return version

    def note_delete(self, worker: Worker, key: Key, deleted: bool) -> bool:
        """Check a delete that the store applied."""
        run = self.runs[key]
        if deleted:
            self._expect(run.ended_until is None, "the record of an ended run was deleted")
            self._expect(run.held_by is worker, "another attempt's claim was deleted")
            run.holder = run.held_by = None
        return deleted

    def check_start(self, delivery: Delivery, claim: Claim) -> None:
        """Check a job that starts."""
        run = self.runs[claim.key]
        self._expect(
            delivery.identity().key(claim.version.time) == claim.key,
            "a run was forced or scheduled against the store's clock",
        )
        self._expect(
            run.ended_until is None or self.now >= run.ended_until,
            "a job started though its run had ended",
        )
        self._expect(
            run.holder is not None and run.holder.attempt_id == claim.attempt_id,
            "a job started without a claim",
        )
        self._expect(self.now < claim.version.time + LEASE, "a job started after its lease")
        if run.starts:
            self._expect(claim.fence > run.starts[-1].fence, "the fence did not grow")
        run.starts.append(claim)

    def check_report(self, report: Report, begun: datetime) -> None:
        """Check an answer against what the store holds."""
        run = self.runs[report.key]
        ended = run.ended_until is not None
        if report.outcome in (Outcome.COMPLETED, Outcome.FAILED):
            self._expect(ended or self.now >= START + RETENTION, "an end was not recorded")
        if report.outcome in (Outcome.STORE_UNAVAILABLE, Outcome.IN_PROGRESS, Outcome.DUPLICATE):
            self._expect(report.claim is None, "an attempt without a claim has one")
        if report.outcome is Outcome.DUPLICATE:
            self._expect(run.last_ended_until > begun, "a duplicate of a run that is forgotten")
        if report.outcome is Outcome.IN_PROGRESS and run.holder is not None:
            mine = run.holder.attempt_id == report.attempt_id
            self._expect(not mine, "an attempt waits for its own claim")

    def _end_every_run(self) -> None:
        """With a healthy store each run ends within a lease: none is stuck, none is lost."""
        self.healthy = True
        self.late.clear()
        for delivery in self.deliveries:
            run = self.runs[delivery.key]
            if delivery.identity().key(self.now) != run.key:
                self._pass(300)  # now the slot has come
            if run.ended_until is not None and self.now < run.ended_until:
                continue
            for _ in range(20):
                worker = Worker(self, [delivery])
                self._start(worker)
                while self._workers:
                    self._one_turn()
                if run.ended_until is not None:
                    break
                self._pass(LEASE.total_seconds() / 4)
            self._expect(run.ended_until is not None, "the run is stuck")

    def _expect(self, condition: bool, broken: str) -> None:
        if not condition:
            self.fail(broken)

    def fail(self, broken: str) -> NoReturn:
        """Note a broken invariant, which no worker may catch."""
        error = AssertionError(broken)
        self.errors.append(error)
        raise error
