"""The SQLite store with faults: `ScriptedSqliteStore` in the handler, `ScriptServer` in the test.

The store is the real one; only what happens around each try of a call is told by the test.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TypeVar

from once.identity import Key
from once.stores import Reading, Record, StoreError, Version
from once.stores.base import Transient
from once.stores.sqlite import SqliteStore

from tests.support.faults import Dropped, Fault, Script, Step

T = TypeVar("T")


class ScriptedSqliteStore(SqliteStore):
    """The SQLite store, which asks the test before and after each try.

    Parameters
    ----------
    path
        The database file.
    script
        The address of the test's `ScriptServer`.
    """

    def __init__(self, path: Path, script: str) -> None:
        super().__init__(path)
        self._script = script

    def _read(self, key: Key, seconds: float) -> Reading:
        return self._play(Step.READ, key, seconds, lambda: SqliteStore._read(self, key, 4))

    def _create(self, key: Key, record: Record, seconds: float) -> Version | None:
        step = Step.FINISH if record.ended else Step.CLAIM
        return self._play(step, key, seconds, lambda: SqliteStore._create(self, key, record, 4))

    def _replace(
        self, key: Key, record: Record, version: Version, seconds: float
    ) -> Version | None:
        step = Step.FINISH if record.ended else Step.TAKEOVER
        return self._play(
            step, key, seconds, lambda: SqliteStore._replace(self, key, record, version, 4)
        )

    def _delete(self, key: Key, version: Version, seconds: float) -> bool:
        return self._play(
            Step.RELEASE, key, seconds, lambda: SqliteStore._delete(self, key, version, 4)
        )

    def _play(self, step: Step, key: Key, seconds: float, apply: Callable[[], T]) -> T:
        begun = time.monotonic()

        def hang() -> None:
            time.sleep(max(0.0, begun + seconds - time.monotonic()))

        connection = Client(self._script, "AF_UNIX")
        connection.send((step, key.id))
        fault = connection.recv()
        if fault is Fault.LATE:
            threading.Thread(target=_apply_late, args=(connection, apply), daemon=True).start()
            hang()
            raise Transient("no answer, says the script")
        with connection:
            match fault:
                case Fault.REFUSE:
                    raise Transient("refused by the script")
                case Fault.DENY:
                    raise StoreError("denied by the script")
                case Fault.HANG:
                    hang()
                    raise Transient("no answer, says the script")
                case Fault.STOP_BEFORE:
                    _stand(connection)
            answer = apply()
            match fault:
                case Fault.LOSE:
                    raise Transient("the answer was lost by the script")
                case Fault.LOSE_HANG:
                    hang()
                    raise Transient("no answer, says the script")
                case Fault.STOP_AFTER:
                    _stand(connection)
            return answer


def _stand(connection: Connection) -> None:
    connection.send("hold")
    if connection.recv() != "go":
        raise Transient("dropped by the script")


def _apply_late(connection: Connection, apply: Callable[[], object]) -> None:
    with connection:
        connection.send("late")
        connection.recv()
        with suppress(Transient, StoreError):
            apply()
        connection.send("applied")


class ScriptServer:
    """Answers the stores of handler processes out of a `Script`.

    Parameters
    ----------
    script
        What goes wrong.
    address
        Where to listen: a path for a Unix socket, short enough for one.
    """

    def __init__(self, script: Script, address: str) -> None:
        self.script = script
        self.address = address
        self._listener = Listener(address, "AF_UNIX", backlog=128)
        self._closing = False

    def __enter__(self) -> ScriptServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.script.clear()
        self._closing = True
        with suppress(OSError):
            Client(self.address, "AF_UNIX").close()  # wakes the accepting thread
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection, suppress(EOFError, OSError):
            connection.send(self.script.take(*connection.recv()))
            while True:
                match connection.recv():
                    case "hold":
                        try:
                            self.script.hold()
                        except Dropped:
                            connection.send("drop")
                        else:
                            connection.send("go")
                    case "late":
                        self.script.hold_late()
                        connection.send("go")
                        try:
                            connection.recv()
                        finally:
                            self.script.late_applied()
