"""Which runs are played, and what goes wrong with each."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from infra.cron import Schedule
from infra.timing import Retry
from local.plan import DEFAULT_SHARES, FORCED_AHEAD, Fault, PlannedRun, assign, last_slots, plan
from local.stack import Job

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


def job(name: str, expression: str, zone: str = "Etc/UTC") -> Job:
    return Job(
        label=name,
        name=f"stack-{name}",
        schedule=Schedule(expression, zone),
        service="handler",
        path="/",
        headers={},
        body=b"",
        attempt_deadline=timedelta(minutes=5),
        retry=Retry(timedelta(minutes=18)),
        starts=None,
    )


JOBS = [job("often", "*/5 * * * *"), job("monthly", "30 6 1 * *"), job("leap", "0 0 29 2 *")]


def planned(now: datetime = NOW, seed: int = 1) -> list[PlannedRun]:
    return plan(JOBS, slots=4, forced=1, shares=DEFAULT_SHARES, seed=seed, now=now)


def faults(runs: list[PlannedRun]) -> dict[str, Fault]:
    return {run.seed: run.fault for run in runs}


def test_same_seed_gives_the_same_faults_at_any_time() -> None:
    assert faults(planned()) == faults(planned(NOW + timedelta(days=77, minutes=3)))


def test_another_seed_gives_other_faults() -> None:
    of_one = [run.fault for run in planned(seed=1)]
    assert of_one != [run.fault for run in planned(seed=2)]


@pytest.mark.parametrize("seed", range(5))
def test_default_number_of_runs_meets_every_fault(seed: int) -> None:
    assert {run.fault for run in planned(seed=seed)} == set(Fault)


def test_shares_are_met() -> None:
    dealt = Counter(assign(100, {Fault.KILL: 0.1, Fault.RAISE: 0.25}, seed=3))
    assert dealt == {Fault.KILL: 10, Fault.RAISE: 25, Fault.NONE: 65}


def test_too_few_runs_get_no_more_faults_than_there_are_runs() -> None:
    assert len(assign(2, DEFAULT_SHARES, seed=1)) == 2


def test_share_of_zero_is_never_dealt() -> None:
    assert assign(3, {Fault.KILL: 0.0}, seed=1) == [Fault.NONE] * 3


def test_only_forced_runs_lie_ahead() -> None:
    for run in planned():
        if run.forced:
            assert run.slot > NOW + FORCED_AHEAD
        else:
            assert run.slot < NOW


def test_slots_are_the_last_fire_times_in_the_zone_of_the_job() -> None:
    # Berlin's clocks went forward that morning: 03:00 was 02:00 UTC the day before, then 01:00.
    assert last_slots(Schedule("0 3 * * *", "Europe/Berlin"), 2, NOW) == [
        datetime(2026, 3, 28, 2, 0, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
    ]


def test_rare_schedule_reaches_far_back() -> None:
    assert [slot.year for slot in last_slots(Schedule("0 0 29 2 *", "Etc/UTC"), 3, NOW)] == [
        2016,
        2020,
        2024,
    ]
