"""A call that brings its own idempotency token."""

from dataclasses import dataclass
from datetime import datetime

from once.identity.key import Delivery, Key


@dataclass(frozen=True)
class TokenDelivery(Delivery):
    """One call of a function for a token."""

    function: str
    token: str

    @property
    def name(self) -> str:
        return self.function

    @property
    def due(self) -> None:
        return None

    def key(self, now: datetime) -> Key:
        return Key("token", (self.function, self.token))

    def about(self) -> dict[str, str | datetime]:
        return {"function": self.function, "token": self.token}
