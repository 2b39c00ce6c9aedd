"""Cloud Scheduler's side of a delivery: when it tries again, and what it sends."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from once.identity.scheduler import scheduled

from infra.timing import Retry, Timing, default_retry
from local.scale import scale
from local.scheduler import HUNG_UP, NO_ANSWER, Answer, headers, may_retry, post, retry_waits
from tests.local.test_plan import job

SLOT = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def starts(retry: Retry, answered_after: timedelta) -> list[int]:
    """Return when each attempt starts, in seconds, where each one fails after the same time."""
    now, found = timedelta(), [0]
    for wait, number in retry_waits(retry):
        now += answered_after + wait
        if not may_retry(retry, number, now):
            return found
        found.append(int(now.total_seconds()))
    raise AssertionError("the waits do not end")


def seconds(number: int) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("retry", "answered_after", "expected"),
    [
        pytest.param(Retry(seconds(0), count=0), 0, [0], id="no retries"),
        pytest.param(Retry(seconds(0), count=2), 0, [0, 10, 30], id="the count alone"),
        pytest.param(Retry(seconds(100), count=0), 0, [0, 10, 30, 70], id="the window alone"),
        pytest.param(
            Retry(seconds(25), count=3), 0, [0, 10, 30, 70], id="both limits: count later"
        ),
        pytest.param(
            Retry(seconds(100), count=1),
            0,
            [0, 10, 30, 70],
            id="both limits: window later",
        ),
        pytest.param(Retry(seconds(100), count=1), 40, [0, 50], id="slow answers use the window"),
        pytest.param(
            Retry(
                seconds(1200),
                count=0,
                min_backoff=seconds(10),
                max_backoff=seconds(300),
                max_doublings=3,
            ),
            0,
            [0, 10, 30, 70, 150, 310, 550, 850, 1150],
            id="doubled three times, then linear up to the longest",
        ),
    ],
)
def test_retries_follow_the_schedule(
    retry: Retry, answered_after: int, expected: list[int]
) -> None:
    assert starts(retry, seconds(answered_after)) == expected


@pytest.mark.parametrize("minutes", [1, 5, 30])
def test_derived_schedule_retries_after_the_lease_of_a_crashed_attempt(minutes: int) -> None:
    timing = Timing(timedelta(minutes=minutes))
    crashed = timing.attempt_deadline.total_seconds()
    later = [start for start in starts(default_retry(timing), seconds(0)) if start > crashed]
    assert any(start >= crashed + timing.lease.total_seconds() for start in later)


def test_every_way_of_writing_a_delivery_means_the_same_run() -> None:
    chance = random.Random(1)
    identity = {"X-Scheduler-Project": "p", "X-Scheduler-Region": "r"}
    berlin = replace(job("report", "30 2 * * *", "Europe/Berlin"), headers=identity)
    sent = [headers(berlin, SLOT, chance) for _ in range(50)]
    read = [scheduled({k.decode(): v.decode() for k, v in each.items()}) for each in sent]
    assert {delivery.key(SLOT).id for delivery in read} == {read[0].key(SLOT).id}
    names = {name for each in sent for name in each if name.lower().endswith(b"scheduletime")}
    assert len(names) == 4, "four ways of writing a header's case"
    times = {delivery.schedule_time_raw for delivery in read}
    assert "2026-10-25T00:30:00Z" in times
    assert any(time.endswith("+02:00") and "." in time for time in times)


@contextmanager
def listener(answer: bytes | None) -> Iterator[tuple[str, int]]:
    """Listen for one connection; answer it, or close it where the answer is empty."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as held:
        kept = [held]

        def serve() -> None:
            connection, _ = server.accept()
            kept.append(connection)
            if answer is not None:
                connection.recv(65536)
                connection.sendall(answer)
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()
        thread.join()
        kept[-1].close()


def test_answer_is_read_with_its_outcome() -> None:
    text = b"HTTP/1.1 404 No\r\nX-Once-Outcome: unknown_job\r\nContent-Length: 17\r\n\r\n"
    with listener(text + b'{"detail": "why"}') as address:
        assert post(address, "/", {}, b"", 5) == Answer(404, "unknown_job", "why")


def test_caller_hangs_up_at_the_attempt_deadline() -> None:
    with listener(None) as address:
        assert post(address, "/", {}, b"", 0.1) == Answer(None, HUNG_UP)


def test_broken_connection_is_no_answer() -> None:
    with listener(b"") as address:
        assert post(address, "/", {}, b"", 5) == Answer(None, NO_ANSWER)


@pytest.mark.parametrize(
    ("lease", "speed", "factor", "lease_seconds"),
    [(360, 60, 60, 6), (75, 60, 12.5, 6), (1860, 60, 60, 31), (360, 1, 1, 360), (360, 50, 45, 8)],
)
def test_lease_is_scaled_to_whole_seconds(
    lease: int, speed: float, factor: float, lease_seconds: int
) -> None:
    found = scale(seconds(lease), speed)
    assert (found.factor, found.lease_seconds) == (factor, lease_seconds)
    assert found.seconds(seconds(lease)) == lease_seconds
