"""The headers of a request, whose case does not matter."""

from collections.abc import Mapping


class Folded(dict[str, str]):
    """Headers by their names in lower case."""


def folded(headers: Mapping[str, str]) -> Folded:
    """Return headers by their names in lower case; what was folded before is returned as it is."""
    if isinstance(headers, Folded):
        return headers
    return Folded((name.lower(), _text(value)) for name, value in headers.items())


def _text(value: str) -> str:
    """Undo WSGI's latin-1 reading of a header that was sent as UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        return value.strip()
