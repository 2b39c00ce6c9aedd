"""Handlers, stores and a Pub/Sub emulator for the tests of events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.pubsub import PubSub
from tests.support.backends import FirestoreBackend, SqliteBackend
from tests.support.handler import ROOT, Handler
from tests.support.lab import Lab
from tools.cache import ToolError
from tools.emulators import pubsub_emulator

APP = ROOT / "tests" / "support" / "event_app.py"


@pytest.fixture(scope="session", params=("sqlite", "firestore"))
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield a lab on each store in turn."""
    folder = tmp_path_factory.mktemp(f"events-{request.param}")
    if request.param == "sqlite":
        yield Lab(SqliteBackend(folder / "runs.db"), folder)
        return
    host = request.getfixturevalue("firestore_host")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRESTORE_EMULATOR_HOST", host)  # or the client looks for credentials
        yield Lab(FirestoreBackend(host), folder)


@pytest.fixture(scope="session")
def handler(lab: Lab) -> Iterator[Handler]:
    """Yield a handler that the tests of one store share: nothing may break it."""
    with lab.handler(threads=16, source=APP, settings={"ONCE_EVENT_LEASE_SECONDS": "4"}) as handler:
        yield handler


@pytest.fixture(scope="session")
def brief_handler(lab: Lab) -> Iterator[Handler]:
    """Yield a shared handler whose event leases are soon over, and its run leases are not."""
    with lab.handler(source=APP, settings={"ONCE_EVENT_LEASE_SECONDS": "2"}) as handler:
        yield handler


@pytest.fixture(scope="session")
def pubsub_host() -> Iterator[str]:
    """Yield host:port of a Pub/Sub emulator; without one the whole test run stops and fails."""
    try:
        with pubsub_emulator() as host:
            yield host
    except ToolError as error:
        pytest.exit(f"the tests need a Pub/Sub emulator: {error}", returncode=3)


@pytest.fixture(scope="session")
def pubsub(pubsub_host: str) -> Iterator[PubSub]:
    """Yield the emulator with nothing in it."""
    with PubSub(pubsub_host) as pubsub:
        yield pubsub
