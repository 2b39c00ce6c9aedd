"""What a job author sees: `Run`, `job` and `Fatal`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from once.attempt import Attempt
from once.functions import check_function
from once.identity.scheduler import ScheduledDelivery
from once.protocol import Claim, Fatal

Job = Callable[["Run"], object]
J = TypeVar("J", bound=Job)


class BadBody(Fatal, ValueError):
    """The body is not JSON. Fatal, because a retry would bring the same body."""


@dataclass(frozen=True, kw_only=True)
class Run(Attempt):
    """One attempt at one run of a Cloud Scheduler job.

    Parameters
    ----------
    project, region, job
        The job, as the Scheduler's headers name it.
    schedule_time
        The slot: aware, UTC, to the minute.
    body
        The request's body.
    """

    project: str
    region: str
    job: str
    schedule_time: datetime
    body: bytes

    @property
    def forced(self) -> bool:
        """Whether somebody forced this run ahead of its slot."""
        return self._claim.key.kind == "forced"

    def json(self) -> Any:
        """Return the body as JSON.

        Raises
        ------
        BadBody
            If it is not JSON; left alone it ends the run as failed.
        """
        return parse_json(self.body)

    @classmethod
    def of(cls, delivery: ScheduledDelivery, claim: Claim, body: bytes) -> "Run":
        """Make the run of a delivery whose claim was won."""
        return cls(
            project=delivery.project,
            region=delivery.region,
            job=delivery.job,
            schedule_time=delivery.slot,
            body=body,
            _claim=claim,
        )


def parse_json(body: bytes) -> Any:
    """Parse a body, with an error that a job author can act on."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadBody(f"the body is not JSON ({error}): {body[:64]!r}") from error


JOBS: dict[str, Job] = {}
"""The registered functions by name."""


def job(name: str) -> Callable[[J], J]:
    """Register a function as the job `name`.

    Parameters
    ----------
    name
        What `X-Scheduler-Function`, or else the Scheduler job's own name, says.

    Raises
    ------
    ValueError
        If a function of that name is registered already.
    TypeError
        If what is registered is not a plain function.
    """
    how = '@job("NAME")'
    if not isinstance(name, str) or not name:
        raise TypeError(f"a job's name is a text that is not empty, not {name!r}: write {how}")

    def register(function: J) -> J:
        check_function(function, how)
        if name in JOBS:
            raise ValueError(f"two functions are registered as job {name!r}: rename one of them")
        JOBS[name] = function
        return function

    return register
