"""Schedules as Cloud Scheduler reads them: five unix-cron fields and an IANA time zone.

cronsim parses the fields and finds the fire times. It accepts more than Cloud Scheduler documents
(https://cloud.google.com/scheduler/docs/configuring/cron-job-schedules), so the strictness that is
missing stands here: no seconds, no `L`, `LW` or `#`, a step only after `*` or a range, and names in
upper case.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
RANGES = ("0-59", "0-23", "1-31", "1-12 or JAN-DEC", "0-7 or SUN-SAT, where 0 and 7 are Sunday")
_NAMES = {
    "month": ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    "day of the week": ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
}
_TERM = re.compile(r"(\*|(\d+|[A-Z]{3})(-(\d+|[A-Z]{3}))?)(/[1-9]\d*)?")
_ANY_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Schedule:
    """A valid schedule.

    Attributes
    ----------
    expression
        Five unix-cron fields.
    zone
        Name of an IANA time zone.
    """

    expression: str
    zone: str

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the fire times after `moment` (aware), in the schedule's own zone."""
        return iter(CronSim(self.expression, moment.astimezone(ZoneInfo(self.zone))))

    def shortest_period(self) -> timedelta:
        """Return the shortest time between two runs, without a clock change between them.

        The closest are two runs of one day, or the last and the first of two neighbouring days. A
        hundred runs, or what there is of them in a month from the first one on, show both.
        """
        times = islice(CronSim(self.expression, _ANY_MONDAY), 100)
        first = next(times)
        month = takewhile(lambda time: time < first + timedelta(days=32), times)
        return min(
            (later - earlier for earlier, later in pairwise([first, *month])),
            default=timedelta(days=32),
        )


def check_expression(expression: str) -> None:
    """Raise ValueError, with a reason, unless `expression` is five unix-cron fields."""
    fields = expression.split()
    if len(fields) != len(FIELDS):
        raise ValueError(
            f"has {len(fields)} fields where unix-cron has five ({', '.join(FIELDS)}), "
            'for example "*/5 * * * *" for every 5 minutes'
        )
    for field, name, allowed in zip(fields, FIELDS, RANGES, strict=True):
        _check_field(field, name, allowed)
    try:
        if next(CronSim(expression, _ANY_MONDAY), None) is None:
            raise ValueError("never fires: no such date comes in the next 50 years")
    except CronSimError as error:  # the fields are fine one by one, so the date is not
        raise ValueError("never fires: no month named has that day") from error


def _check_field(field: str, name: str, allowed: str) -> None:
    for term in field.split(","):
        match = _TERM.fullmatch(term)
        problem = f"{name} {term!r} is not valid: it takes {allowed}"
        if not match:
            raise ValueError(problem + _hint(term))
        whole, first, last, step = match.group(1), match.group(2), match.group(4), match.group(5)
        if step and whole == first:
            raise ValueError(f"{problem}, and a step only after * or a range")
        for value in filter(None, (first, last)):
            if value.isalpha() and value not in _NAMES.get(name, ()):
                raise ValueError(problem)
        try:
            CronSim(" ".join(term if each == name else "*" for each in FIELDS), _ANY_MONDAY)
        except CronSimError as error:
            backwards = ", and a range goes upwards" if last else ""
            raise ValueError(problem + backwards) from error


def _hint(term: str) -> str:
    if _TERM.fullmatch(term.upper()):
        return ", with names in upper case"
    if re.search(r"[L#W?]", term):
        return "; Cloud Scheduler knows no L, W, # or ?"
    return ""


@cache
def zones() -> tuple[str, ...]:
    """Return the names of the pinned time zone database, whatever this machine has installed."""
    return tuple(files("tzdata").joinpath("zones").read_text().split())


def check_zone(name: str) -> None:
    """Raise ValueError, with a reason, unless `name` is an Area/Location of the IANA database."""
    if name == "UTC":
        return
    if name not in zones():
        near = get_close_matches(name, [one for one in zones() if "/" in one], 1)
        hint = f"did you mean {near[0]}?" if near else "for example Europe/Berlin or Etc/UTC"
        raise ValueError(f"is no time zone of the IANA database; {hint}")
    if "/" not in name:
        raise ValueError(
            "is an abbreviation: some of these ignore daylight saving time, some mean several "
            "places; write Area/Location, for example America/New_York, or Etc/UTC"
        )
