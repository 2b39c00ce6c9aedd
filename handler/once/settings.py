"""The settings of the handler, from its environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn
from urllib.parse import urlsplit

from once.protocol import Durations
from once.run import Job
from once.stack_events import EVENTS, StackEvent, read_stack_events
from once.stores import Store, open_store
from once.stores.record import MAX_SECONDS

STORE = "ONCE_STORE"
LEASE_SECONDS = "ONCE_LEASE_SECONDS"
EVENT_LEASE_SECONDS = "ONCE_EVENT_LEASE_SECONDS"
RETENTION_SECONDS = "ONCE_RETENTION_SECONDS"
STARTS = "ONCE_STARTS"
ENDPOINTS = "ONCE_API_ENDPOINTS"

# Set by Cloud Run services, Cloud Run jobs and App Engine, where a local file would be each
# instance's own, and the promise void.
_MANAGED = ("K_SERVICE", "CLOUD_RUN_JOB", "GAE_ENV")
_DEFAULT_STORE = "sqlite:///.local/runs.db"
_DEFAULT_LEASE_SECONDS = 360  # the default service timeout of infra/, 5 min, and its margin, 1 min
_DEFAULT_RETENTION_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True)
class Settings:
    """What the environment says.

    Parameters
    ----------
    store
        Where records stand; not connected yet.
    durations
        Lease and retention.
    project
        The Google Cloud project of the store, for the trace field of log lines.
    starts
        Functions that start Google APIs, by name.
    event_durations
        Lease and retention of events; None for those of runs.
    events
        What the stack's configuration says of its events, by name.
    """

    store: Store
    durations: Durations
    project: str | None
    starts: Mapping[str, Job] = field(default_factory=dict)
    event_durations: Durations | None = None
    events: Mapping[str, StackEvent] = field(default_factory=dict)


def load(environment: Mapping[str, str]) -> Settings:
    """Read the settings.

    Raises
    ------
    SystemExit
        If one is missing or wrong; the line names it.
    """
    url = environment.get(STORE) or ""
    if not url and (platform := next((each for each in _MANAGED if each in environment), None)):
        _stop(STORE, f"is not set, but {platform} is: there, give firestore://PROJECT/DATABASE")
    try:
        store = open_store(url or _DEFAULT_STORE)
    except ValueError as error:
        _stop(STORE, f"= {error}")
    lease = _seconds(environment, LEASE_SECONDS, _DEFAULT_LEASE_SECONDS)
    retention = _seconds(environment, RETENTION_SECONDS, _DEFAULT_RETENTION_SECONDS)
    event_lease = _seconds(environment, EVENT_LEASE_SECONDS, int(lease.total_seconds()))
    for name, each in ((LEASE_SECONDS, lease), (EVENT_LEASE_SECONDS, event_lease)):
        if retention <= each:
            _stop(
                RETENTION_SECONDS,
                f"= {retention.total_seconds():.0f} is not longer than {name} = "
                f"{each.total_seconds():.0f}: a run would be forgotten before it could end",
            )
    project = urlsplit(url).netloc if url.startswith("firestore:") else None
    return Settings(
        store,
        Durations(lease, retention),
        project,
        _starts(environment),
        Durations(event_lease, retention),
        _events(environment),
    )


def _events(environment: Mapping[str, str]) -> Mapping[str, StackEvent]:
    try:
        return read_stack_events(environment.get(EVENTS) or "")
    except ValueError as error:
        _stop(EVENTS, str(error))


def _starts(environment: Mapping[str, str]) -> dict[str, Job]:
    if not environment.get(STARTS) and not environment.get(ENDPOINTS):
        return {}
    # Imported here so that a handler that starts no API does not load what does.
    from once.starts import read_endpoints, read_starts

    name = ENDPOINTS
    try:
        endpoints = read_endpoints(environment.get(ENDPOINTS) or "{}")
        name = STARTS
        return read_starts(environment.get(STARTS) or "{}", endpoints)
    except ValueError as error:
        _stop(name, str(error))


def _seconds(environment: Mapping[str, str], name: str, default: int) -> timedelta:
    text = environment.get(name) or str(default)
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= MAX_SECONDS:
        _stop(
            name,
            f"= {text[:40]!r} is not a number of seconds: give a whole one, 1 to {MAX_SECONDS}",
        )
    return timedelta(seconds=int(text))


def _stop(name: str, problem: str) -> NoReturn:
    raise SystemExit(" ".join(f"{name} {problem}".splitlines()))
