"""Sessions for Google's REST APIs, with credentials where the connection is encrypted."""

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import requests


def session(base_url: str, scope: str) -> "requests.Session":
    """Return a session for an API; what it loads is loaded on first use.

    Parameters
    ----------
    base_url
        `https://...`, or `http://...` of a stand-in or an emulator, which gets no credentials.
    scope
        What the credentials are for.

    Raises
    ------
    google.auth.exceptions.GoogleAuthError
        If there are no credentials.
    """
    import requests
    from google.auth.transport.requests import AuthorizedSession

    if urlsplit(base_url).scheme == "https":
        return AuthorizedSession(_credentials(scope))  # type: ignore[no-untyped-call]
    plain = requests.Session()
    plain.trust_env = False  # no proxy between two ends of one machine
    return plain


@cache
def _credentials(scope: str) -> Any:
    import google.auth

    credentials, _ = google.auth.default(scopes=[scope])
    return credentials
