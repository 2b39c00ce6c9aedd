"""A process that is told to stop takes no new claims and lets its jobs end."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from tests.support.deliveries import Delivery
from tests.support.faults import eventually
from tests.support.handler import Handler
from tests.support.lab import Lab


def gated(lab: Lab, name: str) -> Delivery:
    return Delivery("gate", body=json.dumps({"gate": str(lab.gate(name))}).encode())


def entered(lab: Lab, delivery: Delivery) -> bool:
    return bool(lab.effects(delivery.key.id, "entered"))


def told_to_stop(lab: Lab, delivery: Delivery) -> bool:
    return bool(lab.effects(delivery.key.id, "told to stop"))


def test_job_runs_on_after_sigterm_and_a_queued_delivery_claims_nothing(
    lab: Lab, handler: Handler
) -> None:
    """Eight jobs fill the eight threads; the ninth delivery waits in the queue meanwhile."""
    jobs = [gated(lab, "stopping") for _ in range(8)]
    ninth = Delivery("count")
    with lab.handler(threads=8) as stopping, ThreadPoolExecutor(9) as pool:
        running = [pool.submit(stopping.post, job) for job in jobs]
        eventually(lambda: all(entered(lab, job) for job in jobs), "eight jobs run at once")
        queued = pool.submit(stopping.post, ninth)
        eventually(lambda: stopping.connections() == 9, "the ninth delivery is in the queue")

        stopping.terminate()
        eventually(lambda: all(told_to_stop(lab, job) for job in jobs), "it knows")

        for job in jobs:  # nothing was released while its job may still be running
            assert handler.post(job).outcome == "in_progress"
        assert not any(task.done() for task in running)
        lab.gate("stopping").touch()

        assert [task.result().outcome for task in running] == ["completed"] * 8
        answer = queued.result()
        assert (answer.status, answer.outcome) == (500, "store_unavailable")
        assert stopping.wait_until_ended() == 0

    assert lab.effects(ninth.key.id) == []
    assert lab.backend.get(ninth.key) is None
    assert handler.post(ninth).outcome == "completed"


def test_duplicate_is_still_told_by_a_process_that_stops(lab: Lab) -> None:
    done, again = Delivery("count"), Delivery("count")
    jobs = [gated(lab, "stopping-2") for _ in range(2)]
    with lab.handler(threads=2) as stopping, ThreadPoolExecutor(4) as pool:
        assert stopping.post(done).outcome == "completed"
        running = [pool.submit(stopping.post, job) for job in jobs]
        eventually(lambda: all(entered(lab, job) for job in jobs), "the jobs run")
        known, fresh = pool.submit(stopping.post, done), pool.submit(stopping.post, again)
        eventually(lambda: stopping.connections() == 4, "both are in the queue")
        stopping.terminate()
        eventually(lambda: all(told_to_stop(lab, job) for job in jobs), "it knows")
        lab.gate("stopping-2").touch()

        assert [task.result().outcome for task in running] == ["completed"] * 2
        assert known.result().outcome == "duplicate"
        assert fresh.result().outcome == "store_unavailable"


def test_job_of_a_process_with_one_thread_runs_on_too(lab: Lab) -> None:
    """With one thread gunicorn has another kind of worker."""
    job = gated(lab, "one-thread")
    with lab.handler(threads=1) as stopping, ThreadPoolExecutor(1) as pool:
        running = pool.submit(stopping.post, job)
        eventually(lambda: entered(lab, job), "the job runs")
        stopping.terminate()
        eventually(lambda: told_to_stop(lab, job), "it knows")
        lab.gate("one-thread").touch()

        assert running.result().outcome == "completed"
        assert stopping.wait_until_ended() == 0


def test_what_is_cut_off_by_sigkill_is_left_to_its_lease(lab: Lab, handler: Handler) -> None:
    job = gated(lab, "cut-off")
    stopping = lab.handler(settings={"ONCE_LEASE_SECONDS": "5"})
    with ThreadPoolExecutor(1) as pool:
        with stopping:
            running = pool.submit(stopping.post, job)
            eventually(lambda: entered(lab, job), "the job runs")
            stopping.terminate()
            eventually(lambda: told_to_stop(lab, job), "it knows")
        assert running.exception() is not None
    lab.gate("cut-off").touch()

    first, *_, last = handler.post_until_over(job)
    assert (first.outcome, last.outcome) == ("in_progress", "completed")


def test_as_many_jobs_run_at_once_as_the_setting_says(lab: Lab) -> None:
    jobs = [gated(lab, "threads") for _ in range(3)]
    with lab.handler(threads=2) as handler, ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(handler.post, job) for job in jobs]
        eventually(lambda: sum(entered(lab, job) for job in jobs) == 2, "two jobs run")
        eventually(lambda: handler.connections() == 3, "the third is in the queue")
        assert sum(entered(lab, job) for job in jobs) == 2
        lab.gate("threads").touch()

        assert [task.result().outcome for task in tasks] == ["completed"] * 3
