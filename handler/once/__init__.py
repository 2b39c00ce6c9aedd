"""scheduled-once: a delivery that comes at least once takes effect once.

The names here are the whole public surface; importing them loads no web framework, no Google
client, and opens no connection.
"""

from once.errors import permanent, transient
from once.events import Event, on_event, on_message
from once.protocol import Fatal
from once.run import Run, job
from once.tokens import once_per_token

__all__ = [
    "Event",
    "Fatal",
    "Run",
    "job",
    "on_event",
    "on_message",
    "once_per_token",
    "permanent",
    "transient",
]
