"""Workers whose wall clocks are wrong: no live lease is stolen, and none lives for ever."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from once.answer import Outcome
from once.protocol import Claim, Durations, Guard, Report, Unsettled

from tests.support.deliveries import Delivery
from tests.support.faults import eventually
from tests.support.handler import Handler
from tests.support.lab import Lab

LEASE = timedelta(seconds=3)
RETENTION = timedelta(days=7)
MORE_THAN_RETENTION = RETENTION + timedelta(days=2)
WRONG = [timedelta(minutes=10), -timedelta(minutes=10), MORE_THAN_RETENTION, -MORE_THAN_RETENTION]


class Worker:
    """A process of its own, whose clock is ahead."""

    def __init__(self, lab: Lab, ahead: timedelta) -> None:
        self.guard = Guard(
            lab.backend.store(),
            Durations(LEASE, RETENTION),
            wall_clock=lambda: datetime.now(UTC) + ahead,
        )


PAIRS = [
    *(pair for ahead in WRONG for pair in permutations([timedelta(0), ahead])),
    *permutations([-MORE_THAN_RETENTION, MORE_THAN_RETENTION]),
]


def test_lease_lasts_exactly_as_long_as_the_store_says(lab: Lab) -> None:
    with ThreadPoolExecutor(len(PAIRS)) as pool:  # all at once: each waits for a lease to end
        list(pool.map(lambda pair: _expect_that_only_the_store_counts(lab, *pair), PAIRS))


def _expect_that_only_the_store_counts(lab: Lab, holder: timedelta, other: timedelta) -> None:
    delivery = Delivery()
    claims: list[Claim] = []

    def crash(claim: Claim) -> None:
        claims.append(claim)
        raise Unsettled("as good as a crash: the claim stays")

    Worker(lab, holder).guard.run(delivery.identity(), crash)
    worker = Worker(lab, other)
    reports: list[Report] = []

    def over() -> bool:
        reports.append(worker.guard.run(delivery.identity(), claims.append))
        return reports[-1].outcome is not Outcome.IN_PROGRESS

    assert not over()
    eventually(over, "the lease is over")

    assert reports[-1].outcome is Outcome.COMPLETED
    first, second = claims
    assert second.version.time - first.version.time >= LEASE
    assert second.fence > first.fence
    assert Worker(lab, holder).guard.run(delivery.identity(), crash).outcome is Outcome.DUPLICATE


@pytest.fixture(scope="module")
def workers(lab: Lab) -> Iterator[dict[str, Handler]]:
    """Yield processes with a right clock, and clocks behind and ahead by more than retention."""
    clocks = {"right": timedelta(0), "behind": -MORE_THAN_RETENTION, "ahead": MORE_THAN_RETENTION}
    settings = {
        "ONCE_LEASE_SECONDS": str(int(LEASE.total_seconds())),
        "ONCE_RETENTION_SECONDS": str(int(RETENTION.total_seconds())),
    }
    workers = {
        name: lab.handler(
            settings={**settings, "TEST_CLOCK_AHEAD_SECONDS": str(ahead.total_seconds())}
        )
        for name, ahead in clocks.items()
    }
    try:
        for worker in workers.values():
            worker.wait_until_serving()
        yield workers
    finally:
        for worker in workers.values():
            worker.kill()


def test_processes_with_wrong_clocks_hold_and_take_over_as_others_do(
    workers: dict[str, Handler], lab: Lab
) -> None:
    pairs = [("right", "behind"), ("ahead", "right"), ("behind", "ahead")]
    with ThreadPoolExecutor(len(pairs)) as pool:  # all at once: each waits for a lease to end
        list(pool.map(lambda pair: _expect_a_takeover(workers, lab, *pair), pairs))


def _expect_a_takeover(workers: dict[str, Handler], lab: Lab, holder: str, other: str) -> None:
    opened = lab.gate(f"{holder}-{other}-opened")
    opened.touch()
    gate = lab.gate(f"{holder}-{other}")
    slow = Delivery("gate", body=json.dumps({"gate": str(gate)}).encode())
    quick = replace(slow, body=json.dumps({"gate": str(opened)}).encode())
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(workers[holder].post, slow)
        eventually(lambda: bool(lab.effects(slow.key.id, "entered")), "the job runs")
        claimed = lab.backend.get(slow.key)
        assert claimed is not None
        assert claimed["expire_at"] > datetime.now(UTC)  # or the TTL would delete a live claim

        refused, *_, last = workers[other].post_until_over(quick)
        gate.touch()

        assert (refused.outcome, last.outcome) == ("in_progress", "completed")
        assert held.result().outcome == "lease_lost"
    for worker in workers.values():
        assert worker.post(quick).outcome == "duplicate"
    record = lab.backend.get(slow.key)
    assert record is not None
    expires_in = record["expire_at"] - datetime.now(UTC)
    assert abs(expires_in - RETENTION) < timedelta(minutes=5)  # by the store's clock
