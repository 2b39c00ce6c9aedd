"""The source that the handler's processes are started with on this machine.

It loads `handler/main.py` unchanged, with a watch around every job that is registered meanwhile:
what begins, takes effect and raises is written to a ledger, and the faults that the player ordered
are committed where it ordered them. Jobs need no code for it.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# functions-framework put this folder on the path; the handler's own takes its place, as deployed.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
sys.path += [str(ROOT / "handler"), str(ROOT)]

import once  # noqa: E402
from once import Run  # noqa: E402
from once.run import J, Job  # noqa: E402

from local.ledger import FOLDER, Injection, Injections, Ledger, Step  # noqa: E402

_folder = Path(os.environ[FOLDER])
_ledger = Ledger(_folder)
_injections = Injections(_folder)


class Injected(Exception):
    """Raised in the place of a job."""


def _watched(function: Job) -> Job:
    @wraps(function)
    def job(run: Run) -> object:
        def note(step: Step, error: str | None = None) -> None:
            _ledger.write(
                step,
                job=run.job,
                slot=run.schedule_time,
                run_id=run.run_id,
                attempt_id=run.attempt_id,
                fence=run.fence,
                error=error,
            )

        note(Step.BEGIN)
        try:
            return _with_fault(
                _injections.take(run.job, run.schedule_time),
                lambda: function(run),
                lambda: note(Step.EFFECT),
            )
        except BaseException as error:
            note(Step.RAISE, f"{type(error).__name__}: {error}")
            raise

    return job


def _with_fault(
    injection: Injection | None, work: Callable[[], object], took_effect: Callable[[], None]
) -> object:
    fault = injection.fault if injection else None
    seconds = injection.seconds if injection else 0.0
    if fault == "kill":
        _kill()
    if fault == "raise":
        raise Injected("the local stack let this attempt fail")
    if fault == "stall":
        time.sleep(seconds)
    result = work()
    took_effect()
    if fault == "kill-after":
        _kill()
    if fault == "slow":
        time.sleep(seconds)
    return result


def _kill() -> NoReturn:
    """End the whole container, as Cloud Run does: gunicorn, its worker, every thread."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise AssertionError("SIGKILL does not return")


def _job(name: str) -> Callable[[J], J]:
    """Stand in for `once.job`: what is registered has a watch around it."""

    def register(function: J) -> J:
        _registered(name)(_watched(function))
        return function

    return register


_registered = once.job
once.job = _job

from main import handle  # noqa: E402

__all__ = ["handle"]
