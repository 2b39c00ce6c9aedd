"""The record of a run and its version."""

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

Status = Literal["in_progress", "completed", "failed"]

EXPIRE_AT = "expire_at"
"""The TTL field; infra/ puts the TTL policy on the same name."""


MAX_SECONDS = 10**9
"""The longest lease or retention, some 30 years: what is longer was not meant."""


@dataclass(frozen=True)
class Record:
    """What is stored of a run, an event or a token.

    Parameters
    ----------
    status
        `in_progress` while an attempt holds the lease, else how the run ended.
    attempt_id
        The attempt that wrote the record.
    lease_seconds
        Length of the lease, counted from the version's time; None in a record written by hand.
    lease_expires
        When the lease ends, for people: nothing decides by it.
    expire_at
        When the store may delete the record, and an ended run is forgotten.
    started_at, finished_at
        When the attempt claimed and ended the run.
    result
        What the job returned, if it is small and JSON.
    error
        Why the run failed for good.
    about
        Fields that describe the delivery, beside the above in the document.
    """

    status: Status
    attempt_id: str
    lease_seconds: float | None = None
    lease_expires: datetime | None = None
    expire_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: Any = None
    error: str | None = None
    about: dict[str, str | datetime] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed")

    def document(self) -> dict[str, Any]:
        """Return every field by name, so that a takeover leaves nothing of its predecessor."""
        own = {name: getattr(self, name) for name in _OWN}
        return {**self.about, **own}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Record":
        """Read a document, also one that a person wrote with less in it."""
        own: dict[str, Any] = {name: document.get(name) for name in _OWN}
        for name in TIME_FIELDS & own.keys():
            own[name] = _time(own[name])
        lease = own["lease_seconds"]
        number = isinstance(lease, int | float) and not isinstance(lease, bool)
        if not number or not 0 <= lease <= MAX_SECONDS:
            own["lease_seconds"] = None
        about = {name: value for name, value in document.items() if name not in _OWN}
        return cls(**own, about=about)


_OWN = tuple(each.name for each in fields(Record) if each.name != "about")

TIME_FIELDS = frozenset(
    {"lease_expires", EXPIRE_AT, "started_at", "finished_at", "schedule_time", "event_time"}
)


def _time(value: Any) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


class Version(NamedTuple):
    """The version of a record: strictly increasing for a key for ever, also across deletion."""

    number: int
    time: datetime
    """When the store applied the write, by the store's clock."""


class Versioned(NamedTuple):
    """A record as it stands in the store."""

    record: Record
    version: Version


class Reading(NamedTuple):
    """The answer to a read: what was there (or None), and the store's time."""

    found: Versioned | None
    time: datetime
