"""An outcome becomes an HTTP status, a severity and a body: the last room. Pure."""

import json
import math
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus

OUTCOME_HEADER = "X-Once-Outcome"


class Outcome(StrEnum):
    """What became of a delivery; the word stands in the body, a header, the log and metrics."""

    COMPLETED = "completed"
    DUPLICATE = "duplicate"
    FAILED = "failed"
    DROPPED = "dropped"
    IN_PROGRESS = "in_progress"
    LEASE_LOST = "lease_lost"
    RELEASED = "released"
    UNRELEASED = "unreleased"
    UNRECORDED = "unrecorded"
    STORE_UNAVAILABLE = "store_unavailable"
    BAD_REQUEST = "bad_request"
    UNKNOWN_JOB = "unknown_job"
    METHOD_NOT_ALLOWED = "method_not_allowed"


# Cloud Scheduler and Pub/Sub take 2xx for done and try again on anything else. 503 is never used:
# App Engine repeats it outside the retry count.
_STATUS = {
    Outcome.COMPLETED: HTTPStatus.OK,
    Outcome.DUPLICATE: HTTPStatus.OK,
    Outcome.FAILED: HTTPStatus.OK,
    Outcome.DROPPED: HTTPStatus.OK,
    Outcome.UNRECORDED: HTTPStatus.OK,
    Outcome.IN_PROGRESS: HTTPStatus.CONFLICT,
    Outcome.LEASE_LOST: HTTPStatus.CONFLICT,
    Outcome.RELEASED: HTTPStatus.INTERNAL_SERVER_ERROR,
    Outcome.UNRELEASED: HTTPStatus.INTERNAL_SERVER_ERROR,
    Outcome.STORE_UNAVAILABLE: HTTPStatus.INTERNAL_SERVER_ERROR,
    Outcome.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
    Outcome.UNKNOWN_JOB: HTTPStatus.NOT_FOUND,
    Outcome.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
}

# Of Cloud Logging. An ERROR is what somebody should look at; a retry that is on its way is not.
_SEVERITY = {
    Outcome.COMPLETED: "INFO",
    Outcome.DUPLICATE: "INFO",
    Outcome.IN_PROGRESS: "INFO",
    Outcome.DROPPED: "WARNING",
    Outcome.BAD_REQUEST: "WARNING",
    Outcome.METHOD_NOT_ALLOWED: "WARNING",
}


def severity(outcome: Outcome) -> str:
    """Return the Cloud Logging severity of a delivery's line."""
    return _SEVERITY.get(outcome, "ERROR")


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, free of any framework."""

    status: int
    body: str
    headers: dict[str, str] = field(default_factory=dict)


def answer(
    outcome: Outcome,
    *,
    run_id: str | None,
    job: str | None,
    retry_after: timedelta | None = None,
    detail: str | None = None,
) -> Answer:
    """Build the answer to a delivery.

    Parameters
    ----------
    outcome
        What became of it.
    run_id, job
        Which run it was; None where that is not known.
    retry_after
        How long the live lease of another attempt lasts.
    detail
        What is wrong with the request itself; never the text of an exception from the job or the
        store.
    """
    body = {"outcome": outcome, "run_id": run_id, "job": job}
    if detail is not None:
        body["detail"] = detail
    headers = {"Content-Type": "application/json", OUTCOME_HEADER: str(outcome)}
    if retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after.total_seconds())))
    if outcome is Outcome.METHOD_NOT_ALLOWED:
        headers["Allow"] = "POST"
    return Answer(int(_STATUS[outcome]), json.dumps(body) + "\n", headers)
