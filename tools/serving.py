"""Serving on this machine while a `with` block lasts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer

_POLL_SECONDS = 0.05
"""How long the end may take; the library's own half second adds up over many tests."""


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Let a server answer from a thread of its own, then close it."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
