"""SQLite: the embedded default, durable and safe for several processes on one machine."""

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from once.identity import Key
from once.stores.base import Store, StoreError, Transient
from once.stores.record import TIME_FIELDS, Reading, Record, Version, Versioned

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    collection TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    expire_at_ms INTEGER, document TEXT NOT NULL, PRIMARY KEY (collection, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sequence (
    one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL
);
INSERT OR IGNORE INTO sequence VALUES (1, 0);
"""
# Julian day 2440587.5 is 1970-01-01. `unixepoch('subsec')` would read better, but needs
# SQLite 3.42, which is newer than the one of Debian 12.
_NOW_MS = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
# Primary result codes that no retry changes: https://www.sqlite.org/rescode.html
_PERMANENT = (sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Firestore's TTL deletes within a day or so; here the expired go when a process opens the file,
# a day late so that both behave alike. A claim younger than that stays, whatever its record says.
_PURGE = f"DELETE FROM records WHERE max(expire_at_ms, time_ms) < {_NOW_MS} - 86400000"  # noqa: S608


class SqliteStore(Store):
    """Records in one SQLite file; its clock is that of the machine, as SQLite reads it.

    Parameters
    ----------
    path
        The file; it and its folder are made on first use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._ready = False

    def __str__(self) -> str:
        return f"SQLite file {self._path}"

    def _read(self, key: Key, seconds: float) -> Reading:
        with self._transaction(seconds) as connection:
            now = _now(connection)
            row = connection.execute(
                "SELECT version, time_ms, document FROM records WHERE collection = ? AND id = ?",
                (key.collection, key.id),
            ).fetchone()
            if row is None:
                return Reading(None, now)
            return Reading(Versioned(_decode(row[2]), Version(row[0], _time(row[1]))), now)

    def _create(self, key: Key, record: Record, seconds: float) -> Version | None:
        with self._transaction(seconds) as connection:
            return _write(
                connection,
                "INSERT OR IGNORE INTO records "
                "(version, time_ms, expire_at_ms, document, collection, id) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                record,
                (key.collection, key.id),
            )

    def _replace(
        self, key: Key, record: Record, version: Version, seconds: float
    ) -> Version | None:
        with self._transaction(seconds) as connection:
            return _write(
                connection,
                "UPDATE records SET version = ?, time_ms = ?, expire_at_ms = ?, document = ? "
                "WHERE collection = ? AND id = ? AND version = ?",
                record,
                (key.collection, key.id, version.number),
            )

    def _delete(self, key: Key, version: Version, seconds: float) -> bool:
        with self._transaction(seconds) as connection:
            deleted = connection.execute(
                "DELETE FROM records WHERE collection = ? AND id = ? AND version = ?",
                (key.collection, key.id, version.number),
            )
            return deleted.rowcount == 1

    @contextmanager
    def _transaction(self, seconds: float) -> Iterator[sqlite3.Connection]:
        """Open, lock for writing, commit, close: safe across threads and forks."""
        until = time.monotonic() + seconds
        try:
            self._prepare(until)
            with closing(self._connect(until)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._ready = False  # the file may have been replaced by an empty one
            if error.sqlite_errorcode & 0xFF in _PERMANENT:
                raise StoreError(
                    f"{self}: {error}; this process must be able to write to "
                    "it, to its -wal and -shm files, and to its folder"
                ) from error
            raise Transient(f"{self}: {error}") from error
        except (sqlite3.DatabaseError, OSError) as error:
            raise StoreError(f"{self}: {error}") from error

    def _connect(self, until: float) -> sqlite3.Connection:
        patience = max(0.0, until - time.monotonic())
        connection = sqlite3.connect(self._path, timeout=patience, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")  # a claim must survive a power cut
        return connection

    def _prepare(self, until: float) -> None:
        # Threads that come while another waits for the file must not each wait in turn.
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            raise Transient(f"{self}: another thread still waits for it")
        try:
            if self._ready and self._path.exists():
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect(until)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_SCHEMA)
                connection.execute(_PURGE)
            self._ready = True
        finally:
            self._lock.release()


def _write(
    connection: sqlite3.Connection, sql: str, record: Record, where: tuple[Any, ...]
) -> Version | None:
    """Insert or update with the next version; a refused write leaves the sequence as it was."""
    now = _now(connection)
    (last,) = connection.execute("SELECT version FROM sequence").fetchone()
    values = (last + 1, _ms(now), record.expire_at and _ms(record.expire_at), _encode(record))
    if connection.execute(sql, (*values, *where)).rowcount != 1:
        return None
    connection.execute("UPDATE sequence SET version = ?", (last + 1,))
    return Version(last + 1, now)


def _now(connection: sqlite3.Connection) -> datetime:
    (now_ms,) = connection.execute(f"SELECT {_NOW_MS}").fetchone()
    return _time(now_ms)


def _time(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _encode(record: Record) -> str:
    return json.dumps(record.document(), default=datetime.isoformat)


def _decode(text: str) -> Record:
    document = json.loads(text)
    for name in TIME_FIELDS & document.keys():
        with suppress(TypeError, ValueError):  # as a person wrote it
            document[name] = datetime.fromisoformat(document[name])
    return Record.of(document)
