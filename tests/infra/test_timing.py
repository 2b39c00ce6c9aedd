"""What follows from a service's timeout, and when Cloud Scheduler's retries start."""

from datetime import timedelta
from itertools import islice

import pytest

from infra import timing
from infra.timing import Retry, Timing, default_retry


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("timeout", "lease", "window", "retention"),
    [
        (15, 75, 225, 300),
        (60, 120, 360, 480),
        (120, 180, 540, 720),
        (300, 360, 1080, 1440),
        (900, 960, 2880, 3840),
        (1800, 1860, 5580, 7440),
    ],
)
def test_timeout_gives_every_other_duration(
    timeout: int, lease: int, window: int, retention: int
) -> None:
    derived = Timing(seconds(timeout))
    retry = default_retry(derived)

    assert derived.attempt_deadline == seconds(timeout)
    assert derived.lease == seconds(lease)
    assert derived.window == retry.max_duration == seconds(window)
    assert timing.needed_retention(derived, retry) == seconds(retention)


@pytest.mark.parametrize("timeout", [15, 16, 59, 60, 61, 299, 300, 1799, 1800])
def test_default_retries_save_a_run_whose_first_attempt_claims_last_and_crashes(
    timeout: int,
) -> None:
    """The time line of infra/timing.py, with the retries where Cloud Scheduler puts them."""
    derived = Timing(seconds(timeout))
    retry = default_retry(derived)
    crashed = derived.attempt_deadline
    lease_ends = crashed + derived.lease

    starts = _starts(retry, crashed)
    takeover = next(start for start in starts if start >= lease_ends)
    assert takeover <= lease_ends + timing.MARGIN

    failed = takeover + derived.timeout
    third = failed + retry.max_backoff
    assert third <= retry.max_duration


@pytest.mark.parametrize("crash_after", [0, 1, 150, 299, 300])
def test_some_retry_starts_between_the_end_of_the_lease_and_of_the_window(
    crash_after: int,
) -> None:
    derived = Timing(seconds(300))
    retry = default_retry(derived)
    lease_ends = seconds(crash_after) + derived.lease

    assert any(
        lease_ends <= start <= retry.max_duration for start in _starts(retry, seconds(crash_after))
    )


def _starts(retry: Retry, failed: timedelta) -> list[timedelta]:
    """When retries start, where each is answered at once, after a first failure at `failed`."""
    starts = []
    for wait in islice(retry.waits(), 1000):
        failed += wait
        starts.append(failed)
    return starts


@pytest.mark.parametrize(
    ("minimum", "maximum", "doublings", "waits"),
    [
        # The example in Cloud Scheduler's own reference.
        (10, 300, 3, [10, 20, 40, 80, 160, 240, 300, 300]),
        (10, 60, 3, [10, 20, 40, 60, 60, 60]),
        (10, 60, 0, [10, 20, 30, 40, 50, 60, 60]),
        (5, 3600, 5, [5, 10, 20, 40, 80, 160, 320, 480, 640]),
        (60, 60, 16, [60, 60, 60]),
        (1, 4, 1, [1, 2, 4, 4]),
    ],
)
def test_waits_double_then_grow_linearly_up_to_the_longest(
    minimum: int, maximum: int, doublings: int, waits: list[int]
) -> None:
    retry = Retry(
        max_duration=seconds(0),
        min_backoff=seconds(minimum),
        max_backoff=seconds(maximum),
        max_doublings=doublings,
    )

    assert list(islice(retry.waits(), len(waits))) == [seconds(wait) for wait in waits]


@pytest.mark.parametrize(
    ("retry", "outlasts"),
    [
        # T = 300 s, L = 360 s: the lease ends before the eighth retry, in a wait of 60 s.
        (Retry(max_duration=seconds(720)), True),
        (Retry(max_duration=seconds(719)), False),
        (Retry(max_duration=seconds(0), count=0), False),
        (Retry(max_duration=seconds(0), count=5), False),
        # Five waits of 80 s are enough, whatever the window says: both limits must be reached.
        (Retry(seconds(0), count=5, min_backoff=seconds(80), max_backoff=seconds(80)), True),
        (Retry(seconds(0), count=4, min_backoff=seconds(80), max_backoff=seconds(80)), False),
        (Retry(seconds(0), count=1, min_backoff=seconds(360), max_backoff=seconds(360)), True),
        # A long wait steps over the end of the window.
        (Retry(seconds(1080), min_backoff=seconds(300), max_backoff=seconds(600)), False),
    ],
)
def test_retry_outlasts_the_lease_only_where_one_surely_starts_after_it(
    retry: Retry, *, outlasts: bool
) -> None:
    assert retry.outlasts_lease(Timing(seconds(300))) is outlasts


def test_needed_duration_is_the_shortest_that_outlasts_the_lease() -> None:
    derived = Timing(seconds(300))
    retry = Retry(max_duration=seconds(0), count=0)
    needed = retry.needed_duration(derived)

    assert Retry(max_duration=needed, count=0).outlasts_lease(derived)
    assert not Retry(max_duration=needed - seconds(1), count=0).outlasts_lease(derived)


def test_retention_follows_the_count_where_the_count_lasts_longer_than_the_window() -> None:
    derived = Timing(seconds(300))
    retry = Retry(max_duration=seconds(700), count=5)

    # Five attempts of 300 s and the waits between them, then a lease.
    assert timing.needed_retention(derived, retry) == seconds(5 * 300 + 190 + 360)


@pytest.mark.parametrize(
    ("period", "timeout"),
    [(3600, 1800), (300, 239), (120, 59), (76, 15), (75, None), (60, None)],
)
def test_fitting_timeout_has_a_lease_shorter_than_the_period(
    period: int, timeout: int | None
) -> None:
    fitting = timing.fitting_timeout(seconds(period))

    assert fitting == (None if timeout is None else seconds(timeout))
    if fitting is not None:
        assert Timing(fitting).lease < seconds(period)
