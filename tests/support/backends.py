"""The two stores as tests see them: settings for a process, a store, and the records by hand."""

from __future__ import annotations

import json
import sqlite3
import uuid
from abc import ABC, abstractmethod
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from google.cloud import firestore
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from once.identity import Key
from once.stores import Store, open_store


class Backend(ABC):
    """A store that the tests own.

    Parameters
    ----------
    url
        The value of ONCE_STORE.
    """

    name: str

    def __init__(self, url: str) -> None:
        self.url = url

    def store(self) -> Store:
        """Return a new store on it, as a new process would have."""
        return open_store(self.url)

    def env(self) -> dict[str, str]:
        """Return the settings of a handler process."""
        return {"ONCE_STORE": self.url}

    @abstractmethod
    def get(self, key: Key) -> dict[str, Any] | None:
        """Return the document, or None."""

    @abstractmethod
    def put(self, key: Key, document: dict[str, Any]) -> None:
        """Write a document by hand, whatever stands there."""

    @abstractmethod
    def delete(self, key: Key) -> None:
        """Delete a document by hand."""


class SqliteBackend(Backend):
    """SQLite.

    Parameters
    ----------
    path
        The database file.
    """

    name = "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.path = path

    def env(self) -> dict[str, str]:
        return {**super().env(), "TEST_SQLITE": str(self.path)}

    def get(self, key: Key) -> dict[str, Any] | None:
        with closing(self._connect()) as connection:
            row = connection.execute(
                "SELECT document FROM records WHERE collection = ? AND id = ?",
                (key.collection, key.id),
            ).fetchone()
        if row is None:
            return None
        document: dict[str, Any] = json.loads(row[0])
        for name, value in document.items():
            if isinstance(value, str) and name.endswith(("_at", "_time", "_expires")):
                document[name] = datetime.fromisoformat(value)
        return document

    def put(self, key: Key, document: dict[str, Any]) -> None:
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        text = json.dumps(document, default=datetime.isoformat)
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE sequence SET version = version + 1")
            connection.execute(
                "INSERT OR REPLACE INTO records (collection, id, version, time_ms, document) "
                "SELECT ?, ?, version, ?, ? FROM sequence",
                (key.collection, key.id, now_ms, text),
            )
            connection.execute("COMMIT")

    def delete(self, key: Key) -> None:
        with closing(self._connect()) as connection:
            connection.execute(
                "DELETE FROM records WHERE collection = ? AND id = ?", (key.collection, key.id)
            )

    def _connect(self) -> sqlite3.Connection:
        # A read of the store itself makes the file and its tables.
        self.store().read(Key("run", ("made",)), float("inf"))
        return sqlite3.connect(self.path, timeout=30, isolation_level=None)


class FirestoreBackend(Backend):
    """Firestore, on an emulator.

    Parameters
    ----------
    host
        The emulator's host:port.
    """

    name = "firestore"

    def __init__(self, host: str) -> None:
        project = f"test-{uuid.uuid4().hex[:12]}"
        super().__init__(f"firestore://{project}/runs")
        self.host = host
        # A channel of its own: the tests' look at the records must not pass any fault.
        self._client = firestore.Client(project=project, database="runs")
        self._client._firestore_api_internal = FirestoreClient(
            transport=FirestoreGrpcTransport(channel=grpc.insecure_channel(host))
        )

    def env(self) -> dict[str, str]:
        return {**super().env(), "FIRESTORE_EMULATOR_HOST": self.host}

    def get(self, key: Key) -> dict[str, Any] | None:
        document: dict[str, Any] | None = self._document(key).get().to_dict()
        return document

    def put(self, key: Key, document: dict[str, Any]) -> None:
        self._document(key).set(document)

    def delete(self, key: Key) -> None:
        self._document(key).delete()

    def _document(self, key: Key) -> firestore.DocumentReference:
        return self._client.collection(key.collection).document(key.id)
