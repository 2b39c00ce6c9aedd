"""What every backend shares: the time budget, retries and what counts as a failure."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from once.identity import Key
from once.stores.record import Reading, Record, Version

T = TypeVar("T")

# One phase of the protocol (claim, or finish) may take this long. Ten seconds is the time that
# Cloud Run leaves between SIGTERM and SIGKILL, so a job that ends in it can still be recorded.
BUDGET_SECONDS = 10.0
# One call. Firestore answers in tens of milliseconds; four seconds let a cold connection through
# and leave room for a second and a third try on a fresh connection.
CALL_SECONDS = 4.0
# Waits between tries: doubling from the first to the last, each cut by up to half at random.
_FIRST_WAIT_SECONDS, _LAST_WAIT_SECONDS = 0.1, 1.0


class StoreError(Exception):
    """The store did not do what was asked, and asking again at once will not help."""


class StoreUnavailable(StoreError):
    """The store could not be reached, or did not answer, within the budget."""


class Transient(Exception):
    """A backend raises this for what may work on the next try; it may have been applied."""


class Store(ABC):
    """Four compare-and-set operations; `until` is when the budget ends, on the monotonic clock.

    `str(store)` says where the records stand.

    A backend implements the four methods with a leading underscore: one try each, which takes no
    longer than `seconds`. A refused write returns None (or False). A write that was applied though
    its answer was lost is tried again, and then refused: the protocol asks whose the record is.
    """

    def read(self, key: Key, until: float) -> Reading:
        """Return the record and the store's time."""
        return self._try(lambda seconds: self._read(key, seconds), until)

    def create(self, key: Key, record: Record, until: float) -> Version | None:
        """Write the record if none is there."""
        return self._try(lambda seconds: self._create(key, record, seconds), until)

    def replace(self, key: Key, record: Record, version: Version, until: float) -> Version | None:
        """Write the whole record if the one that stands there has this version."""
        return self._try(lambda seconds: self._replace(key, record, version, seconds), until)

    def delete(self, key: Key, version: Version, until: float) -> bool:
        """Delete the record if it has this version."""
        return self._try(lambda seconds: self._delete(key, version, seconds), until)

    def _try(self, call: Callable[[float], T], until: float) -> T:
        wait = _FIRST_WAIT_SECONDS
        while (left := until - time.monotonic()) > 0:
            try:
                return call(min(CALL_SECONDS, left))
            except Transient as error:
                failure = error
            except StoreError:
                raise
            except Exception as error:  # a client's own bug must not look like one of the job's
                raise StoreError(f"{type(error).__name__}: {error}") from error
            pause = wait * random.uniform(0.5, 1)  # noqa: S311
            if time.monotonic() + pause >= until:
                raise StoreUnavailable(str(failure)) from failure
            time.sleep(pause)
            wait = min(wait * 2, _LAST_WAIT_SECONDS)
        raise StoreUnavailable("the time budget was used up before the call")

    @abstractmethod
    def _read(self, key: Key, seconds: float) -> Reading: ...

    @abstractmethod
    def _create(self, key: Key, record: Record, seconds: float) -> Version | None: ...

    @abstractmethod
    def _replace(
        self, key: Key, record: Record, version: Version, seconds: float
    ) -> Version | None: ...

    @abstractmethod
    def _delete(self, key: Key, version: Version, seconds: float) -> bool: ...
