"""Deliveries as Cloud Scheduler makes them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from once.identity import Key
from once.identity.scheduler import ScheduledDelivery, scheduled

_numbers = itertools.count()


def now_text(ahead: timedelta = timedelta(0)) -> str:
    """Return the machine's time, or one ahead of it, as the Scheduler writes it."""
    return (datetime.now(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class Delivery:
    """One delivery; its job has a name of its own unless the test gives one."""

    function: str = "count"
    job: str = field(default_factory=lambda: f"job-{next(_numbers)}")
    project: str = "test-project"
    region: str = "europe-west1"
    schedule_time: str = field(default_factory=now_text)
    body: bytes = b""

    @property
    def headers(self) -> dict[str, str]:
        return {
            "X-CloudScheduler-JobName": self.job,
            "X-CloudScheduler-ScheduleTime": self.schedule_time,
            "X-Scheduler-Project": self.project,
            "X-Scheduler-Region": self.region,
            "X-Scheduler-Function": self.function,
        }

    def identity(self) -> ScheduledDelivery:
        """Return what the handler makes of it."""
        return scheduled(self.headers)

    @property
    def key(self) -> Key:
        """The key of the scheduled run."""
        return self.identity().key(datetime.max.replace(tzinfo=UTC))

    @property
    def forced_key(self) -> Key:
        """The key of the forced run."""
        return self.identity().key(datetime.min.replace(tzinfo=UTC))


def without(headers: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the headers but one."""
    return {each: value for each, value in headers.items() if each != name}
