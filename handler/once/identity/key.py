"""The key of a record, and what every kind of delivery can say about itself."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal

Kind = Literal["run", "forced", "event", "token"]

COLLECTIONS: Mapping[Kind, str] = {
    "run": "scheduler_runs",
    "forced": "scheduler_runs",
    "token": "scheduler_runs",
    "event": "processed_events",
}


class BadDelivery(ValueError):
    """A delivery that cannot be identified; the message names the header or field and the fix."""


@dataclass(frozen=True)
class Key:
    """What must take effect once.

    Parameters
    ----------
    kind
        Keys of different kinds never meet, whatever their parts are.
    parts
        The names that make the key, in a fixed order for each kind.
    """

    kind: Kind
    parts: tuple[str, ...]

    @cached_property
    def id(self) -> str:
        """The document id: 64 hex digits. JSON keeps ("a", "bc") apart from ("ab", "c")."""
        return hashlib.sha256(json.dumps([self.kind, *self.parts]).encode()).hexdigest()

    @property
    def collection(self) -> str:
        """The Firestore collection in which records of this kind stand."""
        return COLLECTIONS[self.kind]


class Delivery(ABC):
    """One HTTP request (or call) that asks for something to take effect once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The job or handler, as answers and logs call it."""

    @property
    @abstractmethod
    def due(self) -> datetime | None:
        """When it was meant to happen; lateness is counted from here."""

    @abstractmethod
    def key(self, now: datetime) -> Key:
        """Return the key under which this delivery counts at the time `now`."""

    @abstractmethod
    def about(self) -> dict[str, str | datetime]:
        """Return the fields that describe it in its record."""
