"""Google's own emulators of Firestore and Pub/Sub, from the installed Google Cloud CLI."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools import tether
from tools.cache import ToolError

_START_SECONDS = 60
"""A JVM on a busy machine; seen: 2 to 6 s."""

_SILENT = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class _Emulator:
    """What is to know of one.

    Parameters
    ----------
    name
        The service that it stands for.
    variable
        The environment variable that names a running one.
    component
        Its name in the Google Cloud CLI.
    jar, main
        Where its jar stands in there, as a pattern, and what starts it.
    data
        Read until it answers, and not ``/``: the first call that touches data makes the JVM load,
        for a second or more, what all later ones use, and nobody should be given one before.
    """

    name: str
    variable: str
    component: str
    jar: str
    main: Sequence[str]
    data: str


_FIRESTORE = _Emulator(
    "Firestore",
    "FIRESTORE_EMULATOR_HOST",
    "cloud-firestore-emulator",
    "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar",
    ("com.google.cloud.datastore.emulator.firestore.CloudFirestore", "start"),
    "/v1/projects/warm-up/databases/(default)/documents/none/none",
)
_PUBSUB = _Emulator(
    "Pub/Sub",
    "PUBSUB_EMULATOR_HOST",
    "pubsub-emulator",
    "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*.jar",
    ("com.google.cloud.pubsub.testing.v1.Main",),
    "/v1/projects/warm-up/topics",
)


@contextmanager
def firestore_emulator() -> Iterator[str]:
    """Bring a Firestore emulator.

    Yields
    ------
    str
        ``host:port``, the value for ``FIRESTORE_EMULATOR_HOST``: what that variable says already,
        or else an emulator of our own, which ends with the block or with this process. It has
        answered a call already.

    Raises
    ------
    ToolError
        Without either; the message says how to get one, or which one does not answer.
    """
    with _running(_FIRESTORE) as host:
        yield host


@contextmanager
def pubsub_emulator() -> Iterator[str]:
    """Bring a Pub/Sub emulator, as `firestore_emulator` does.

    Yields
    ------
    str
        ``host:port``, the value for ``PUBSUB_EMULATOR_HOST``.

    Raises
    ------
    ToolError
        Without either; the message says how to get one, or which one does not answer.
    """
    with _running(_PUBSUB) as host:
        yield host


@contextmanager
def _running(emulator: _Emulator) -> Iterator[str]:
    variable, component = emulator.variable, emulator.component
    if host := os.environ.get(variable):
        try:
            _ask(emulator, host)
        except _SILENT as error:
            raise ToolError(
                f"the {emulator.name} emulator at {host} does not answer: {error}"
            ) from error
        yield host
        return
    java, found = shutil.which("java"), _jar(emulator.jar)
    if java is None or found is None:
        raise ToolError(
            f"needs Java and the {component} of the Google Cloud CLI "
            f"({'no Java' if java is None else 'no emulator'} is installed): "
            f"https://cloud.google.com/sdk/docs/install, then "
            f"`gcloud components install {component}` (Debian: apt-get install default-jre "
            f"google-cloud-cli-{component.removeprefix('cloud-')}); "
            f"or set {variable} to the HOST:PORT of one that runs"
        )
    # Another process may take the port between its choice and the emulator's start.
    for _ in range(3):
        port = free_port()
        # The jar and not the CLI's script: that script stays in front of the JVM as a shell.
        command = [java, "-Duser.language=en", "-cp", str(found), *emulator.main]
        with tether.running([*command, "--host=127.0.0.1", f"--port={port}"]) as process:
            host = f"127.0.0.1:{port}"
            if _answers(process, emulator, host):
                yield host
                return
    raise ToolError(f"the {component} ended at its start three times; try by hand: {command}")


def free_port() -> int:
    """Return a port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _jar(pattern: str) -> Path | None:
    gcloud = shutil.which("gcloud")
    return next(Path(gcloud).resolve().parents[1].glob(pattern), None) if gcloud else None


def _answers(process: subprocess.Popen[bytes], emulator: _Emulator, host: str) -> bool:
    """Wait until the emulator answers; False where it ended instead."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            return False
        try:
            _ask(emulator, host)
        except _SILENT:
            time.sleep(0.1)
        else:
            return True
    return False


def _ask(emulator: _Emulator, host: str) -> None:
    """Read something; that nothing is there is an answer too."""
    connection = http.client.HTTPConnection(host, timeout=_START_SECONDS)
    try:
        connection.request("GET", emulator.data)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status not in (http.client.OK, http.client.NOT_FOUND):
        raise http.client.HTTPException(f"HTTP {status}")
