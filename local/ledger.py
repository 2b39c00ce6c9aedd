"""What really happened: one line for each step of a job, written by the handler's processes."""

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

FOLDER = "LOCAL_FOLDER"
"""The variable that tells a handler's process where the ledger and the faults stand."""


class Step(StrEnum):
    """A step of an attempt."""

    BEGIN = "begin"
    EFFECT = "effect"
    RAISE = "raise"


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Attributes
    ----------
    at
        Seconds since 1970.
    slot
        The schedule time in ISO form.
    error
        What a job raised.
    """

    at: float
    step: Step
    job: str
    slot: str
    run_id: str
    attempt_id: str
    fence: int
    error: str | None = None


class Ledger:
    """An append-only file in a folder; many processes may write to it at once."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects.jsonl"

    def write(
        self,
        step: Step,
        *,
        job: str,
        slot: datetime,
        run_id: str,
        attempt_id: str,
        fence: int,
        error: str | None = None,
    ) -> None:
        """Append an entry; it stands in the file whatever happens to the process next."""
        entry = Entry(time.time(), step, job, slot.isoformat(), run_id, attempt_id, fence, error)
        line = (json.dumps(asdict(entry)) + "\n").encode()
        # One write with O_APPEND, so that lines of several processes do not mix.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def read(self) -> list[Entry]:
        """Return all entries in the order in which they were written."""
        if not self._path.exists():
            return []
        lines = self._path.read_text().splitlines()
        return [Entry(**{**(raw := json.loads(line)), "step": Step(raw["step"])}) for line in lines]


@dataclass(frozen=True)
class Injection:
    """A fault that a handler is to commit in the first attempt of a run.

    Attributes
    ----------
    fault
        A value of `local.plan.Fault`.
    seconds
        How long the job is held up.
    """

    fault: str
    seconds: float = 0.0


class Injections:
    """Faults that wait in a folder, each to be taken by one attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "faults"
        self._folder.mkdir(exist_ok=True)

    def put(self, job: str, slot: datetime, injection: Injection) -> None:
        self._path(job, slot).write_text(json.dumps(asdict(injection)))

    def take(self, job: str, slot: datetime) -> Injection | None:
        """Return the fault of a run to its first attempt, None to every later one."""
        path = self._path(job, slot)
        taken = path.with_suffix(".taken")
        try:
            path.rename(taken)  # succeeds for one of any number of processes
        except FileNotFoundError:
            return None
        return Injection(**json.loads(taken.read_text()))

    def _path(self, job: str, slot: datetime) -> Path:
        name = hashlib.sha256(json.dumps([job, slot.isoformat()]).encode()).hexdigest()
        return self._folder / name
