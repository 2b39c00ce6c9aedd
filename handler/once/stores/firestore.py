"""Firestore, through the synchronous client of google-cloud-firestore."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import google.auth
import google.auth.exceptions
import grpc
from google.api_core import exceptions
from google.cloud import firestore
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport

from once.identity import Key
from once.stores.base import CALL_SECONDS, Store, StoreError, Transient
from once.stores.record import Reading, Record, Version, Versioned

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The stock channel waits up to 120 s before it tries a refused connection again, and shares that
# wait with every channel to the same address.
_CHANNEL_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Despite its name: how long a connection may take to be set up.
    ("grpc.min_reconnect_backoff_ms", round(CALL_SECONDS * 1_000)),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 30_000),
]

# What may work on the next try. The write may have been applied; the protocol finds out.
_TRANSIENT = (
    exceptions.Aborted,
    exceptions.Cancelled,
    exceptions.DeadlineExceeded,
    exceptions.InternalServerError,
    exceptions.ResourceExhausted,
    exceptions.ServiceUnavailable,
    exceptions.Unknown,
    google.auth.exceptions.RefreshError,
    google.auth.exceptions.TransportError,
)


class FirestoreStore(Store):
    """Records in a Firestore database; the version is the commit time in microseconds.

    Parameters
    ----------
    project, database
        The project id and the database id.
    """

    def __init__(self, project: str, database: str) -> None:
        self._project = project
        self._database = database
        self._lock = threading.Lock()
        self._client: firestore.Client | None = None

    def __str__(self) -> str:
        return f"Firestore projects/{self._project}/databases/{self._database}"

    def _read(self, key: Key, seconds: float) -> Reading:
        with self._errors():
            snapshot = self._document(key).get(retry=None, timeout=seconds)
            if snapshot.read_time is None:
                raise Transient("the read ended without an answer")
        time = _datetime(_microseconds(snapshot.read_time))
        fields = snapshot.to_dict()
        if fields is None:
            return Reading(None, time)
        return Reading(Versioned(Record.of(fields), _version(snapshot.update_time)), time)

    def _create(self, key: Key, record: Record, seconds: float) -> Version | None:
        with self._errors():
            try:
                written = self._document(key).create(record.document(), retry=None, timeout=seconds)
            except exceptions.AlreadyExists:
                return None
        return _version(written.update_time)

    def _replace(
        self, key: Key, record: Record, version: Version, seconds: float
    ) -> Version | None:
        with self._errors():
            try:
                written = self._document(key).update(
                    record.document(), _if_still(version), retry=None, timeout=seconds
                )
            except (exceptions.FailedPrecondition, exceptions.NotFound):
                return None
        return _version(written.update_time)

    def _delete(self, key: Key, version: Version, seconds: float) -> bool:
        with self._errors():
            try:
                self._document(key).delete(_if_still(version), retry=None, timeout=seconds)
            except (exceptions.FailedPrecondition, exceptions.NotFound):
                return False
        return True

    def _document(self, key: Key) -> firestore.DocumentReference:
        with self._lock:
            if self._client is None:
                self._client = _connect(self._project, self._database)
            return self._client.collection(key.collection).document(key.id)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Sort the client's errors into what may work on the next try and what will not."""
        try:
            yield
        except _TRANSIENT as error:
            if isinstance(error, exceptions.DeadlineExceeded):
                # The connection may be a dead one that swallows what it is given. The next try
                # makes a new one; calls of other threads end on the old one undisturbed.
                self._client = None
            raise Transient(f"Firestore: {error}") from error
        except exceptions.PermissionDenied as error:
            raise StoreError(
                f"{self} refused: {error}; the service account needs roles/datastore.user on it"
            ) from error
        except (exceptions.GoogleAPIError, google.auth.exceptions.GoogleAuthError) as error:
            raise StoreError(f"{self}: {error}") from error


def _connect(project: str, database: str) -> firestore.Client:
    """Build the client on a channel of our own; nothing is sent yet."""
    if emulator := os.environ.get("FIRESTORE_EMULATOR_HOST"):
        client = firestore.Client(project=project, database=database)
        channel = grpc.insecure_channel(emulator, options=_CHANNEL_OPTIONS)
    else:
        credentials, _ = google.auth.default(scopes=firestore.Client.SCOPE)
        client = firestore.Client(project=project, database=database, credentials=credentials)
        channel = FirestoreGrpcTransport.create_channel(
            FirestoreClient.DEFAULT_ENDPOINT, credentials=credentials, options=_CHANNEL_OPTIONS
        )
    # The client has no public way to be given a channel; this attribute is where it keeps the one
    # that it would make itself, and the emulator tests fail if it moves.
    client._firestore_api_internal = FirestoreClient(
        transport=FirestoreGrpcTransport(channel=channel)
    )
    return client


def _if_still(version: Version) -> firestore.LastUpdateOption:
    return firestore.LastUpdateOption(_EPOCH + timedelta(microseconds=version.number))


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _datetime(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _version(update_time: Any) -> Version:
    """Read the update time: annotated as a Timestamp, in truth a datetime."""
    microseconds = _microseconds(update_time)
    return Version(microseconds, _datetime(microseconds))
