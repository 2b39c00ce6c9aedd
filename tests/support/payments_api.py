"""A payments API that honours idempotency keys: the answer to a key is kept and given again."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tools.serving import serving


class PaymentsApi:
    """A server on loopback.

    Attributes
    ----------
    charged
        The amounts that were charged, by order.
    keys
        How often each idempotency key came.
    after_charge
        Called between a charge and its answer; True cuts the connection.
    busy
        How many of the next requests are answered 503 and charge nothing.
    """

    def __init__(self) -> None:
        self.charged: dict[str, list[int]] = {}
        self.keys: Counter[str] = Counter()
        self.after_charge: Callable[[], bool] = lambda: False
        self.busy = 0
        self._answers: dict[str, tuple[int, dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._open = ExitStack()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> PaymentsApi:
        self._open.enter_context(serving(self._server))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _charge(self, key: str, charge: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.keys[key] += 1
            if self.busy:
                self.busy -= 1
                return 503, {"error": "busy"}
            if key in self._answers:
                return self._answers[key]
            if charge["cents"] > 100_000:
                answer: tuple[int, dict[str, Any]] = 402, {"error": "card refused"}
            else:
                self.charged.setdefault(charge["order"], []).append(charge["cents"])
                answer = 201, {"charge": f"ch_{len(self._answers)}"}
            self._answers[key] = answer
            return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = api._charge(self.headers["Idempotency-Key"], json.loads(body))
                if api.after_charge():
                    return  # without an answer: the connection closes
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
