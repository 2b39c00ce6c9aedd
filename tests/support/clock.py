"""A wall clock that is wrong, for a whole process."""

from __future__ import annotations

import datetime

_Real = datetime.datetime


def set_ahead(seconds: float) -> None:
    """Set the clock of `datetime` ahead, or behind, for whatever imports it afterwards.

    `time.time` stays right: gRPC hands deadlines made from it to C code, which has its own clock.
    """
    ahead = datetime.timedelta(seconds=seconds)

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            if cls is Wrong:
                return isinstance(instance, _Real)
            return super().__instancecheck__(instance)

    class Wrong(_Real, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> _Real:  # type: ignore[override]
            return _Real.now(tz) + ahead

    datetime.datetime = Wrong  # type: ignore[misc]
