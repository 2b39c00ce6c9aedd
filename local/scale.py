"""Time, made shorter: a lease of minutes must end while somebody watches."""

import math
from dataclasses import dataclass
from datetime import timedelta

SHORTEST_LEASE_SECONDS = 6
"""A margin of about a second is left of it, which a busy machine needs."""


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
    here = max(SHORTEST_LEASE_SECONDS, math.ceil(lease.total_seconds() / speed))
    return Scale(lease.total_seconds() / here, here)
