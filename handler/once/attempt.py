"""What every author's function is told of its attempt, whatever was delivered."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from once.protocol import Claim


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt that has won its claim."""

    _claim: Claim = field(repr=False, compare=False)

    @property
    def run_id(self) -> str:
        """64 hex digits, the same for every attempt: the idempotency token to hand downstream."""
        return self._claim.key.id

    @property
    def attempt_id(self) -> str:
        """Names this attempt."""
        return self._claim.attempt_id

    @property
    def fence(self) -> int:
        """Grows with every claim of the same run, event or token.

        A downstream that remembers the highest fence can refuse an attempt whose lease was taken
        over.
        """
        return self._claim.fence

    @property
    def deadline(self) -> datetime:
        """When the lease ends: aware, UTC, by this machine's clock."""
        return self._claim.deadline

    def remaining(self) -> timedelta:
        """Return the time left until the deadline, by the monotonic clock; negative when over."""
        return self._claim.remaining()
