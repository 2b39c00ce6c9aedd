"""Jobs for the tests: each leaves a line in the file of effects, so that a test can count runs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from once import Fatal, Run, job

SECRET = "the-text-of-an-exception"
"""Must never reach the body of an answer."""

_EFFECTS = Path(os.environ["TEST_EFFECTS"])


def _effect(run: Run, what: str = "ran") -> None:
    line = {
        "what": what,
        "project": run.project,
        "region": run.region,
        "job": run.job,
        "run_id": run.run_id,
        "attempt_id": run.attempt_id,
        "fence": run.fence,
        "schedule_time": run.schedule_time.isoformat(),
        "deadline": run.deadline.isoformat(),
        "remaining": run.remaining().total_seconds(),
        "pid": os.getpid(),
    }
    with _EFFECTS.open("a") as file:  # one small write in append mode: lines never mix
        file.write(json.dumps(line) + "\n")


@job("count")
def count(run: Run) -> None:
    """Only leave the line."""
    _effect(run)


@job("gate")
def gate(run: Run) -> None:
    """Stay until the test opens the gate: a file that the body names."""
    _effect(run, "entered")
    opened, stopping = Path(run.json()["gate"]), False
    while not opened.exists():
        if not stopping and sys.modules["main"].told_to_stop():
            stopping = True
            _effect(run, "told to stop")
        time.sleep(0.02)
    _effect(run)


@job("raise")
def fail(run: Run) -> None:
    _effect(run)
    raise RuntimeError(SECRET)


@job("fatal")
def fatal(run: Run) -> None:
    _effect(run)
    raise Fatal(SECRET)


@job("fail-once")
def fail_once(run: Run) -> None:
    """Fail at the first attempt."""
    first = run.run_id not in _EFFECTS.read_text()
    _effect(run)
    if first:
        raise RuntimeError(SECRET)


@job("exit")
def leave(run: Run) -> None:
    _effect(run)
    sys.exit(SECRET)


@job("json")
def needs_json(run: Run) -> None:
    _effect(run)
    run.json()


@job("die-once")
def die_once(run: Run) -> None:
    """Kill the process at the first attempt."""
    first = run.run_id not in _EFFECTS.read_text()
    _effect(run)
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
