"""Every way in which a start can go wrong, per target: the count of operations started is one."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from local import apis as faults
from local.apis import Apis, Fault
from tests.starts.conftest import (
    ARGS,
    ARGUMENT,
    ENV,
    MISSING,
    SUBSTITUTIONS,
    TARGETS,
    Runs,
    Target,
    starting,
)
from tests.support.deliveries import Delivery, now_text
from tests.support.faults import PATIENCE_SECONDS
from tests.support.handler import Handler
from tests.support.lab import Lab


def test_start_is_completed_and_its_repeat_a_duplicate(
    target: Target, proxy: Handler, runs: Runs
) -> None:
    delivery = target.new_delivery()

    runs.expect_one(proxy.post(delivery), delivery)

    assert proxy.post(delivery).outcome == "duplicate"
    assert len(runs.operations(delivery)) == 1


def test_workflow_gets_the_argument_unchanged_and_the_token_beside_it(
    proxy: Handler, runs: Runs
) -> None:
    delivery = TARGETS[0].new_delivery()
    request = runs.expect_one(proxy.post(delivery), delivery).request

    argument = json.loads(request["argument"])
    assert argument == {**ARGUMENT, "idempotency_token": delivery.key.id}
    assert repr(argument["whole"]) == repr(ARGUMENT["whole"])
    assert request["labels"] == {"idempotency_token": delivery.key.id[:32]}


def test_cloud_run_job_gets_args_and_env_unchanged_and_the_token_beside_them(
    proxy: Handler, runs: Runs
) -> None:
    delivery = TARGETS[1].new_delivery()
    request = runs.expect_one(proxy.post(delivery), delivery).request

    (override,) = request["overrides"]["containerOverrides"]
    assert override["args"] == list(ARGS)
    env = {each["name"]: each["value"] for each in override["env"]}
    assert env == {**ENV, "IDEMPOTENCY_TOKEN": delivery.key.id}


def test_build_trigger_gets_substitutions_unchanged_and_the_token_beside_them(
    proxy: Handler, runs: Runs
) -> None:
    delivery = TARGETS[2].new_delivery()
    request = runs.expect_one(proxy.post(delivery), delivery).request

    assert request["source"] == {
        "branchName": "main",
        "substitutions": {**SUBSTITUTIONS, "_IDEMPOTENCY_TOKEN": delivery.key.id},
    }


# --- Answers that tell nothing --------------------------------------------------------------------

ACCEPTED = {
    "answer-lost": faults.LOST_ANSWER,
    "answer-late": faults.slow(2 * PATIENCE_SECONDS),
    "answer-unreadable": faults.UNREADABLE,
    "error-after-acceptance": faults.BAD_GATEWAY,
}
NOT_ACCEPTED = {"request-lost": faults.LOST_REQUEST, "unavailable": faults.UNAVAILABLE}


@pytest.mark.parametrize("fault", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_start_without_an_answer_is_found(
    fault: Fault, target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_start(target.name, fault)

    runs.expect_one(proxy.post(delivery), delivery)


@pytest.mark.parametrize("fault", NOT_ACCEPTED.values(), ids=NOT_ACCEPTED)
def test_start_of_which_nothing_is_found_keeps_its_claim_until_the_lease_is_over(
    fault: Fault, target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_start(target.name, fault)

    first = proxy.post(delivery)

    assert (first.status, first.outcome) == (500, "unreleased")
    assert target.name in runs.said(delivery)
    assert runs.operations(delivery) == []
    runs.expect_one(proxy.post_until_over(delivery)[-1], delivery)


@pytest.mark.parametrize("fault", [faults.UNAVAILABLE, faults.DENIED], ids=["503", "403"])
def test_look_that_fails_after_a_lost_answer_is_repeated(
    fault: Fault, target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_start(target.name, faults.LOST_ANSWER)
    apis.on_look(target.name, Fault(), fault)

    runs.expect_one(proxy.post(delivery), delivery)


def test_forced_run_whose_answer_was_lost_is_found(
    target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = Delivery(target.function, schedule_time=now_text(timedelta(hours=3)))
    apis.on_start(target.name, faults.LOST_ANSWER)

    assert proxy.post(delivery).outcome == "completed"

    assert len(runs.operations(delivery)) == 1


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [faults.TOO_MANY, faults.NOT_READY], ids=["429", "not-ready"])
def test_start_that_is_refused_for_now_is_released(
    fault: Fault, target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_start(target.name, fault)

    first = proxy.post(delivery)

    assert (first.status, first.outcome) == (500, "released")
    runs.expect_one(proxy.post(delivery), delivery)


def test_missing_grant_is_named_and_the_run_happens_once_it_is_there(
    target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_start(target.name, faults.DENIED)

    assert proxy.post(delivery).outcome == "released"

    assert target.roles[0] in runs.said(delivery)
    assert target.name in runs.said(delivery)
    runs.expect_one(proxy.post(delivery), delivery)


@pytest.mark.parametrize("missing", MISSING, ids=lambda target: target.function)
def test_missing_target_is_named_and_the_run_happens_once_it_is_there(
    missing: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = missing.new_delivery()

    assert proxy.post(delivery).outcome == "released"

    assert missing.name in runs.said(delivery)
    apis.add(missing.name)
    runs.expect_one(proxy.post(delivery), delivery)


def test_start_that_will_always_be_refused_ends_the_run(
    target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_start(target.name, faults.INVALID)

    first = proxy.post(delivery)

    assert (first.status, first.outcome) == (200, "failed")
    assert target.name in runs.said(delivery)
    assert proxy.post(delivery).outcome == "duplicate"
    assert runs.operations(delivery) == []


NO_LOOK = {
    "unavailable": faults.UNAVAILABLE,
    "answer-lost": faults.LOST_ANSWER,
    "answer-unreadable": faults.UNREADABLE,
    "too-many": faults.TOO_MANY,
}


@pytest.mark.parametrize("fault", NO_LOOK.values(), ids=NO_LOOK)
def test_without_a_look_nothing_is_started(
    fault: Fault, target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_look(target.name, fault)

    first = proxy.post(delivery)

    assert (first.status, first.outcome) == (500, "released")
    assert runs.operations(delivery) == []
    runs.expect_one(proxy.post(delivery), delivery)


def test_missing_grant_to_look_is_named(
    target: Target, proxy: Handler, runs: Runs, apis: Apis
) -> None:
    delivery = target.new_delivery()
    apis.on_look(target.name, faults.DENIED)

    assert proxy.post(delivery).outcome == "released"

    assert target.roles[1] in runs.said(delivery)
    assert target.name in runs.said(delivery)
    assert runs.operations(delivery) == []


def test_connection_that_is_refused_releases_the_run(lab: Lab) -> None:
    with Apis() as gone:
        pass
    with starting(lab, gone, TARGETS) as proxy:
        for target in TARGETS:
            answer = proxy.post(target.new_delivery())
            assert (answer.status, answer.outcome) == (500, "released")


# --- Many at once, and the end of a process -------------------------------------------------------


def test_ten_deliveries_at_once_start_one(target: Target, proxy: Handler, runs: Runs) -> None:
    delivery = target.new_delivery()

    answers = proxy.post_all([delivery] * 10)

    outcomes = [answer.outcome for answer in answers]
    assert outcomes.count("completed") == 1
    assert set(outcomes) <= {"completed", "in_progress", "duplicate"}
    assert len(runs.operations(delivery)) == 1


def test_start_of_a_process_that_was_killed_before_it_recorded_is_adopted(
    target: Target, lab: Lab, apis: Apis, runs: Runs
) -> None:
    delivery = target.new_delivery()
    accepted, hold = threading.Event(), threading.Event()

    def answer_later() -> None:
        accepted.set()
        hold.wait(PATIENCE_SECONDS)

    apis.on_start(target.name, Fault(wait=answer_later))
    with ThreadPoolExecutor(1) as pool, starting(lab, apis, [target]) as first:
        cut = pool.submit(first.post, delivery)
        assert accepted.wait(PATIENCE_SECONDS)
        first.kill()
        hold.set()
        assert isinstance(cut.exception(PATIENCE_SECONDS), OSError)
    with starting(lab, apis, [target]) as second:
        answers = second.post_until_over(delivery)

    assert len(answers) > 1, "the claim of the killed attempt stands until its lease is over"
    runs.expect_one(answers[-1], delivery)


def test_operation_behind_pages_of_newer_ones_is_found(lab: Lab) -> None:
    deliveries = [target.new_delivery() for target in TARGETS]
    with Apis(page_size=2) as apis:
        for target in TARGETS:
            apis.add(target.name)
        with starting(lab, apis, TARGETS) as first:
            runs = Runs(apis, lab, first)
            for delivery in deliveries:
                runs.expect_one(first.post(delivery), delivery)
            first.post_all([target.new_delivery() for target in TARGETS for _ in range(5)])
        for delivery in deliveries:
            lab.backend.delete(delivery.key)  # as if the first attempt had not come to record it
        with starting(lab, apis, TARGETS) as second:
            for delivery in deliveries:
                runs.expect_one(second.post(delivery), delivery)


# --- What remains ---------------------------------------------------------------------------------


def test_operation_that_no_list_shows_within_the_lease_is_started_again_with_the_same_token(
    target: Target, lab: Lab
) -> None:
    """The window that no caller can close: the target itself must refuse the second one."""
    delivery = target.new_delivery()
    with Apis(list_lag=timedelta(hours=1)) as lagging:
        lagging.add(target.name)
        lagging.on_start(target.name, faults.LOST_ANSWER)
        with starting(lab, lagging, [target]) as proxy:
            answers = proxy.post_until_over(delivery)
            while answers[-1].outcome in ("unreleased", "in_progress"):
                answers += proxy.post_until_over(delivery)
        first, second = lagging.started(target.name)

    assert [answers[0].outcome, answers[-1].outcome] == ["unreleased", "completed"]
    assert first.token == second.token == delivery.key.id
