"""From the setting ONCE_STORE to a store."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from once.stores.base import Store

FORMS = "firestore://PROJECT/DATABASE or sqlite:///PATH"
_FIRESTORE = r"[a-z0-9][a-z0-9.:-]*/(\(default\)|[a-z0-9][a-z0-9-]*)"


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
    wrong = ValueError(f"{url!r} is not a store: give {FORMS}")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise wrong from None
    path = unquote(parts.path.removeprefix("/"))
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} has a ? or # in it: write %3F or %23, or use another name")
    if parts.scheme == "sqlite" and not parts.netloc and path:
        from once.stores.sqlite import SqliteStore

        if Path(path).is_dir():
            raise ValueError(f"{url!r} is a directory: give the path of a file")
        return SqliteStore(Path(path))
    if parts.scheme == "firestore" and re.fullmatch(_FIRESTORE, f"{parts.netloc}/{path}"):
        # Imported here so that a handler on SQLite does not load Google's client.
        try:
            from once.stores.firestore import FirestoreStore
        except ImportError as error:
            raise ValueError(f"{url!r} needs google-cloud-firestore: {error}") from error
        return FirestoreStore(parts.netloc, path)
    raise wrong
