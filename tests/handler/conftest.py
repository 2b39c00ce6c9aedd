"""Handlers and stores for the tests of the handler."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from tests.support.backends import FirestoreBackend, SqliteBackend
from tests.support.faults import Script
from tests.support.firestore_proxy import FirestoreProxy
from tests.support.handler import Handler
from tests.support.lab import Lab, Wire
from tests.support.scripted import ScriptServer

BACKENDS = ("sqlite", "firestore")


@pytest.fixture(scope="session", params=BACKENDS)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield a lab on each store in turn."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        yield Lab(SqliteBackend(folder / "runs.db"), folder)
        return
    host = request.getfixturevalue("firestore_host")
    with pytest.MonkeyPatch.context() as patch:
        # In-process stores find the emulator here, as a handler does.
        patch.setenv("FIRESTORE_EMULATOR_HOST", host)
        yield Lab(FirestoreBackend(host), folder)


@pytest.fixture(scope="session")
def handler(lab: Lab) -> Iterator[Handler]:
    """Yield a handler that the tests of one store share: nothing may break it."""
    with lab.handler(threads=16) as handler:
        yield handler


@pytest.fixture(scope="session")
def brief_handler(lab: Lab) -> Iterator[Handler]:
    """Yield a shared handler whose leases are soon over."""
    with lab.handler(settings={"ONCE_LEASE_SECONDS": "2"}) as handler:
        yield handler


@pytest.fixture(scope="session")
def shared_wire(lab: Lab) -> Iterator[Wire]:
    """Yield the wire of one store; tests ask for `wire`, which is clean."""
    script = Script()
    between: AbstractContextManager[FirestoreProxy | ScriptServer]
    # A Unix socket's path has a small limit, and pytest's own folders are deep on some systems.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        if isinstance(lab.backend, FirestoreBackend):
            between = proxy = FirestoreProxy(lab.backend.host, script)
            settings = {"FIRESTORE_EMULATOR_HOST": proxy.host}
        else:
            between = server = ScriptServer(script, f"{folder}/script")
            settings = {"TEST_SCRIPT": server.address}
        with between:
            yield Wire(lab, script, settings)


@pytest.fixture
def wire(shared_wire: Wire) -> Iterator[Wire]:
    """Yield the wire without faults."""
    shared_wire.script.clear()
    yield shared_wire
    shared_wire.script.clear()


@pytest.fixture
def script(wire: Wire) -> Script:
    """Return the script of faults of `wired_handler`."""
    return wire.script


@pytest.fixture(scope="session")
def shared_wired_handler(lab: Lab, shared_wire: Wire) -> Iterator[Handler]:
    """Yield the handler behind `wired_handler`."""
    with lab.handler(threads=16, settings=shared_wire.settings) as handler:
        yield handler


@pytest.fixture
def wired_handler(shared_wired_handler: Handler, script: Script) -> Handler:
    """Return a shared handler whose calls to the store go through the script."""
    return shared_wired_handler
