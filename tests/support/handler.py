"""The handler as a process: functions-framework under gunicorn, spoken to over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.deliveries import Delivery
from tests.support.faults import PATIENCE_SECONDS, eventually
from tools import tether
from tools.emulators import free_port

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "handler" / "main.py"
_ESTABLISHED = "01"
APP = ROOT / "tests" / "support" / "app.py"


@dataclass(frozen=True)
class Answer:
    """An HTTP answer of the handler."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def outcome(self) -> str | None:
        """The word of the header; the body must say the same."""
        word = self.headers.get("X-Once-Outcome")
        assert word == json.loads(self.text)["outcome"], self
        return word

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body


class Handler:
    """A running handler.

    Parameters
    ----------
    source
        The file that functions-framework serves.
    folder
        Where its log goes, and where it runs.
    env
        Settings, beside what the program needs to start.
    threads
        How many requests it works on at once.
    target
        The function in it.
    """

    def __init__(
        self,
        source: Path,
        folder: Path,
        env: Mapping[str, str],
        *,
        threads: int = 8,
        target: str = "handle",
    ) -> None:
        self.port = free_port()
        self._log_path = folder / f"handler-{self.port}.log"
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
        with self._log_path.open("wb") as log:
            self._process = tether.start(
                [
                    Path(sys.executable).parent / "functions-framework",
                    *("--source", source, "--target", target),
                    *("--host", "127.0.0.1", "--port", str(self.port)),
                ],
                env={
                    **kept,
                    "PYTHONPATH": f"{ROOT}:{ROOT / 'handler'}",
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "THREADS": str(threads),
                    **env,
                },
                cwd=folder,
                output=log,
            )

    def __enter__(self) -> Handler:
        self.wait_until_serving()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_until_serving(self) -> None:
        """Wait until the port is open; gunicorn opens it after the source was loaded."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                ended = self._process.poll() is not None
                assert not ended, f"the handler ended:\n{self.output()}"
                assert time.monotonic() < until, f"the handler does not serve:\n{self.output()}"
                time.sleep(0.02)

    def wait_until_ended(self) -> int:
        """Wait for the end of the process and return its exit status."""
        return self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it as a crash does: SIGKILL to all of it."""
        tether.kill(self._process)

    def terminate(self) -> None:
        """Ask it to stop, as Cloud Run does."""
        tether.send(self._process, signal.SIGTERM)

    def connections(self) -> int:
        """Return how many connections it has taken and not ended, from the kernel's own list."""
        local = f"0100007F:{self.port:04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        # An accepted socket has an inode; one that waits in the backlog has none yet.
        return sum(row[1] == local and row[3] == _ESTABLISHED and row[9] != "0" for row in rows)

    def post(self, delivery: Delivery, *, timeout_seconds: float = PATIENCE_SECONDS) -> Answer:
        """Send a delivery and wait for the answer."""
        return self.request("POST", delivery.headers, delivery.body, timeout_seconds)

    def post_all(self, deliveries: Sequence[Delivery]) -> list[Answer]:
        """Send deliveries at the same moment."""
        with ThreadPoolExecutor(len(deliveries)) as pool:
            return list(pool.map(self.post, deliveries))

    def post_until_over(self, delivery: Delivery) -> list[Answer]:
        """Send a delivery until no other attempt is in progress; return all answers."""
        answers: list[Answer] = []

        def over() -> bool:
            answers.append(self.post(delivery))
            return answers[-1].outcome != "in_progress"

        eventually(over, "the lease is over")
        return answers

    def request(
        self,
        method: str,
        headers: Mapping[str, str | bytes],
        body: bytes = b"",
        timeout_seconds: float = PATIENCE_SECONDS,
    ) -> Answer:
        """Send any request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_seconds)
        try:
            connection.request(method, "/", body, headers)
            response = connection.getresponse()
            text = response.read().decode()
            return Answer(response.status, dict(response.getheaders()), text)
        finally:
            connection.close()

    def output(self) -> str:
        """Return everything that it wrote."""
        return self._log_path.read_text(errors="replace")

    def log(self) -> list[dict[str, Any]]:
        """Return its log lines."""
        return [json.loads(line) for line in self.output().splitlines() if line.startswith("{")]
