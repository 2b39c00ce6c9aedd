"""From the setting ONCE_STORE to a store."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from once.stores.base import Store

FORMS = "firestore://PROJECT/DATABASE or sqlite:///PATH"


def open_store(url: str) -> Store:
    """Return the store that a URL names; no connection is made yet.

    Parameters
    ----------
    url
        `firestore://PROJECT/DATABASE`, or `sqlite:///PATH` with a path relative to the working
        directory (`sqlite:////PATH` for an absolute one).

    Raises
    ------
    ValueError
        If the URL has neither form.
    """
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    if parts.scheme == "sqlite" and not parts.netloc and path:
        from once.stores.sqlite import SqliteStore

        return SqliteStore(Path(path))
    if parts.scheme == "firestore" and parts.netloc and path and "/" not in path:
        # Imported here so that a handler on SQLite does not load Google's client.
        from once.stores.firestore import FirestoreStore

        return FirestoreStore(parts.netloc, path)
    raise ValueError(f"{url!r} is no store: give {FORMS}")
