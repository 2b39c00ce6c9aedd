"""How Cloud Scheduler delivers: headers, retry schedule, and an answer or none."""

import http.client
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from urllib.parse import quote
from zoneinfo import ZoneInfo

from infra.timing import Retry
from local.stack import Job


@dataclass(frozen=True)
class Answer:
    """What came back for one delivery.

    Attributes
    ----------
    status
        None where the connection broke, or the caller hung up.
    outcome
        The handler's word, or what happened instead of an answer.
    detail
        What the handler says is wrong with the request.
    unheard
        The handler's word, where the answer was lost on its way.
    """

    status: int | None
    outcome: str
    detail: str = ""
    unheard: str = ""

    @property
    def accepted(self) -> bool:
        """Whether Cloud Scheduler takes the run for done."""
        return self.status is not None and 200 <= self.status < 300


HUNG_UP = "hung up"
NO_ANSWER = "no answer"


def retry_waits(retry: Retry) -> Iterator[tuple[timedelta, int]]:
    """Yield the wait before each retry and the retry's number, from 1."""
    return zip(retry.waits(), count(1), strict=False)


def may_retry(retry: Retry, number: int, since_first: timedelta) -> bool:
    """Say whether Cloud Scheduler makes the retry `number`, this long after the first attempt.

    It goes on until both limits are reached: the count, and the window where there is one.
    """
    return number <= retry.count or since_first <= retry.max_duration


def headers(job: Job, slot: datetime, chance: random.Random) -> dict[bytes, bytes]:
    """Return the headers of one delivery.

    Their case and the way in which the schedule time is written differ from one to the next, as
    proxies and HTTP/2 make it.
    """
    found = {
        "User-Agent": "Google-Cloud-Scheduler",
        "Content-Type": "application/octet-stream",
        **job.headers,
        "X-CloudScheduler": "true",
        "X-CloudScheduler-JobName": job.name,
        "X-CloudScheduler-ScheduleTime": schedule_time(slot, job.schedule.zone, chance),
    }
    write = chance.choice((_as_is, str.lower, str.upper, str.swapcase))
    return {write(name).encode(): value.encode() for name, value in found.items()}


def schedule_time(slot: datetime, zone: str, chance: random.Random) -> str:
    """Write a schedule time in one of the two forms that are seen."""
    if chance.random() < 0.5:
        return slot.strftime("%Y-%m-%dT%H:%M:%SZ")
    within = timedelta(microseconds=chance.randrange(1, 1_000_000))
    return (slot + within).astimezone(ZoneInfo(zone)).isoformat(timespec="microseconds")


def post(
    address: tuple[str, int], path: str, headers: dict[bytes, bytes], body: bytes, deadline: float
) -> Answer:
    """Send one delivery and wait for its answer, at most `deadline` seconds."""
    connection = http.client.HTTPConnection(*address, timeout=deadline)
    try:
        connection.putrequest("POST", quote(path, safe="/%"), skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        text = response.read()
        outcome = response.getheader("X-Once-Outcome") or f"HTTP {response.status}"
        return Answer(response.status, outcome, _detail(text))
    except TimeoutError:
        return Answer(None, HUNG_UP)
    except (OSError, http.client.HTTPException):
        return Answer(None, NO_ANSWER)
    finally:
        connection.close()


def _detail(text: bytes) -> str:
    try:
        return str(json.loads(text).get("detail", ""))
    except (ValueError, AttributeError):
        return ""


def _as_is(name: str) -> str:
    return name
