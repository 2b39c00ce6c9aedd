"""scheduled-once: a delivery that comes at least once takes effect once.

The names here are the whole public surface; importing them loads no web framework, no Google
client, and opens no connection.
"""

from once.protocol import Fatal
from once.run import Run, job

__all__ = ["Fatal", "Run", "job"]
