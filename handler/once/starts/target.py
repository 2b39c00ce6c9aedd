"""What a starter must know of a target: how to start it, and how to find what was started."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

Json = dict[str, Any]

LABEL_DIGITS = 32
"""A label takes 63 characters; 32 of the token's 64 hex digits still never meet by chance."""


@dataclass(frozen=True)
class Call:
    """A request: the path below the API's base URL, and the query or body."""

    path: str
    query: Mapping[str, str | int]
    body: Json | None = None


@dataclass(frozen=True)
class Target(ABC):
    """Something that a Google API starts.

    Parameters
    ----------
    name
        Full resource name, `projects/P/locations/L/...`.
    """

    api: ClassVar[str]
    """The API's name in ONCE_API_ENDPOINTS."""
    listed: ClassVar[str]
    """The field of a list answer that holds the operations."""
    starting_role: ClassVar[str]
    """What the service's account needs on the target to start it."""
    looking_role: ClassVar[str]
    """What it needs there to find what was started."""

    name: str

    @abstractmethod
    def start(self, token: str) -> Call:
        """Return the request that starts it, with the token where the target can read it."""

    @abstractmethod
    def started(self, answer: Json) -> str | None:
        """Return the operation's name from the answer to a start; None if it does not tell."""

    @abstractmethod
    def look(self, since: datetime) -> Call:
        """Return the request that lists what was started since then."""

    @abstractmethod
    def carries(self, operation: Json, token: str) -> bool:
        """Tell whether a listed operation was started with the token."""


def text_in(found: object, *path: str) -> str | None:
    """Return the text at a path of an answer; None unless all of it is there and is text."""
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) and found else None
