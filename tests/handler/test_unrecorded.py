"""An end that the store could not be told is written by whatever is delivered next."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from once.events import Handler, Rules
from once.identity import Key
from once.protocol import Durations
from once.service import Service
from once.settings import Settings
from once.stores import Record, StoreUnavailable, Version
from once.stores.sqlite import SqliteStore

from tests.support.backends import SqliteBackend
from tests.support.deliveries import Delivery

DURATIONS = Durations(lease=timedelta(minutes=6), retention=timedelta(days=7))
SHORTER = Durations(lease=timedelta(minutes=1), retention=timedelta(days=7))


class DeafStore(SqliteStore):
    """A store that can be told no end for a while."""

    deaf = False

    def _replace(
        self, key: Key, record: Record, version: Version, seconds: float
    ) -> Version | None:
        if self.deaf:
            raise StoreUnavailable("the budget is used up")
        return super()._replace(key, record, version, seconds)


def message(service: Service) -> str:
    push = {"message": {"messageId": "1"}, "subscription": "projects/p/subscriptions/orders"}
    body = json.dumps(push).encode()
    headers = {"Content-Type": "application/json"}
    return service.deliver("POST", headers, body).headers["X-Once-Outcome"]


def scheduled(service: Service, delivery: Delivery) -> str:
    return service.deliver("POST", delivery.headers, b"").headers["X-Once-Outcome"]


KNOWN = Delivery("job")


@pytest.mark.parametrize(
    ("deliver", "outcome"),
    [
        (lambda service: scheduled(service, Delivery("job")), "completed"),
        (lambda service: scheduled(service, KNOWN), "duplicate"),
        (message, "completed"),
    ],
    ids=["another run", "a known duplicate", "an event"],
)
def test_any_later_delivery_writes_it(
    deliver: Callable[[Service], str], outcome: str, tmp_path: Path
) -> None:
    backend = SqliteBackend(tmp_path / "runs.db")
    store = DeafStore(backend.path)
    service = Service(
        Settings(store, DURATIONS, None, {}, SHORTER, {}),
        jobs={"job": lambda run: None},
        handlers=[Handler("order", lambda event: None, Rules(), subscription="orders")],
    )
    assert scheduled(service, KNOWN) == "completed"
    unrecorded = Delivery("job")
    store.deaf = True
    assert scheduled(service, unrecorded) == "unrecorded"
    store.deaf = False

    assert deliver(service) == outcome

    record = backend.get(unrecorded.key)
    assert record is not None
    assert record["status"] == "completed"
