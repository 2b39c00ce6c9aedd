"""The rule of a start: look first, start once, and after a lost answer look, never start again."""

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from once.identity import BadDelivery
from once.identity.scheduler import parse_rfc_3339
from once.protocol import Fatal, Unsettled
from once.run import Run
from once.starts.api import Api, Lost, NotSent, Refused
from once.starts.target import Json, Target, text_in

_LOG = logging.getLogger("once")

START_SECONDS = 30.0
"""How long a start's answer is awaited. A trigger reads the repository before it answers."""
LOOK_SECONDS = 15.0
"""How long one look may take, over all its pages."""
WAITS_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0)
"""The waits before the looks that follow a lost answer: a list may lag behind."""

# A delivery comes up to 10 s before its slot as a scheduled one; the rest is for Google's clocks.
_EARLY = timedelta(minutes=1)
# A forced run's slot says when it must have happened by, not since when. Its retries last for the
# retry window, an hour or two, unless somebody configured a longer one.
_FORCED_LOOK_BACK = timedelta(days=1)


class StartFailed(Exception):
    """Nothing was started by this attempt; a retry may succeed."""


class Starter:
    """A job function that starts a target once per run.

    Parameters
    ----------
    target
        What to start.
    api
        Where.
    """

    def __init__(self, target: Target, api: Api) -> None:
        self._target = target
        self._api = api

    def __call__(self, run: Run) -> str:
        """Start the target for this run unless that has happened; return the operation's name.

        Raises
        ------
        Fatal
            If the API refuses the request itself: it would do so every time.
        StartFailed
            If nothing was started and a retry may help.
        Unsettled
            If a start was sent and neither its answer nor the operation can be found.
        """
        try:
            found = self._look(run)
        except (NotSent, Lost) as error:
            raise StartFailed(
                f"could not look for an earlier start of {self._target.name}, and so started "
                f"nothing: {error}"
            ) from error
        except Refused as error:
            raise self._refusal(
                error, "look for executions of", self._target.looking_role
            ) from error
        if found:
            _LOG.info("adopted %s, which an earlier attempt at this run started", found)
            return found
        try:
            return self._start(run)
        except (Fatal, StartFailed, Unsettled):
            raise
        except BaseException as error:  # whatever it is, the start may have been sent
            raise Unsettled(f"the start of {self._target.name} was cut off: {error!r}") from error

    def _start(self, run: Run) -> str:
        # Half of what is left of the lease stays for looking, should the answer get lost.
        seconds = min(START_SECONDS, run.remaining().total_seconds() / 2)
        if seconds <= 0:
            raise StartFailed(f"the lease was over before {self._target.name} could be started")
        try:
            answer = self._api.send(self._target.start(run.run_id), seconds)
        except NotSent as error:
            raise StartFailed(f"{self._target.name} was not started: {error}") from error
        except Refused as error:
            raise self._refusal(error, "start", self._target.starting_role) from error
        except Lost as error:
            return self._settle(run, str(error))
        name = self._target.started(answer)
        return name or self._settle(run, "the answer names no operation")

    def _settle(self, run: Run, cause: str) -> str:
        """Look for what a start whose answer was lost may have started."""
        for wait in WAITS_SECONDS:
            if wait >= run.remaining().total_seconds():
                break
            time.sleep(wait)
            try:
                found = self._look(run)
            except (NotSent, Lost, Refused) as error:
                _LOG.warning("could not look for what was started: %s", error)
                continue
            if found:
                _LOG.info("found %s after its start's answer was lost (%s)", found, cause)
                return found
        raise Unsettled(
            f"the start of {self._target.name} was sent and its answer lost ({cause}), and no "
            f"operation with this run's token is to be found; the next attempt looks again"
        )

    def _look(self, run: Run) -> str | None:
        """Return the name of the operation that carries this run's token."""
        since = _since(run)
        seconds = min(LOOK_SECONDS, run.remaining().total_seconds())
        until = time.monotonic() + seconds
        call = self._target.look(since)
        query = dict(call.query)
        while (left := until - time.monotonic()) > 0:
            page = self._api.send(replace(call, query=query), left)
            operations = page.get(self._target.listed) or []
            if not isinstance(operations, list):
                raise Lost(f"the list's {self._target.listed!r} is not a list")
            operations = [each for each in operations if isinstance(each, dict)]
            for operation in operations:
                name = text_in(operation, "name")
                if name and self._target.carries(operation, run.run_id):
                    return name
            token = text_in(page, "nextPageToken")
            if token is None or any(_is_older(each, since) for each in operations):
                return None
            query["pageToken"] = token
        raise Lost(f"the list was too long to be read in {seconds:.0f} s")

    def _refusal(self, error: Refused, doing: str, role: str) -> Exception:
        """Return what a definite no means for the run.

        What a person can put right while the retries last is no reason to give the run up: a
        missing grant (which also takes minutes to arrive) or a missing target. Only a request
        that is itself wrong would be refused for ever.
        """
        name = self._target.name
        if error.status == 400 and error.reason != "FAILED_PRECONDITION":
            return Fatal(f"{name} cannot be started like this: {error}")
        if error.status == 403:
            return StartFailed(
                f"may not {doing} {name}: grant this service's account {role} for it "
                f"(a new grant takes some minutes to arrive): {error}"
            )
        if error.status == 404:
            return StartFailed(f"{name} is not there: create it or correct the name: {error}")
        return StartFailed(f"the request to {doing} {name} was refused: {error}")


def _since(run: Run) -> datetime:
    """Return a time before which nothing can have been started for this run."""
    if run.forced:
        return min(datetime.now(UTC), run.schedule_time) - _FORCED_LOOK_BACK
    return run.schedule_time - _EARLY


def _is_older(operation: Json, since: datetime) -> bool:
    created = text_in(operation, "createTime")
    if created is None:
        return False
    try:
        return parse_rfc_3339(created, "createTime") < since
    except BadDelivery:
        return False
