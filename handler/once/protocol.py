"""Claim, run, finish: the only place where the rules of the protocol stand.

docs/protocol.md draws one sequence diagram for each path through this file.
"""

import json
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple

from once import logs
from once.answer import Outcome
from once.functions import check_result
from once.identity import Delivery, Key
from once.stores import Reading, Record, Status, Store, StoreError, Version
from once.stores.base import BUDGET_SECONDS

ROUNDS = 3
"""How often a refused write is followed by another read before the delivery is sent back."""

# What a process remembers; each entry is some hundred bytes.
_ENDED_RUNS_KNOWN = 10_000
_UNRECORDED_KEPT = 1_000
# A document may have 1 MiB, but a record is no place for data: it is read on every duplicate.
_RESULT_CHARACTERS = 8_192
# Of Firestore, which takes 1,500 bytes for the names from the document down to a value; the rest is
# left for quoting and for the field's own name.
_RESULT_LEVELS, _RESULT_PATH_BYTES = 20, 1_000
_RECORDABLE = (
    f"a record takes JSON of up to {_RESULT_CHARACTERS} characters and {_RESULT_LEVELS} levels, "
    "no array in an array, and short names"
)
_ERROR_CHARACTERS = 1_000

_OVERTAKEN = (
    "the lease ended first and another attempt took the run over: effects may stand twice under "
    "this run_id, apart by their fences"
)
_STOPPING = "this process was told to stop and takes no new claims"
_CONTENDED = f"the record changed {ROUNDS} times while this attempt tried to claim it"


_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class Fatal(Exception):
    """Raised by a job to end its run for good: recorded as failed, not retried."""


class Dropped(Fatal):
    """Raised by the work to end it without having done it; the message is the reason."""


class Unsettled(Exception):
    """Raised by the work when it cannot tell whether it took effect: the lease must run out."""


# --- The decision ---------------------------------------------------------------------------------


class Verdict(Enum):
    """What to do about the record that stands where a claim was refused."""

    CREATE = auto()
    OURS = auto()
    DUPLICATE = auto()
    TAKE_OVER = auto()
    IN_PROGRESS = auto()


class Decision(NamedTuple):
    verdict: Verdict
    lease_left: timedelta | None = None


def decide(reading: Reading, attempt_id: str, lease: timedelta) -> Decision:
    """Decide about a record by the store's time alone: no worker's clock is asked.

    Parameters
    ----------
    reading
        What the store holds, and its time at the read.
    attempt_id
        The attempt that asks.
    lease
        Judges a record that does not tell the length of its lease.
    """
    if reading.found is None:
        return Decision(Verdict.CREATE)
    record, version = reading.found
    if record.ended:
        # TTL deletion is late by hours or days, so a record may outlive its time.
        forgotten = record.expire_at is not None and record.expire_at <= reading.time
        return Decision(Verdict.TAKE_OVER if forgotten else Verdict.DUPLICATE)
    if record.attempt_id == attempt_id:
        return Decision(Verdict.OURS)
    if record.lease_seconds is not None:
        lease = timedelta(seconds=record.lease_seconds)
    left = version.time + lease - reading.time
    if left <= timedelta(0):
        return Decision(Verdict.TAKE_OVER)
    return Decision(Verdict.IN_PROGRESS, left)


# --- The guard ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Durations:
    """How long claims and memories last.

    Parameters
    ----------
    lease
        How long a claim holds without a finish.
    retention
        How long an ended run is remembered.
    """

    lease: timedelta
    retention: timedelta

    def __str__(self) -> str:
        return f"lease {self.lease}, retention {self.retention}"


@dataclass(frozen=True)
class Claim:
    """A claim that was won.

    Parameters
    ----------
    key
        What was claimed.
    attempt_id
        Whose claim it is.
    version
        The version that the claim wrote; its number is the fence, its time the store's.
    record
        What was written.
    sent
        When the claim was begun, on the monotonic clock: the lease cannot end later by this count
        than by the store's.
    deadline
        When the lease ends, by the worker's wall clock.
    """

    key: Key
    attempt_id: str
    version: Version
    record: Record
    sent: float
    deadline: datetime

    @property
    def fence(self) -> int:
        return self.version.number

    def remaining(self) -> timedelta:
        """Return how long the lease still lasts, on the monotonic clock; negative when over."""
        assert self.record.lease_seconds is not None
        return timedelta(seconds=self.sent + self.record.lease_seconds - time.monotonic())


@dataclass(frozen=True)
class Report:
    """What became of a delivery, for the answer and the log."""

    outcome: Outcome
    key: Key
    attempt_id: str
    claim: Claim | None = None
    retry_after: timedelta | None = None
    result: Any = None
    cause: BaseException | None = None
    why: str | None = None


class _Refused(Exception):
    """Ends a claim without a win."""

    def __init__(
        self,
        outcome: Outcome,
        key: Key,
        retry_after: timedelta | None = None,
        why: str | None = None,
    ) -> None:
        self.report = Report(outcome, key, "", retry_after=retry_after, why=why)


def utc_now() -> datetime:
    """Return the worker's wall clock; only guesses and what people read come from it."""
    return datetime.now(UTC)


class Guard:
    """Runs a function at most once at a time for each key, and never again once it has ended.

    Parameters
    ----------
    store
        Where the records stand.
    durations
        How long claims and memories last.
    wall_clock
        The worker's wall clock. It may be wrong: no decision rests on it.
    stopping
        Tells whether this process was told to stop; it then takes no new claims.
    """

    def __init__(
        self,
        store: Store,
        durations: Durations,
        *,
        wall_clock: Callable[[], datetime] = utc_now,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._durations = durations
        self._wall_clock = wall_clock
        self._stopping = stopping
        self._ended = _EndedRuns()
        self._unrecorded = _Unrecorded()

    def lasting(self, durations: Durations) -> "Guard":
        """Return a guard with other durations that shares what this one remembers."""
        other = copy(self)
        other._durations = durations
        return other

    def run(self, delivery: Delivery, work: Callable[[Claim], object]) -> Report:
        """Claim the delivery's key, do the work, record the end.

        Parameters
        ----------
        delivery
            What was delivered.
        work
            Called with the claim once it is won. A return completes the run, `Fatal` and
            `Dropped` end it as failed, `Unsettled` leaves the claim to its lease, and any other
            exception releases it.
        """
        attempt_id = uuid.uuid4().hex
        until = time.monotonic() + BUDGET_SECONDS
        # Once its slot has come a run is a scheduled one, whatever it was before.
        settled = delivery.key(_END_OF_TIME)
        self._record_the_unrecorded(until)
        if self._ended.has(settled):
            return Report(Outcome.DUPLICATE, settled, attempt_id)
        if self._unrecorded.has(settled):
            return Report(
                Outcome.UNRECORDED, settled, attempt_id, why="the store still cannot be told"
            )
        if self._stopping():
            return Report(Outcome.STORE_UNAVAILABLE, settled, attempt_id, why=_STOPPING)
        try:
            claim = self._claim(delivery, attempt_id, until)
        except _Refused as refused:
            return replace(refused.report, attempt_id=attempt_id)
        except StoreError as error:
            return Report(Outcome.STORE_UNAVAILABLE, settled, attempt_id, cause=error)
        labels = {"job": delivery.name, "run_id": claim.key.id, "attempt_id": attempt_id}
        with logs.labels(**labels):
            return self._work(claim, work)

    # --- Claim ------------------------------------------------------------------------------------

    def _claim(self, delivery: Delivery, attempt_id: str, until: float) -> Claim:
        sent = time.monotonic()
        now = self._wall_clock()
        key = delivery.key(now)
        if key.kind == "forced":
            # The local clock may be behind: ask the store's before the kind is settled.
            now = self._store.read(key, until).time
            key = delivery.key(now)
        for _ in range(ROUNDS):
            claim, now = self._claim_key(key, delivery, attempt_id, sent, until)
            if delivery.key(now) == key:
                if claim is not None:
                    return claim
                raise _Refused(Outcome.IN_PROGRESS, key, timedelta(seconds=1), _CONTENDED)
            # The store's time says that it is of the other kind.
            if claim is not None:
                self._delete(claim, until)
            key = delivery.key(now)
        raise _Refused(Outcome.IN_PROGRESS, key, timedelta(seconds=1), _CONTENDED)

    def _claim_key(
        self, key: Key, delivery: Delivery, attempt_id: str, sent: float, until: float
    ) -> tuple[Claim | None, datetime]:
        """Claim one key; return the claim, or None after too many rounds, and the store's time."""
        wall_now = self._wall_clock()
        deadline = wall_now + self._durations.lease - timedelta(seconds=time.monotonic() - sent)
        # A wall clock that is far behind must not let TTL delete a live claim.
        begun = max(wall_now, delivery.due or wall_now)
        begun = min(begun, _END_OF_TIME - self._durations.retention)
        record = Record(
            status="in_progress",
            attempt_id=attempt_id,
            lease_seconds=self._durations.lease.total_seconds(),
            lease_expires=wall_now + self._durations.lease,
            expire_at=begun + self._durations.retention,
            started_at=wall_now,
            about=delivery.about(),
        )

        def won(version: Version) -> tuple[Claim, datetime]:
            return Claim(key, attempt_id, version, record, sent, deadline), version.time

        version = self._store.create(key, record, until)
        if version is not None:
            return won(version)
        for _ in range(ROUNDS):
            read_at = time.monotonic()
            reading = self._store.read(key, until)
            if delivery.key(reading.time) != key:
                return None, reading.time
            verdict, lease_left = decide(reading, attempt_id, self._durations.lease)
            match verdict, reading.found:
                case Verdict.DUPLICATE, (found, _):
                    if found.expire_at is not None:
                        left = (found.expire_at - reading.time).total_seconds()
                        self._ended.add(key, read_at + left)
                    raise _Refused(Outcome.DUPLICATE, key)
                case Verdict.IN_PROGRESS, (found, _):
                    held = f"attempt {found.attempt_id} holds the lease for another {lease_left}"
                    raise _Refused(Outcome.IN_PROGRESS, key, lease_left, held)
                case Verdict.OURS, (_, found_version):
                    return won(found_version)
                case Verdict.TAKE_OVER, (_, found_version):
                    version = self._store.replace(key, record, found_version, until)
                case _:
                    version = self._store.create(key, record, until)
            if version is not None:
                return won(version)
        return None, reading.time

    # --- Run --------------------------------------------------------------------------------------

    def _work(self, claim: Claim, work: Callable[[Claim], object]) -> Report:
        if claim.remaining() <= timedelta(0):
            why = "the lease was over before the job could start; the job did not run"
            return self._release(claim, why=why)
        if self._stopping():  # while the claim waited for the store
            return self._release(claim, why=f"{_STOPPING}; the job did not run")
        try:
            result = work(claim)
            check_result(result)
        except Fatal as error:
            return self._finish(claim, cause=error)
        except Unsettled as error:
            why = "whether it took effect is not known; the claim is left to its lease"
            return Report(
                Outcome.UNRELEASED, claim.key, claim.attempt_id, claim, cause=error, why=why
            )
        except BaseException as error:  # SystemExit too: the job is over, the claim must not stay
            return self._release(claim, cause=error)
        recordable = _is_recordable(result)
        return self._finish(
            claim,
            result=result if recordable else None,
            why=None if recordable else f"its result is not recorded: {_RECORDABLE}",
        )

    # --- Finish -----------------------------------------------------------------------------------

    def _finish(
        self,
        claim: Claim,
        *,
        result: Any = None,
        cause: Fatal | None = None,
        why: str | None = None,
    ) -> Report:
        """Record that the run ended, and for good: failed where there is a cause."""
        status: Status = "completed" if cause is None else "failed"
        # From here on every time in the record is the store's.
        claimed_at = claim.version.time
        record = replace(
            claim.record,
            status=status,
            lease_expires=claimed_at + self._durations.lease,
            expire_at=claimed_at + self._durations.retention,
            started_at=claimed_at,
            finished_at=claimed_at + timedelta(seconds=time.monotonic() - claim.sent),
            result=result,
            error=None if cause is None else describe(cause),
        )
        try:
            recorded = self._record(claim, record, time.monotonic() + BUDGET_SECONDS)
        except StoreError as failure:
            self._unrecorded.add(claim, record)
            why = f"the run ended as {status} but the store could not be told: {failure}"
            return Report(
                Outcome.UNRECORDED, claim.key, claim.attempt_id, claim, cause=cause, why=why
            )
        outcome, why = (_ended(cause), why) if recorded else (Outcome.LEASE_LOST, _OVERTAKEN)
        return Report(
            outcome, claim.key, claim.attempt_id, claim, result=result, cause=cause, why=why
        )

    def _record(self, claim: Claim, record: Record, until: float) -> bool:
        """Write the end of a run; False where another attempt holds it."""
        version: Version | None = claim.version
        for _ in range(ROUNDS):
            if version is None:  # missing: create it as ended, so that a third attempt does not run
                written = self._store.create(claim.key, record, until)
            else:
                written = self._store.replace(claim.key, record, version, until)
            if written is not None:
                return self._remember_end(claim)
            found = self._store.read(claim.key, until).found
            if found is None:
                version = None
            elif found.record.attempt_id != claim.attempt_id:
                return False
            elif found.record.ended:  # our write was applied, its answer lost
                return self._remember_end(claim)
            else:  # our claim, written twice
                version = found.version
        raise StoreError(f"the record changed {ROUNDS} times while the run's end was written")

    def _remember_end(self, claim: Claim) -> bool:
        retention = self._durations.retention.total_seconds()
        self._ended.add(claim.key, claim.sent + retention)
        return True

    def _release(
        self, claim: Claim, *, cause: BaseException | None = None, why: str | None = None
    ) -> Report:
        try:
            mine = self._delete(claim, time.monotonic() + BUDGET_SECONDS)
            outcome, why = (Outcome.RELEASED, why) if mine else (Outcome.LEASE_LOST, _OVERTAKEN)
        except StoreError as failure:
            outcome = Outcome.UNRELEASED
            why = f"{why or 'the job raised'}; the store could not be told: {failure}"
        return Report(outcome, claim.key, claim.attempt_id, claim, cause=cause, why=why)

    def _delete(self, claim: Claim, until: float) -> bool:
        """Delete the claim's record; False where another attempt holds it."""
        version = claim.version
        for _ in range(ROUNDS):
            if self._store.delete(claim.key, version, until):
                return True
            found = self._store.read(claim.key, until).found
            if found is None:  # our delete was applied, its answer lost
                return True
            if found.record.attempt_id != claim.attempt_id:
                return False
            version = found.version
        raise StoreError(f"the record changed {ROUNDS} times while it was deleted")

    def _record_the_unrecorded(self, until: float) -> None:
        """Write the ends that an earlier delivery could not, before anything new is claimed."""
        for claim, record in self._unrecorded.each(until):
            try:
                recorded = self._record(claim, record, until)
            except StoreError:
                return  # kept for the next delivery
            self._unrecorded.remove(claim)
            if not recorded:
                logs.LOG.error("run %s ended unrecorded and another attempt took it", claim.key.id)


class _EndedRuns:
    """Runs that this process knows to have ended, each until its record expires."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: OrderedDict[str, float] = OrderedDict()

    def add(self, key: Key, until: float) -> None:
        with self._lock:
            self._until[key.id] = until
            while len(self._until) > _ENDED_RUNS_KNOWN:
                self._until.popitem(last=False)

    def has(self, key: Key) -> bool:
        return time.monotonic() < self._until.get(key.id, 0.0)


class _Unrecorded:
    """Ends of runs that the store could not be told."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._ends: OrderedDict[str, tuple[Claim, Record]] = OrderedDict()

    def add(self, claim: Claim, record: Record) -> None:
        self._ends[claim.key.id] = (claim, record)
        while len(self._ends) > _UNRECORDED_KEPT:
            self._ends.popitem(last=False)

    def each(self, until: float) -> Iterator[tuple[Claim, Record]]:
        """Yield what is kept, to one thread at a time: a second one must not claim meanwhile."""
        left = until - time.monotonic()
        if self._ends and self._writing.acquire(timeout=max(0.0, left)):
            try:
                yield from list(self._ends.values())
            finally:
                self._writing.release()

    def remove(self, claim: Claim) -> None:
        self._ends.pop(claim.key.id, None)

    def has(self, key: Key) -> bool:
        return key.id in self._ends


def _ended(cause: Fatal | None) -> Outcome:
    match cause:
        case None:
            return Outcome.COMPLETED
        case Dropped():
            return Outcome.DROPPED
    return Outcome.FAILED


def _is_recordable(result: object) -> bool:
    try:
        return len(json.dumps(result)) <= _RESULT_CHARACTERS and _fits_firestore(result)
    except (TypeError, ValueError, RecursionError):
        return False


def _fits_firestore(
    value: object,
    *,
    levels: int = _RESULT_LEVELS,
    path_bytes: int = _RESULT_PATH_BYTES,
    in_array: bool = False,
) -> bool:
    """Firestore takes no array in an array, no integer beyond 64 bits and no reserved key.

    It also limits the levels, and the length of all names down to a value.
    Source: https://firebase.google.com/docs/firestore/quotas
    """
    match value:
        case bool() | float() | None:
            return True
        case int():
            return -(2**63) <= value < 2**63
        case str():
            return value == value.encode(errors="replace").decode()
        case list() | tuple():
            return (
                levels > 0
                and not in_array
                and all(
                    _fits_firestore(each, levels=levels - 1, path_bytes=path_bytes, in_array=True)
                    for each in value
                )
            )
        case dict():
            return levels > 0 and all(
                isinstance(name, str)
                and name != ""
                and not name.startswith("__")
                and (left := path_bytes - len(name.encode())) >= 0
                and _fits_firestore(each, levels=levels - 1, path_bytes=left)
                for name, each in value.items()
            )
    return False


def describe(error: BaseException) -> str:
    """Return type and message, cut to what a record and a log line should hold."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    text = f"{type(error).__name__}: {message}"[:_ERROR_CHARACTERS]
    return text.encode(errors="replace").decode()  # a lone surrogate is no text to a store
