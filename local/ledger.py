"""What really happened: one line for each step of a job, written by the handler's processes."""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

FOLDER = "LOCAL_FOLDER"
"""The variable that tells a handler's process where the ledger and the faults stand."""


class Injected(Exception):
    """Raised by the local stack in the place of a job."""


class Step(StrEnum):
    """A step of an attempt."""

    BEGIN = "begin"
    EFFECT = "effect"
    RETURN = "return"
    """The end of a start, whose effect is what the API started."""
    RAISE = "raise"


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Attributes
    ----------
    at
        Seconds since 1970.
    function
        The Cloud Scheduler job, or the event's handler.
    occasion
        The slot in ISO form, or the event's id: what is to be handled once.
    error
        What the function raised.
    """

    at: float
    step: Step
    function: str
    occasion: str
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
        function: str,
        occasion: str,
        run_id: str,
        attempt_id: str,
        fence: int,
        error: str | None = None,
    ) -> None:
        """Append an entry; it stands in the file whatever happens to the process next."""
        entry = Entry(time.time(), step, function, occasion, run_id, attempt_id, fence, error)
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
        # What follows the last line's end is still being written.
        lines = self._path.read_text().split("\n")[:-1]
        return [Entry(**{**(raw := json.loads(line)), "step": Step(raw["step"])}) for line in lines]

    def of(self, occasion: str, function: str | None = None) -> list[Entry]:
        """Return the entries of one occasion, of one function or of all."""
        return [
            entry
            for entry in self.read()
            if entry.occasion == occasion and function in (None, entry.function)
        ]


@dataclass(frozen=True)
class Injection:
    """A fault that a handler is to commit in the first attempt at an occasion.

    Attributes
    ----------
    fault
        A value of `local.plan.Fault`.
    seconds
        How long the job is held up.
    """

    fault: str
    seconds: float = 0.0


class Functions:
    """Which jobs each service has a function for: its processes write it, the player reads it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, service: str, names: Iterable[str]) -> None:
        """Note what a process has, before it takes its first delivery."""
        draft = self._path(service).with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(sorted(names)))
        draft.replace(self._path(service))  # several processes write the same

    def read(self, service: str) -> list[str]:
        """Return the names of a service's functions, in order."""
        names: list[str] = json.loads(self._path(service).read_text())
        return names

    def _path(self, service: str) -> Path:
        return self._folder / f"functions-{service}.json"


class Injections:
    """Faults that wait in a folder, each to be taken by one attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "faults"
        self._folder.mkdir(exist_ok=True)

    def put(self, function: str, occasion: str, injection: Injection) -> None:
        self._path(function, occasion).write_text(json.dumps(asdict(injection)))

    def take(self, function: str, occasion: str) -> Injection | None:
        """Return the fault of an occasion to its first attempt, None to every later one."""
        path = self._path(function, occasion)
        taken = path.with_suffix(".taken")
        try:
            path.rename(taken)  # succeeds for one of any number of processes
        except FileNotFoundError:
            return None
        return Injection(**json.loads(taken.read_text()))

    def _path(self, function: str, occasion: str) -> Path:
        name = hashlib.sha256(json.dumps([function, occasion]).encode()).hexdigest()
        return self._folder / name
