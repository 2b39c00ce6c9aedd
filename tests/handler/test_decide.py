"""The decision about a record that stands in the way of a claim, as a table."""

from datetime import UTC, datetime, timedelta

import pytest
from once.protocol import Verdict, decide
from once.stores import Reading, Record, Status, Version, Versioned

WRITTEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LEASE = timedelta(seconds=360)
MOMENT = timedelta(microseconds=1)


def reading(
    status: Status,
    read_at: datetime,
    *,
    attempt_id: str = "other",
    lease_seconds: float | None = 60,
    expire_at: datetime | None = WRITTEN + timedelta(days=7),
) -> Reading:
    record = Record(status, attempt_id, lease_seconds=lease_seconds, expire_at=expire_at)
    return Reading(Versioned(record, Version(1, WRITTEN)), read_at)


LEASE_END = WRITTEN + timedelta(seconds=60)
WEEK_END = WRITTEN + timedelta(days=7)
AGES_AGO = WRITTEN - timedelta(days=400)
AGES_HENCE = WRITTEN + timedelta(days=400)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Reading(None, WRITTEN), Verdict.CREATE),
        # A live lease is in progress up to the very moment of its end, and over from there on.
        (reading("in_progress", WRITTEN), Verdict.IN_PROGRESS),
        (reading("in_progress", LEASE_END - MOMENT), Verdict.IN_PROGRESS),
        (reading("in_progress", LEASE_END), Verdict.TAKE_OVER),
        (reading("in_progress", AGES_HENCE), Verdict.TAKE_OVER),
        # The TTL field says nothing about a run in progress, whichever way it is wrong.
        (reading("in_progress", WRITTEN, expire_at=AGES_AGO), Verdict.IN_PROGRESS),
        (reading("in_progress", LEASE_END, expire_at=AGES_HENCE), Verdict.TAKE_OVER),
        (reading("in_progress", WRITTEN, expire_at=None), Verdict.IN_PROGRESS),
        # Our own claim, whose answer was lost, also after its lease.
        (reading("in_progress", WRITTEN, attempt_id="mine"), Verdict.OURS),
        (reading("in_progress", LEASE_END, attempt_id="mine"), Verdict.OURS),
        # A record that does not tell the length of its lease is judged by the reader's own.
        (reading("in_progress", LEASE_END, lease_seconds=None), Verdict.IN_PROGRESS),
        (reading("in_progress", WRITTEN + LEASE, lease_seconds=None), Verdict.TAKE_OVER),
        (reading("in_progress", WRITTEN, lease_seconds=0), Verdict.TAKE_OVER),
        # An ended run is remembered until its record expires, deleted or not.
        (reading("completed", WEEK_END - MOMENT), Verdict.DUPLICATE),
        (reading("failed", WEEK_END - MOMENT), Verdict.DUPLICATE),
        (reading("completed", WEEK_END), Verdict.TAKE_OVER),
        (reading("failed", AGES_HENCE), Verdict.TAKE_OVER),
        (reading("completed", AGES_HENCE, expire_at=None), Verdict.DUPLICATE),
        (reading("completed", WRITTEN, attempt_id="mine"), Verdict.DUPLICATE),
    ],
)
def test_decision(found: Reading, verdict: Verdict) -> None:
    assert decide(found, "mine", LEASE).verdict is verdict


@pytest.mark.parametrize("seconds", [-1, 10**12, 10**18, float("nan"), float("inf"), "60", True])
def test_lease_that_is_no_length_of_time_is_judged_by_the_readers_own(seconds: object) -> None:
    record = Record.of({"status": "in_progress", "attempt_id": "other", "lease_seconds": seconds})

    decision = decide(Reading(Versioned(record, Version(1, WRITTEN)), WRITTEN), "mine", LEASE)

    assert decision == (Verdict.IN_PROGRESS, LEASE)


def test_live_lease_tells_how_long_it_lasts() -> None:
    decision = decide(reading("in_progress", LEASE_END - timedelta(seconds=7)), "mine", LEASE)

    assert decision.lease_left == timedelta(seconds=7)


def test_answer_rounds_the_rest_of_a_lease_up() -> None:
    from once.answer import Outcome, answer

    for left, seconds in [(0.001, "1"), (1.0, "1"), (6.2, "7"), (-3.0, "1")]:
        got = answer(Outcome.IN_PROGRESS, run_id="r", job="j", retry_after=timedelta(seconds=left))
        assert got.headers["Retry-After"] == seconds


def test_no_outcome_is_answered_with_503() -> None:
    from once.answer import Outcome, answer

    for outcome in Outcome:
        assert answer(outcome, run_id=None, job=None).status != 503
