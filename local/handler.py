"""The handler's processes: started, looked after and ended as Cloud Run would do it."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from infra import contract
from local.ledger import FOLDER
from local.scale import Scale
from local.stack import Service
from tools import tether
from tools.emulators import free_port

_SOURCE = Path(__file__).with_name("instrumented.py")
_START_SECONDS = 60
"""Cloud Run's start-up probe would wait longer; a busy machine takes a few seconds."""

_DEATH_SECONDS = 5
"""The kernel breaks a killed process's connections before its parent hears of its end."""


class HandlerError(Exception):
    """The handler does not start; the message has the end of its log."""


class Instance:
    """One container of a service.

    Parameters
    ----------
    label
        What people call it.
    folder
        Where its log goes, and what the local stack keeps.
    env
        The whole environment.
    """

    def __init__(self, label: str, folder: Path, env: Mapping[str, str]) -> None:
        self.label = label
        self._log = folder / f"{label.replace(' ', '-')}.log"
        self._env = env
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._closed = False

    def address(self) -> tuple[str, int]:
        """Return where it listens; it is started first if it is not running.

        Raises
        ------
        HandlerError
            If it does not start.
        """
        with self._lock:
            if self._closed:
                raise HandlerError("the local stack is closing")
            if self._process is None or self._process.poll() is not None:
                self._start()
            return "127.0.0.1", self._port

    def died(self) -> bool:
        """Say whether it has ended; one that was killed a moment ago has."""
        process = self._process
        if process is None:
            return False
        with suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_SECONDS)
        return process.poll() is not None

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._closed = True
        if self._process is not None:
            tether.kill(self._process)

    def _start(self) -> None:
        for _ in range(3):  # a port may be taken between its choice and its use
            self._port = free_port()
            begin = self._log.stat().st_size if self._log.exists() else 0
            with self._log.open("ab") as log:
                self._process = tether.start(
                    [
                        Path(sys.executable).with_name("functions-framework"),
                        f"--source={_SOURCE}",
                        "--target=handle",
                        "--host=127.0.0.1",
                        f"--port={self._port}",
                    ],
                    env=self._env,
                    output=log,
                )
            if self._listens(self._process):
                return
            tether.kill(self._process)
            said = self._log.read_bytes()[begin:].decode(errors="replace").strip()
            if "in use" not in said:
                break
        end = "\n".join(f"    {line}" for line in said.splitlines()[-12:])
        raise HandlerError(f"the handler does not start; it says, in {self._log}:\n{end}")

    def _listens(self, process: subprocess.Popen[bytes]) -> bool:
        until = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return True
        return False


def environment(
    service: Service, scale: Scale, folder: Path, replaced: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a service's instances on this machine.

    The stack's own variables stand, so that one which is missing there is missing here too. Only
    the values that cannot be the same are replaced.

    Parameters
    ----------
    folder
        Where the ledger and the jobs' files go.
    replaced
        Values for variables of the stack that are other ones here; the lease is scaled anyway.
    """
    lease = str(scale.lease_seconds)
    here = {contract.LEASE_SECONDS: lease, contract.EVENT_LEASE_SECONDS: lease, **replaced}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("ONCE_")},
        **service.env,
        **{name: value for name, value in here.items() if name in service.env},
        "K_SERVICE": service.full_name,
        "WORK_DIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        FOLDER: str(folder),
    }
