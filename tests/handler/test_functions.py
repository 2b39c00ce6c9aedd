"""What may be registered, and what a function must not return."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from once import Run, job, on_event, on_message
from once.protocol import Claim, Durations, Guard
from once.stores import open_store

from tests.support.deliveries import Delivery


async def is_async(run: object) -> None: ...


def generates(run: object) -> Iterator[None]:
    yield


async def generates_async(run: object) -> AsyncIterator[None]:
    yield


REGISTRATIONS: list[Callable[[Any], Any]] = [
    lambda function: job("never")(function),
    lambda function: on_event("never", name="never")(function),
    lambda function: on_message("never", name="never")(function),
]


@pytest.mark.parametrize("function", [is_async, generates, generates_async, 5, None])
@pytest.mark.parametrize("register", REGISTRATIONS, ids=["job", "on_event", "on_message"])
def test_what_runs_nothing_when_called_cannot_be_registered(
    register: Callable[[Any], Any], function: Any
) -> None:
    with pytest.raises(TypeError, match=r"is not a function|is async or a generator"):
        register(function)


@pytest.mark.parametrize("decorator", [job, on_event, on_message])
def test_decorator_without_its_argument_is_refused(decorator: Any) -> None:
    def function(run: Run) -> None: ...

    with pytest.raises((TypeError, ValueError), match="@"):
        decorator(function)


def test_job_without_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match="not empty"):
        job("")


@pytest.mark.parametrize("function", [is_async, generates, generates_async])
def test_run_whose_function_returned_before_it_ran_is_released(
    function: Any, tmp_path: Path
) -> None:
    """As a decorator, a partial or a lambda hides it from the registration."""
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    guard = Guard(store, Durations(timedelta(minutes=1), timedelta(days=1)))
    delivery = Delivery().identity()

    hidden = cast(Callable[[Claim], object], functools.partial(lambda claim: function(claim)))
    report = guard.run(delivery, hidden)

    assert report.outcome == "released"
    assert "nothing has run" in str(report.cause)
    assert guard.run(delivery, lambda claim: None).outcome == "completed"
