"""The pack keeps the protocol's names and numbers itself; this holds them to the other sides."""

from datetime import timedelta

import pytest
from once import settings
from once.identity import scheduler
from once.stores import record

from infra import contract, timing
from tests.support.pack import load

PROTOCOL = load("protocol")
TIMEOUTS = [timedelta(seconds=seconds) for seconds in (15, 60, 120, 300, 599, 1500, 1800)]


def test_names_are_those_of_the_program_and_of_the_handler() -> None:
    assert PROTOCOL.IDENTITY_HEADERS == (contract.PROJECT_HEADER, contract.REGION_HEADER)
    assert PROTOCOL.IDENTITY_HEADERS == (scheduler.PROJECT, scheduler.REGION)
    assert PROTOCOL.LEASE_VARIABLE == contract.LEASE_SECONDS == settings.LEASE_SECONDS
    assert PROTOCOL.RETENTION_VARIABLE == contract.RETENTION_SECONDS == settings.RETENTION_SECONDS
    assert PROTOCOL.STORE_VARIABLE == contract.STORE == settings.STORE
    assert PROTOCOL.RUNS_COLLECTION == contract.RUNS_COLLECTION
    assert PROTOCOL.EVENTS_COLLECTION == contract.EVENTS_COLLECTION
    assert PROTOCOL.TTL_FIELD == contract.TTL_FIELD
    assert set(PROTOCOL.TIMESTAMP_FIELDS) == record.TIME_FIELDS


@pytest.mark.parametrize("timeout", TIMEOUTS, ids=str)
def test_derived_retries_satisfy_the_rule(timeout: timedelta) -> None:
    derived = timing.Timing(timeout)
    retry = timing.default_retry(derived)
    retries = PROTOCOL.Retries(
        count=retry.count,
        duration=retry.max_duration,
        min_backoff=retry.min_backoff,
        max_backoff=retry.max_backoff,
        doublings=retry.max_doublings,
    )
    assert retries.outlast(derived.attempt_deadline, derived.lease)


@pytest.mark.parametrize(
    ("first", "longest", "doublings"),
    [(10, 300, 3), (5, 3600, 5), (10, 60, 3), (1, 1, 0), (60, 60, 16), (7, 100, 1)],
)
def test_both_sides_wait_alike(first: int, longest: int, doublings: int) -> None:
    shortest, most = timedelta(seconds=first), timedelta(seconds=longest)
    backoff = {"min_backoff": shortest, "max_backoff": most}
    ours = PROTOCOL.Retries(**backoff, doublings=doublings).waits()
    theirs = timing.Retry(timedelta(0), 1, shortest, most, doublings).waits()
    assert [next(ours) for _ in range(30)] == [next(theirs) for _ in range(30)]


@pytest.mark.parametrize("timeout", TIMEOUTS, ids=str)
@pytest.mark.parametrize(
    ("first", "longest", "doublings"), [(10, 60, 3), (5, 3600, 5), (60, 60, 16), (7, 100, 1)]
)
def test_program_and_pack_draw_the_border_in_the_same_place(
    timeout: timedelta, first: int, longest: int, doublings: int
) -> None:
    derived = timing.Timing(timeout)
    shortest, most = timedelta(seconds=first), timedelta(seconds=longest)
    override = timing.Retry(timedelta(0), 1, shortest, most, doublings)
    retries = PROTOCOL.Retries(1, timedelta(0), shortest, most, doublings)
    needed = override.needed_duration(derived)
    assert needed == retries.duration_needed(derived.attempt_deadline, derived.lease)
    assert override.last_start(derived) == retries.last_start(derived.attempt_deadline)
