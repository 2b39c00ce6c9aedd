"""A TCP relay that can be slow, refuse connections, swallow what it is given, and come back."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress


class TcpProxy:
    """Relays connections to a server.

    Parameters
    ----------
    upstream
        host:port of the server.
    set_up_seconds
        How long a new connection waits before anything is passed on.
    """

    def __init__(self, upstream: str, set_up_seconds: float = 0) -> None:
        host, port = upstream.rsplit(":", 1)
        self._upstream = (host, int(port))
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._swallowing = False
        self._set_up_seconds = set_up_seconds
        self._listener = _listen(0)
        self._port = self._listener.getsockname()[1]
        self.host = f"127.0.0.1:{self._port}"
        self.connections = 0
        """How many were accepted so far."""

    def __enter__(self) -> TcpProxy:
        self._serve()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()

    def refuse(self) -> None:
        """Close every connection, and refuse new ones."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.close()

    def swallow(self) -> None:
        """Accept connections and bytes, and pass nothing on; what is open now stays dead."""
        with self._lock:
            self._swallowing = True
            for pair in self._pairs:
                pair.dead = True

    def come_back(self) -> None:
        """Relay again, on the same port."""
        with self._lock:
            self._swallowing = False
        if self._listener.fileno() == -1:
            self._listener = _listen(self._port)
            self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            time.sleep(self._set_up_seconds)
            server = socket.create_connection(self._upstream)
            with self._lock:
                self.connections += 1
                pair = _Pair(client, server, dead=self._swallowing)
                self._pairs.append(pair)
            pair.start()


class _Pair:
    def __init__(self, client: socket.socket, server: socket.socket, *, dead: bool) -> None:
        self._sockets = (client, server)
        self.dead = dead

    def start(self) -> None:
        client, server = self._sockets
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.dead:
                    target.sendall(data)
        if not self.dead:
            self.close()

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener
