"""One call to a Google API, and what its answer says about whether it took effect."""

from typing import TYPE_CHECKING

from once import rest
from once.starts.target import Call, Json

if TYPE_CHECKING:
    import requests

CONNECT_SECONDS = 5.0

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
# Request Timeout and Client Closed Request: somebody stopped waiting, the work may go on.
_GAVE_UP = (408, 499)
_SHOWN_CHARACTERS = 300


class NotSent(Exception):
    """The request did not leave: no credentials, or no connection."""


class Refused(Exception):
    """The API says that it did not do it.

    Attributes
    ----------
    status
        The HTTP status, 400 to 499.
    reason
        The canonical code of the answer (`FAILED_PRECONDITION`), or nothing.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"HTTP {status} {reason}: {message}".replace(" :", ":"))
        self.status = status
        self.reason = reason


class Lost(Exception):
    """The request left, and no readable answer came: it may have taken effect or still may."""


class Api:
    """A Google API over REST.

    Each call opens a connection of its own. A kept one may have been closed by the other side
    between two runs, and a start that fails on it would look like one whose answer was lost.

    Parameters
    ----------
    base_url
        `https://...` with Google's credentials, or `http://...` on loopback without any.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")

    def send(self, call: Call, seconds: float) -> Json:
        """Send a request and return the answer's JSON object.

        Parameters
        ----------
        call
            With a body it is a POST, else a GET.
        seconds
            How long to wait for the answer once the connection stands.

        Raises
        ------
        NotSent, Refused, Lost
            Nothing else: what is not understood is Lost.
        """
        # Imported here: a handler that starts nothing does not load them.
        import requests
        from google.auth.exceptions import GoogleAuthError
        from urllib3.exceptions import MaxRetryError, NewConnectionError

        try:
            with rest.session(self._base_url, _SCOPE) as session:
                response = session.request(
                    "GET" if call.body is None else "POST",
                    f"{self._base_url}/{call.path}",
                    params=dict(call.query),
                    json=call.body,
                    timeout=(CONNECT_SECONDS, seconds),
                    allow_redirects=False,
                )
        except requests.ConnectTimeout as error:
            raise NotSent(f"no connection within {CONNECT_SECONDS:.0f} s: {error}") from error
        except requests.ConnectionError as error:
            cause = error.args[0] if error.args else None
            if isinstance(cause, MaxRetryError) and isinstance(cause.reason, NewConnectionError):
                raise NotSent(str(error)) from error
            raise Lost(f"the connection broke: {error}") from error
        except GoogleAuthError as error:  # before the request, or after a 401
            raise NotSent(f"no credentials: {error}") from error
        except Exception as error:
            raise Lost(f"{type(error).__name__}: {error}") from error
        return _read(response)


def _read(response: "requests.Response") -> Json:
    try:
        body = response.json()
    except ValueError:
        body = None
    status = response.status_code
    if 200 <= status < 300:
        if isinstance(body, dict):
            return body
        raise Lost(f"HTTP {status} with a body that is not a JSON object")
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {"message": response.text}
    reason = str(error.get("status") or "")
    message = str(error.get("message") or "")[:_SHOWN_CHARACTERS]
    if 400 <= status < 500 and status not in _GAVE_UP:
        raise Refused(status, reason, message)
    raise Lost(f"HTTP {status} {reason}: {message}".replace(" :", ":"))
