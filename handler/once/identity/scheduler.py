"""A delivery of Cloud Scheduler, from its headers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from once.headers import folded
from once.identity.key import BadDelivery, Delivery, Key

SCHEDULE_TIME = "X-CloudScheduler-ScheduleTime"
JOB_NAME = "X-CloudScheduler-JobName"
PROJECT = "X-Scheduler-Project"
REGION = "X-Scheduler-Region"
FUNCTION = "X-Scheduler-Function"

# A forced run carries the next schedule time. Ten seconds leave room for a run that Scheduler
# sends a little early and for the difference between its clock and the store's.
FORCED_AHEAD = timedelta(seconds=10)

_HOW_TO_RUN_BY_HAND = (
    "every delivery of Cloud Scheduler has it, and this is not a CloudEvent or a Pub/Sub push "
    "either; to run a job by hand use `gcloud scheduler jobs run JOB`"
)

# RFC 3339, section 5.6, with the 0 to 9 fractional digits that Google's APIs document.
_RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)",
    re.ASCII,
)


@dataclass(frozen=True)
class ScheduledDelivery(Delivery):
    """One delivery of one run of a Scheduler job."""

    project: str
    region: str
    job: str
    function: str
    schedule_time: datetime
    schedule_time_raw: str

    @property
    def name(self) -> str:
        return self.job

    @property
    def slot(self) -> datetime:
        """The schedule time in UTC, cut to the minute: unix-cron's own resolution."""
        return self.schedule_time.replace(second=0, microsecond=0)

    @property
    def due(self) -> datetime:
        return self.slot

    def key(self, now: datetime) -> Key:
        """Return the scheduled run's key, or a forced run's while the slot is still to come."""
        forced = self.schedule_time - now > FORCED_AHEAD
        slot = self.slot.strftime("%Y-%m-%dT%H:%MZ")
        return Key("forced" if forced else "run", (self.project, self.region, self.job, slot))

    def about(self) -> dict[str, str | datetime]:
        return {
            "project": self.project,
            "region": self.region,
            "job": self.job,
            "schedule_time": self.slot,
            "schedule_time_raw": self.schedule_time_raw,
        }


def scheduled(headers: Mapping[str, str]) -> ScheduledDelivery:
    """Identify a delivery of Cloud Scheduler.

    Parameters
    ----------
    headers
        The request's headers; their case does not matter.

    Raises
    ------
    BadDelivery
        If a header is missing or malformed; the message names it.
    """
    found = folded(headers)

    def need(name: str, hint: str) -> str:
        value = found.get(name.lower(), "")
        if not value:
            raise BadDelivery(f"header {name} is missing: {hint}")
        return value

    raw = need(SCHEDULE_TIME, _HOW_TO_RUN_BY_HAND)
    job = need(JOB_NAME, _HOW_TO_RUN_BY_HAND)
    set_on_job = "set it in the job's HTTP headers, as infra/ does for every job"
    return ScheduledDelivery(
        project=need(PROJECT, set_on_job),
        region=need(REGION, set_on_job),
        job=job,
        function=found.get(FUNCTION.lower()) or job,
        schedule_time=parse_rfc_3339(raw, SCHEDULE_TIME),
        schedule_time_raw=raw,
    )


def parse_rfc_3339(text: str, field: str) -> datetime:
    """Parse an RFC 3339 time into UTC; what is finer than a microsecond is cut off.

    Raises
    ------
    BadDelivery
        If `text` is no such time; the message names `field`.
    """
    wrong = BadDelivery(f"{field} is {text[:64]!r}: give an RFC 3339 time with an offset")
    match = _RFC_3339.fullmatch(text)
    if not match:
        raise wrong
    *numbers, fraction, offset = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    microsecond = int((fraction or "").ljust(6, "0")[:6])
    zone: timezone = UTC
    if offset not in "Zz":
        sign = -1 if offset[0] == "-" else 1
        hours, minutes = int(offset[1:3]), int(offset[4:6])
        if hours > 23 or minutes > 59:
            raise wrong
        zone = timezone(sign * timedelta(hours=hours, minutes=minutes))
    if second == 60:  # a leap second belongs to the minute that it ends
        second, microsecond = 59, 999_999
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise wrong from None
