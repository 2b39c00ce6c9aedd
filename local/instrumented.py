"""The source that the handler's processes are started with on this machine.

It loads `handler/main.py` unchanged, with a watch around every function that is registered
meanwhile: what begins, takes effect and raises is written to a ledger, and the faults that the
player ordered are committed where it ordered them. Jobs need no code for it.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# functions-framework put this folder on the path; the handler's own takes its place, as deployed.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
sys.path += [str(ROOT / "handler"), str(ROOT)]

import once  # noqa: E402
from once import Event, Run, settings  # noqa: E402
from once.events import F  # noqa: E402
from once.run import JOBS, J  # noqa: E402

from local.ledger import (  # noqa: E402
    FOLDER,
    Functions,
    Injected,
    Injection,
    Injections,
    Ledger,
    Step,
)

_folder = Path(os.environ[FOLDER])
_ledger = Ledger(_folder)
_injections = Injections(_folder)
_functions = Functions(_folder)


def _watched(function: Callable[[Any], object], end: Step = Step.EFFECT) -> Callable[[Any], object]:
    """Put a watch around a job or an event's handler.

    Parameters
    ----------
    function
        Takes a run or an event.
    end
        What it means that it returned.
    """

    @wraps(function)
    def watched(given: Run | Event) -> object:
        if isinstance(given, Run):
            name, occasion = given.job, given.schedule_time.isoformat()
            injection = _injections.take(name, occasion)
        else:
            name, occasion = function.__name__, given.id
            injection = _injections.take("", occasion)  # the first handler's, whoever that is

        def note(step: Step, error: str | None = None) -> None:
            _ledger.write(
                step,
                function=name,
                occasion=occasion,
                run_id=given.run_id,
                attempt_id=given.attempt_id,
                fence=given.fence,
                error=error,
            )

        note(Step.BEGIN)
        try:
            return _with_fault(injection, lambda: function(given), lambda: note(end))
        except BaseException as error:
            note(Step.RAISE, f"{type(error).__name__}: {error}")
            raise

    return watched


def _with_fault(
    injection: Injection | None, work: Callable[[], object], returned: Callable[[], None]
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
    returned()
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
        _registered_job(name)(_watched(function))
        return function

    return register


def _handler(registered: Callable[..., Callable[[Any], Any]]) -> Callable[..., Any]:
    """Make the stand-in for `once.on_event` or `once.on_message`."""

    def decorator(*arguments: Any, **rules: Any) -> Callable[[F], F]:
        def register(function: F) -> F:
            registered(*arguments, **rules)(_watched(function))
            return function

        return register

    return decorator


def _load(environment: Mapping[str, str]) -> settings.Settings:
    """Stand in for `once.settings.load`: each start has a watch around it."""
    loaded = _loaded_settings(environment)
    starts = {name: _watched(start, Step.RETURN) for name, start in loaded.starts.items()}
    _functions.write(environment["K_SERVICE"], {*JOBS, *starts})
    return replace(loaded, starts=starts)


_registered_job = once.job
_loaded_settings = settings.load
once.job = _job
once.on_event = _handler(once.on_event)
once.on_message = _handler(once.on_message)
settings.load = _load

from main import handle  # noqa: E402

__all__ = ["handle"]
