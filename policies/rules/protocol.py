"""The numbers and names of the protocol that makes a run take effect once.

They stand here as the pack's own, because the pack is used without the program too. A test of the
repository holds them to the handler and the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

IDENTITY_HEADERS = ("X-Scheduler-Project", "X-Scheduler-Region")
"""Without them two jobs of one name in two projects or regions would be the same run."""

LEASE_VARIABLE = "ONCE_LEASE_SECONDS"
EVENT_LEASE_VARIABLE = "ONCE_EVENT_LEASE_SECONDS"
RETENTION_VARIABLE = "ONCE_RETENTION_SECONDS"
STORE_VARIABLE = "ONCE_STORE"

RUNS_COLLECTION = "scheduler_runs"
EVENTS_COLLECTION = "processed_events"
TTL_FIELD = "expire_at"
TIMESTAMP_FIELDS = (
    "expire_at",
    "lease_expires",
    "schedule_time",
    "event_time",
    "started_at",
    "finished_at",
)

DEFAULT_RETENTION = timedelta(days=7)
"""What the handler keeps a record for when nothing is set."""

DEFAULT_REQUEST_TIMEOUT = timedelta(minutes=5)
"""Cloud Run's own."""

DEFAULT_ATTEMPT_DEADLINE = timedelta(minutes=3)
MIN_ATTEMPT_DEADLINE = timedelta(seconds=15)
MAX_ATTEMPT_DEADLINE = timedelta(minutes=30)
MAX_APP_ENGINE_DEADLINE = timedelta(hours=24, seconds=15)
"""Cloud Scheduler's own, from the reference of its API."""

DEFAULT_ACK_DEADLINE = timedelta(seconds=10)
"""Pub/Sub's own."""


@dataclass(frozen=True)
class Retries:
    """A job's retry settings; the defaults are Cloud Scheduler's own.

    Cloud Scheduler goes on until both limits are reached: `count` retries made, and `duration`
    passed since the first attempt started. A duration of zero is no limit of its own.
    """

    count: int = 0
    duration: timedelta = timedelta(0)
    min_backoff: timedelta = timedelta(seconds=5)
    max_backoff: timedelta = timedelta(hours=1)
    doublings: int = 5

    def waits(self) -> Iterator[timedelta]:
        """Give the waits between attempts: doubled, then grown linearly, up to the longest."""
        wait = self.min_backoff
        for _ in range(self.doublings):
            if wait >= self.max_backoff:
                break
            yield wait
            wait *= 2
        step = wait
        while wait < self.max_backoff:
            yield wait
            wait += step
        while True:
            yield self.max_backoff

    def after_lease(self, lease: timedelta) -> tuple[int, timedelta]:
        """Give the retry that surely starts after a lease: its number, and the wait before it.

        Answers can only delay the retries, and a wait only grows with their number. So whatever is
        under way when the lease ends, the next retry starts within this wait.
        """
        waited = timedelta(0)
        for number, wait in enumerate(self.waits(), start=1):
            waited += wait
            if waited >= lease:
                return number, wait
        raise AssertionError("waits do not end")

    def duration_needed(self, attempt: timedelta, lease: timedelta) -> timedelta:
        """Give the `duration` that a retry after the lease of a crashed first attempt needs.

        Parameters
        ----------
        attempt : timedelta
            How long an attempt can take, and so how late it can claim.
        lease : timedelta
            How long the claim holds.
        """
        return attempt + lease + self.after_lease(lease)[1]

    def outlast(self, attempt: timedelta, lease: timedelta) -> bool:
        """Tell whether a retry surely starts after the lease of a crashed first attempt."""
        return self.count >= self.after_lease(lease)[0] or self.duration >= self.duration_needed(
            attempt, lease
        )

    def last_start(self, attempt: timedelta) -> timedelta:
        """Give the latest that a retry can start, counted from the start of the first attempt."""
        counted = sum(islice(self.waits(), self.count), timedelta(0)) + self.count * attempt
        return max(self.duration, counted)
