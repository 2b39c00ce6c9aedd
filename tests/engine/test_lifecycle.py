"""What `pulumi` does to the example stacks, from nothing to nothing."""

from collections.abc import Mapping
from datetime import date

import pytest

from tests.engine.conftest import Example
from tests.support.engine import IMAGE, PROJECT_NUMBER, Engine, Stack

OTHER_IMAGE = IMAGE[:-1] + "1"


def left(engine: Engine) -> list[str]:
    """What exists, but for the APIs that were switched on."""
    return [
        id_ for id_, one in engine.things().items() if one["type"] != "gcp:projects/service:Service"
    ]


def test_deployed_stack_previews_without_a_change(example: Example) -> None:
    assert example.second_preview.changed == []


def test_second_up_changes_nothing(dev: Stack) -> None:
    before = len(dev.engine.calls())

    assert dev.up().raise_for_status().changed == []
    methods = {call["method"] for call in dev.engine.calls()[before:]}
    assert not methods & {"create", "update", "delete"}


def test_refresh_of_a_deployed_stack_finds_no_drift(prod: Stack) -> None:
    assert prod.refresh().raise_for_status().changed == []
    assert prod.preview().raise_for_status().changed == []


def test_job_deleted_by_hand_is_found_by_refresh_and_made_again(dev: Stack) -> None:
    dev.engine.lose("projects/a-project/locations/europe-west1/jobs/scheduled-once-nightly-report")

    (lost,) = dev.refresh().raise_for_status().changed
    assert (lost.operation, lost.name) == ("delete", "nightly-report")
    (made,) = dev.up().raise_for_status().changed
    assert (made.operation, made.name) == ("create", "nightly-report")


def test_one_changed_job_touches_one_resource(dev: Stack) -> None:
    jobs = dev.settings["jobs"]
    jobs[0]["schedule"] = "15 4 * * *"
    dev.configure({"jobs": jobs})

    (step,) = dev.up().raise_for_status().changed

    assert (step.operation, step.name, step.differing) == ("update", jobs[0]["name"], ("schedule",))


def test_new_image_touches_the_services_only(prod: Stack) -> None:
    prod.configure({"image": OTHER_IMAGE})

    changed = prod.up().raise_for_status().changed

    assert {(step.operation, step.type, step.name) for step in changed} == {
        ("update", "gcp:cloudrunv2/service:Service", name) for name in prod.settings["services"]
    }


def test_longer_timeout_moves_the_service_and_all_its_jobs_together(dev: Stack) -> None:
    dev.configure({"services": {"handler": {"timeout": "10m"}}})

    result = dev.up().raise_for_status()

    assert {step.operation for step in result.changed} == {"update"}
    assert result.one("service:Service", "handler").inputs["template"]["timeout"] == "600s"
    assert {step.inputs["attemptDeadline"] for step in result.of("job:Job")} == {"600s"}


def test_renamed_stack_replaces_the_old_names_before_it_takes_new_ones(dev: Stack) -> None:
    dev.configure({"name": "renamed"})

    dev.up().raise_for_status()

    assert all("scheduled-once" not in id_ for id_ in left(dev.engine))


def test_destroyed_dev_leaves_nothing_and_comes_up_again(
    dev: Stack, examples: Mapping[str, Example]
) -> None:
    dev.destroy().raise_for_status()
    assert left(dev.engine) == []
    assert dev.export() == []

    assert dev.up().raise_for_status().operations == examples["dev"].up.operations


def test_destroying_prod_is_refused_before_anything_is_touched(prod: Stack) -> None:
    things, calls = prod.engine.things(), len(prod.engine.calls())

    refused = prod.destroy()

    assert not refused.ok
    assert "protected" in refused.errors
    assert prod.engine.things() == things
    assert [call for call in prod.engine.calls()[calls:] if call["method"] == "delete"] == []


def test_prod_without_its_protection_can_be_destroyed(prod: Stack) -> None:
    prod.configure({"environment": "dev"})
    switched = prod.up().raise_for_status()
    assert {step.type for step in switched.changed} == {
        "gcp:firestore/database:Database",
        "gcp:cloudrunv2/service:Service",
    }
    prod.destroy().raise_for_status()

    assert left(prod.engine) == []


def test_one_service_leaves_prod_in_two_steps(prod: Stack) -> None:
    jobs = [{**job, "service": "handler"} for job in prod.settings["jobs"]]
    without = {"services": {"handler": prod.settings["services"]["handler"]}, "jobs": jobs}
    before = dict(prod.settings)

    prod.configure(without)
    assert "protected" in prod.preview().errors
    prod.configure({**before, "unprotected": ["reports"]})
    (step,) = prod.up().raise_for_status().changed
    assert (step.operation, step.name, step.differing) == (
        "update",
        "reports",
        ("deletionProtection",),
    )
    prod.configure({**without, "unprotected": None})
    prod.up().raise_for_status()

    assert [id_ for id_ in left(prod.engine) if "-reports" in id_] == []


def test_unprotecting_the_state_of_prod_alone_does_not_delete_the_database(prod: Stack) -> None:
    prod.command("state", "unprotect", "--all", "--yes").raise_for_status()

    assert not prod.destroy().ok
    assert "projects/a-project/databases/scheduled-once" in prod.engine.things()


def test_two_stacks_share_a_project(dev: Stack) -> None:
    second = dev.engine.example("second", {"image": IMAGE, "name": "second"})
    second.up().raise_for_status()

    assert dev.preview().raise_for_status().changed == []
    second.destroy().raise_for_status()
    assert dev.refresh().raise_for_status().changed == []


def test_two_stacks_of_one_name_in_a_project_collide(dev: Stack) -> None:
    collided = dev.engine.example("second", {"image": IMAGE}).up()

    assert not collided.ok
    assert "Error 409" in collided.errors


def test_wrong_project_number_stops_the_first_up(engine: Engine) -> None:
    stack = engine.example("dev", {"image": IMAGE, "projectNumber": "999999999999"})
    stack.preview().raise_for_status()

    stopped = stack.up()

    assert not stopped.ok
    assert "999999999999" in stopped.errors
    assert PROJECT_NUMBER in stopped.errors


def test_bad_configuration_stops_before_the_first_resource_with_every_error(engine: Engine) -> None:
    stack = engine.example("dev", {"image": IMAGE})
    jobs = stack.settings["jobs"]
    jobs[0]["schedule"] = "every 5 minutes"
    jobs[1]["shedule"] = "* * * * *"
    stack.configure({"jobs": jobs})

    stopped = stack.preview()

    assert not stopped.ok
    assert "jobs[0].schedule" in stopped.errors
    assert "jobs[1].shedule" in stopped.errors
    assert engine.calls() == []


@pytest.mark.parametrize("value", [date(2026, 1, 1), 12345678901234567890])
def test_body_that_the_engine_would_change_is_refused(engine: Engine, value: object) -> None:
    stack = engine.example("dev", {"image": IMAGE})
    jobs = stack.settings["jobs"]
    jobs[0]["body"] = {"since": value}
    stack.configure({"jobs": jobs})

    stopped = stack.preview()

    assert "jobs[0].body" in stopped.errors
    assert "since" in stopped.errors
    assert "in quotes" in stopped.errors


@pytest.mark.parametrize("setting", ["gcp:project", "gcp:region", "projectNumber"])
def test_missing_setting_is_named_before_the_first_resource(engine: Engine, setting: str) -> None:
    stack = engine.example("dev", {"image": IMAGE})
    stack.configure({setting: None})

    stopped = stack.preview()

    assert not stopped.ok
    assert setting in stopped.errors
    assert engine.calls() == []


def test_database_in_another_place_has_its_ttl_policies_again(dev: Stack) -> None:
    dev.configure({"database": {"location": "eur3"}})
    calls = len(dev.engine.calls())

    dev.up().raise_for_status()

    made = [call for call in dev.engine.calls()[calls:] if call["method"] == "create"]
    kinds = [call["type"].rpartition(":")[2] for call in made if not call["preview"]]
    assert kinds == ["Database", "Field", "Field"]
    assert dev.refresh().raise_for_status().changed == []
