"""Which errors pass by themselves and which never do: one table, for whoever wants it.

Nothing here acts on its own. An error that a function raises is retried unless it is `Fatal` or a
rule of the function says otherwise; `transient` and `permanent` are two such rules.
"""

from typing import Literal

Nature = Literal["transient", "permanent"]

# By name, so that none of these packages has to be there.
_CLASSES: dict[str, Nature] = {
    # The network and its deadlines.
    "builtins.ConnectionError": "transient",
    "builtins.TimeoutError": "transient",
    "socket.gaierror": "transient",
    "http.client.HTTPException": "transient",
    "urllib.error.URLError": "transient",
    "urllib3.exceptions.HTTPError": "transient",
    "requests.exceptions.ConnectionError": "transient",
    "requests.exceptions.Timeout": "transient",
    "requests.exceptions.ChunkedEncodingError": "transient",
    "httpx.TransportError": "transient",
    "google.auth.exceptions.TransportError": "transient",
    "google.api_core.exceptions.RetryError": "transient",
    "google.api_core.exceptions.Aborted": "transient",  # a 409 that asks for another try
    # Validation and permission. pydantic's and json's errors are ValueErrors.
    "builtins.ValueError": "permanent",
    "builtins.TypeError": "permanent",
    "builtins.LookupError": "permanent",
    "builtins.PermissionError": "permanent",
}
# Of the statuses below 500, these ask for another try: Request Timeout, Too Early,
# Too Many Requests.
_TRANSIENT_STATUSES = frozenset({408, 425, 429})

# Where errors of HTTP clients keep the status: google.api_core and urllib.error; googleapiclient
# and aiohttp; requests and httpx.
_STATUS_ATTRIBUTES = ("code", "status_code", "status")
_RESPONSE_ATTRIBUTES = ("response", "resp")


class ErrorRule:
    """Says whether an error is of one nature; call it with the error.

    Google's clients, googleapiclient, requests, urllib and httpx are known: of an error with an
    HTTP status, 408, 425, 429 and 5xx are transient, the other 4xx are permanent.
    """

    def __init__(self, nature: Nature) -> None:
        self._nature = nature

    def __call__(self, error: BaseException) -> bool:
        return nature(error) == self._nature

    def add(self, *classes: type[BaseException]) -> None:
        """Add classes to the table, with all that derive from them."""
        for each in classes:
            _CLASSES[_name(each)] = self._nature


transient = ErrorRule("transient")
"""True of an error that may pass by itself."""

permanent = ErrorRule("permanent")
"""True of an error that another try will meet again."""


def nature(error: BaseException) -> Nature | None:
    """Look an error up: its own class, then its HTTP status, then the classes it derives from."""
    names = [_name(each) for each in type(error).__mro__]
    if names[0] in _CLASSES:
        return _CLASSES[names[0]]
    status = _status(error)
    if status is not None:
        return "transient" if status >= 500 or status in _TRANSIENT_STATUSES else "permanent"
    return next((_CLASSES[name] for name in names if name in _CLASSES), None)


def _status(error: BaseException) -> int | None:
    holders = [error, *(getattr(error, name, None) for name in _RESPONSE_ATTRIBUTES)]
    for holder in holders:
        for name in _STATUS_ATTRIBUTES:
            status = getattr(holder, name, None)
            if isinstance(status, int) and 400 <= status < 600:
                return int(status)
    return None


def _name(of: type) -> str:
    return f"{of.__module__}.{of.__qualname__}"
