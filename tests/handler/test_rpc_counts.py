"""What a delivery costs: the RPCs of the real client, counted by an interceptor on its channel."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import grpc
import pytest
from once.answer import Outcome
from once.protocol import Claim, Durations, Fatal, Guard, Unsettled
from once.stores import open_store

from tests.support.backends import FirestoreBackend
from tests.support.deliveries import Delivery, now_text

DURATIONS = Durations(lease=timedelta(minutes=6), retention=timedelta(days=7))


class Counting(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[type-arg]
    """Counts calls by the last part of their method."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return self._count(continuation, details, request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return self._count(continuation, details, request)

    def _count(self, continuation: Any, details: Any, request: Any) -> Any:
        self.calls[details.method.rsplit("/", 1)[-1]] += 1
        return continuation(details, request)


class Channels:
    """Makes the channels that the store asks for, with the interceptor on each."""

    def __init__(self) -> None:
        self.made = 0
        self.counting = Counting()
        self._real = grpc.insecure_channel

    def make(self, *args: Any, **options: Any) -> grpc.Channel:
        self.made += 1
        return grpc.intercept_channel(self._real(*args, **options), self.counting)


@pytest.fixture
def backend(firestore_host: str, monkeypatch: pytest.MonkeyPatch) -> FirestoreBackend:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_host)
    return FirestoreBackend(firestore_host)


@pytest.fixture
def channels(backend: FirestoreBackend, monkeypatch: pytest.MonkeyPatch) -> Channels:
    channels = Channels()
    monkeypatch.setattr(grpc, "insecure_channel", channels.make)
    return channels


@pytest.fixture
def guards(backend: FirestoreBackend, channels: Channels) -> list[Guard]:
    """Return two processes' guards."""
    return [Guard(open_store(backend.url), DURATIONS) for _ in range(2)]


def nothing(claim: Claim) -> None:
    pass


def spent(channels: Channels, *expected: str) -> None:
    assert channels.counting.calls == Counter(expected)
    channels.counting.calls.clear()


def test_fresh_run_costs_two_writes(guards: list[Guard], channels: Channels) -> None:
    assert guards[0].run(Delivery().identity(), nothing).outcome is Outcome.COMPLETED

    spent(channels, "Commit", "Commit")


def test_failed_runs_cost_two_writes(guards: list[Guard], channels: Channels) -> None:
    def fatal(claim: Claim) -> None:
        raise Fatal

    def error(claim: Claim) -> None:
        raise RuntimeError

    assert guards[0].run(Delivery().identity(), fatal).outcome is Outcome.FAILED
    spent(channels, "Commit", "Commit")
    assert guards[0].run(Delivery().identity(), error).outcome is Outcome.RELEASED
    spent(channels, "Commit", "Commit")


def test_duplicate_costs_a_write_and_a_read_and_then_nothing(
    guards: list[Guard], channels: Channels
) -> None:
    delivery = Delivery().identity()
    guards[0].run(delivery, nothing)
    channels.counting.calls.clear()

    assert guards[1].run(delivery, nothing).outcome is Outcome.DUPLICATE
    spent(channels, "Commit", "BatchGetDocuments")
    assert guards[1].run(delivery, nothing).outcome is Outcome.DUPLICATE
    spent(channels)


def test_duplicate_of_a_run_that_this_process_saw_end_costs_nothing(
    guards: list[Guard], channels: Channels
) -> None:
    delivery = Delivery().identity()
    guards[0].run(delivery, nothing)
    channels.counting.calls.clear()

    assert guards[0].run(delivery, nothing).outcome is Outcome.DUPLICATE
    spent(channels)


def test_in_progress_costs_a_write_and_a_read(guards: list[Guard], channels: Channels) -> None:
    def crash(claim: Claim) -> None:
        raise Unsettled

    delivery = Delivery().identity()
    guards[0].run(delivery, crash)
    channels.counting.calls.clear()

    assert guards[1].run(delivery, nothing).outcome is Outcome.IN_PROGRESS
    spent(channels, "Commit", "BatchGetDocuments")


def test_forced_run_costs_a_read_more(guards: list[Guard], channels: Channels) -> None:
    delivery = Delivery(schedule_time=now_text(timedelta(hours=1))).identity()

    assert guards[0].run(delivery, nothing).outcome is Outcome.COMPLETED
    spent(channels, "BatchGetDocuments", "Commit", "Commit")


def test_no_client_is_made_before_the_first_delivery_and_one_by_eight_at_once(
    backend: FirestoreBackend, channels: Channels
) -> None:
    guard = Guard(open_store(backend.url), DURATIONS)
    assert channels.made == 0

    with ThreadPoolExecutor(8) as pool:
        tasks = [pool.submit(guard.run, Delivery().identity(), nothing) for _ in range(8)]

    assert {task.result().outcome for task in tasks} == {Outcome.COMPLETED}
    assert channels.made == 1
