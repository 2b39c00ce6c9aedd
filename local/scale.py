"""Time, made shorter: a lease of minutes must end while somebody watches."""

import math
import os
import time
from dataclasses import dataclass
from datetime import timedelta

USUAL_SPEED = 60.0
"""A minute passes in a second."""

_SHORTEST_LEASE_SECONDS = 6
"""A margin of about a second is left of it, for what is not scaled: processes and stores."""

_SLOWEST = 4.0
"""How much slower a busy machine is played, at most: a minute must suffice."""


@dataclass(frozen=True)
class Scale:
    """How the durations of one service are played.

    Attributes
    ----------
    factor
        So many seconds of production pass in one second here.
    lease_seconds
        The lease here: whole seconds, as the handler's setting takes them.
    """

    factor: float
    lease_seconds: int

    def seconds(self, duration: timedelta) -> float:
        """Return how many seconds a duration lasts here."""
        return duration.total_seconds() / self.factor


def scale(lease: timedelta, speed: float) -> Scale:
    """Choose the scale of a service.

    Parameters
    ----------
    lease
        The service's lease.
    speed
        How many times faster it is to be played; less where the lease would become too short.
    """
    here = max(_SHORTEST_LEASE_SECONDS, math.ceil(lease.total_seconds() / speed))
    return Scale(lease.total_seconds() / here, here)


class Stopwatch:
    """Tells how busy this machine is, from how much longer than its own CPU time work takes."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def speed(self) -> float:
        """Return how much faster than production this machine can be trusted to play."""
        wall, cpu = time.monotonic() - self._wall, time.process_time() - self._cpu
        # The average of a minute: half of it, since what it tells of may be over.
        load = os.getloadavg()[0] / (os.cpu_count() or 1) / 2
        return USUAL_SPEED / min(max(1.0, wall / cpu, load), _SLOWEST)
