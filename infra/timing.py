"""Every duration of the protocol follows from one number: a service's request timeout T.

The time line of the worst run that is still saved. The first attempt claims as late as it can and
dies; the second starts as late as it can and raises after all of its time; the third makes it::

    0           T                  T+L          T+L+m            2T+L+m       T+2L+m
    |-----------|-------------------|------------|------------------|------------|
    |  attempt 1 claims at T, dies  |            |    attempt 2     |            |
    |           |<----- lease L ---->            |<- raises at T -->|            |
    |           | retries get 409, at most m     |  attempt 2 takes |  attempt 3 |
    |           | apart: m m m m m m m m m m m m |  over and runs   |  starts    |
    |                                                                            |
    |<------------------------ retry window W = T + 2 L + m -------------------->|

- attempt deadline = T: Cloud Scheduler hangs up when Cloud Run gives the request up, not before.
- L = T + m: a lease outlasts its attempt, so no live attempt loses its run.
- the longest back-off <= m: one retry surely starts within m of the lease's end.
- W = T + 2 L + m, and 2 T + L + m plus one more wait of m is exactly that.
- retention > W + L: the record of an ended run is still there when the last retry comes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from math import ceil

MARGIN = timedelta(seconds=60)
"""m: what a lease has over its attempt. It covers a cold start and the store's own budget."""

MIN_TIMEOUT = timedelta(seconds=15)
MAX_TIMEOUT = timedelta(minutes=30)
"""Cloud Scheduler's limits for the attempt deadline of an HTTP target."""

MAX_RETRY_COUNT = 5
"""Cloud Scheduler's limit."""


@dataclass(frozen=True)
class Timing:
    """What follows from one service's request timeout."""

    timeout: timedelta

    @property
    def attempt_deadline(self) -> timedelta:
        """How long Cloud Scheduler waits for an answer: exactly as long as Cloud Run does."""
        return self.timeout

    @property
    def lease(self) -> timedelta:
        """How long a claim holds a run whose attempt says nothing more."""
        return self.timeout + MARGIN

    @property
    def window(self) -> timedelta:
        """How long after the first attempt Cloud Scheduler still starts retries."""
        return self.timeout + 2 * self.lease + MARGIN


@dataclass(frozen=True)
class Retry:
    """A job's retry settings, as Cloud Scheduler understands them.

    Attributes
    ----------
    max_duration
        The retry window, from the start of the first attempt. Zero means that `count` alone rules.
    count
        Retries go on until the window is over *and* this many were made. 1 and not 0, because the
        API reference says in one place that 0 means "no retry" and in another that it does so only
        with a window of zero. Not more, because the window is what is derived.
    min_backoff, max_backoff
        The first wait and the longest one.
    max_doublings
        3 doublings take 10 s over the longest back-off of 60 s; a fourth would change nothing.
    """

    max_duration: timedelta
    count: int = 1
    min_backoff: timedelta = timedelta(seconds=10)
    max_backoff: timedelta = MARGIN
    max_doublings: int = 3

    def waits(self) -> Iterator[timedelta]:
        """Yield the wait before each retry: doubled `max_doublings` times, then grown linearly.

        Cloud Scheduler's own example: 10 s, 300 s and 3 give 10, 20, 40, 80, 160, 240, 300, 300.
        """
        wait, doubled = self.min_backoff, 0
        step = self.min_backoff * 2**self.max_doublings
        while True:
            yield min(wait, self.max_backoff)
            if wait < self.max_backoff:
                wait = wait * 2 if doubled < self.max_doublings else wait + step
                doubled += 1

    def first_after(self, pause: timedelta) -> tuple[int, timedelta]:
        """Return which retry is the first to start at least `pause` after the first failure.

        Returns
        -------
        tuple of int and timedelta
            The retry's number, from 1, where each one before it was answered at once, and the wait
            before it. Slow answers only make the number smaller, and so the wait no longer.
        """
        elapsed = timedelta()
        for number, wait in enumerate(self.waits(), 1):
            elapsed += wait
            if elapsed >= pause:
                return number, wait
        raise AssertionError("waits() does not end")

    def needed_duration(self, timing: Timing) -> timedelta:
        """Return the shortest window in which a retry surely starts after a lost lease's end.

        The crash is noticed at the attempt deadline at the latest, and the lease was taken before.
        Each answer delays the retries a little, so the wait under way at the lease's end counts
        whole, wherever in it the lease ends.
        """
        return timing.attempt_deadline + timing.lease + self.first_after(timing.lease)[1]

    def outlasts_lease(self, timing: Timing) -> bool:
        """Say whether a retry surely starts after the lease of a crashed first attempt."""
        number, _ = self.first_after(timing.lease)
        return number <= self.count or self.needed_duration(timing) <= self.max_duration

    def last_start(self, timing: Timing) -> timedelta:
        """Return how long after the first attempt the last retry can start."""
        counted = self.count * timing.attempt_deadline + sum(
            islice(self.waits(), self.count), timedelta()
        )
        return max(self.max_duration, counted)


def default_retry(timing: Timing) -> Retry:
    """Return the retry settings of a job that overrides none."""
    return Retry(max_duration=timing.window)


def needed_retention(timing: Timing, retry: Retry) -> timedelta:
    """Return the retention that a job needs at least: its last retry still finds the record."""
    return retry.last_start(timing) + timing.lease


MAX_ACK_DEADLINE = timedelta(minutes=10)
"""Pub/Sub's limit, and so the longest timeout of a service that takes events."""

MAX_EVENT_BACKOFF = timedelta(minutes=10)
"""Pub/Sub's limit for the wait between two deliveries."""


def event_min_backoff(timing: Timing, max_attempts: int) -> timedelta:
    """Return the shortest wait under which delivery attempts are not used up within one lease.

    While a crashed attempt holds its lease, every delivery is refused and counts as an attempt.
    Pub/Sub's waits grow from the shortest one, but by how much is not documented, so all of them
    are taken to be the shortest. Source: https://cloud.google.com/pubsub/docs/handling-failures
    """
    return timedelta(seconds=ceil(timing.lease.total_seconds() / (max_attempts - 1)))


def event_lifetime(timing: Timing, max_backoff: timedelta) -> timedelta:
    """Return how old an event can be when it is delivered again after a crashed first attempt."""
    return timing.timeout + timing.lease + max_backoff


def fitting_timeout(period: timedelta) -> timedelta | None:
    """Return the longest timeout whose lease is shorter than `period`, or None where none is."""
    timeout = period - MARGIN - timedelta(seconds=1)
    return min(timeout, MAX_TIMEOUT) if timeout >= MIN_TIMEOUT else None
