"""The stack configuration: what is accepted, what is refused, and what the message says."""

import json
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import cron
from infra.config import ConfigError, StackConfig, load
from infra.cron import Schedule
from infra.model import BuildTrigger, CloudRunJob, PubSubSource, Secret, Workflow
from infra.stackfile import read_stack

REPOSITORY = Path(__file__).resolve().parents[2]
NUMBER = {"projectNumber": "123456789012"}
GRANT = {"role": "roles/storage.objectUser", "bucket": "a-bucket"}
FINALIZED = {
    "type": "google.cloud.storage.object.v1.finalized",
    "filters": {"bucket": "a-bucket"},
}
JOB: dict[str, Any] = {"name": "report", "schedule": "0 3 * * *"}


def read(raw: dict[str, Any], **overrides: Any) -> StackConfig:
    return load(
        {**NUMBER, **raw}, **{"project": "a-project", "region": "europe-west1", **overrides}
    )


def read_job(**keys: Any) -> StackConfig:
    return read({"jobs": [{**JOB, **keys}]})


def problems(raw: dict[str, Any], **overrides: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(raw, **overrides)
    return [str(problem) for problem in caught.value.problems]


def only_problem(raw: dict[str, Any], **overrides: Any) -> str:
    found = problems(raw, **overrides)
    assert len(found) == 1, found
    return found[0]


# What is accepted


def test_empty_configuration_has_one_service_and_every_default() -> None:
    config = read({})

    assert config.name == "scheduled-once"
    assert not config.production
    assert config.retention == timedelta(days=7)
    assert config.scheduler_region == "europe-west1"
    assert list(config.services) == ["handler"]
    assert config.services["handler"].timing.timeout == timedelta(minutes=5)
    assert config.database.name == "scheduled-once"
    assert config.jobs == ()
    assert config.warnings == ()


def test_names_follow_from_the_configuration_alone() -> None:
    config = read({"name": "billing"})

    assert config.called("report") == "billing-report"
    assert config.account_email("handler") == "billing-handler@a-project.iam.gserviceaccount.com"
    assert (
        config.service_url("handler") == "https://billing-handler-123456789012.europe-west1.run.app"
    )
    assert config.store == "firestore://a-project/billing"


def test_project_number_needs_no_quotes() -> None:
    assert read({"projectNumber": 123456789012}).project_number == "123456789012"


def test_job_takes_the_timing_of_its_service() -> None:
    config = read(
        {
            "services": {"quick": {"timeout": "30s"}, "slow": {"timeout": "20m"}},
            "jobs": [
                {**JOB, "service": "slow"},
                {**JOB, "name": "ping", "service": "quick", "function": "pong"},
            ],
        }
    )

    slow, quick = config.jobs
    assert slow.timing.lease == timedelta(minutes=21)
    assert slow.retry.max_duration == timedelta(minutes=63)
    assert (slow.function, quick.function) == ("report", "pong")
    assert quick.timing.lease == timedelta(seconds=90)


def test_time_zone_of_the_stack_is_overridden_by_a_job() -> None:
    config = read(
        {"timeZone": "Europe/Berlin", "jobs": [JOB, {**JOB, "name": "b", "timeZone": "UTC"}]}
    )

    assert [job.schedule.zone for job in config.jobs] == ["Europe/Berlin", "UTC"]


@pytest.mark.parametrize("body", [{"a": [1, None]}, [], "text", "", 0, False])
def test_body_is_any_value(body: object) -> None:
    assert read_job(body=body).jobs[0].body == body


def test_start_targets_are_full_names_and_add_the_proxy() -> None:
    config = read(
        {
            "jobs": [
                {
                    **JOB,
                    "name": "a",
                    "start": {"workflow": {"name": "settle", "argument": {"x": [1, {"y": None}]}}},
                },
                {
                    **JOB,
                    "name": "b",
                    "start": {
                        "cloudRunJob": {
                            "name": "projects/other/locations/us-east1/jobs/crunch",
                            "args": ["--all"],
                            "env": {"MODE": "full"},
                        }
                    },
                },
                {
                    **JOB,
                    "name": "c",
                    "start": {
                        "buildTrigger": {
                            "name": "nightly",
                            "location": "global",
                            "branch": "main",
                            "substitutions": {"_TARGET": "prod"},
                        }
                    },
                },
            ]
        }
    )

    assert config.starts == {
        "a": Workflow(
            "projects/a-project/locations/europe-west1/workflows/settle",
            {"x": [1, {"y": None}]},
        ),
        "b": CloudRunJob(
            "projects/other/locations/us-east1/jobs/crunch", ("--all",), {"MODE": "full"}
        ),
        "c": BuildTrigger(
            "projects/a-project/locations/global/triggers/nightly",
            "main",
            None,
            {"_TARGET": "prod"},
        ),
    }
    assert [job.service for job in config.jobs] == ["proxy", "proxy", "proxy"]
    assert config.services["proxy"].timing == config.jobs[0].timing


def test_app_engine_job_has_no_service_and_a_timeout_of_its_own() -> None:
    (job,) = read_job(appEngine={"service": "api", "relativeUri": "/run", "timeout": "10m"}).jobs

    assert job.service is None
    assert job.app_engine is not None
    assert job.app_engine.relative_uri == "/run"
    assert job.timing.timeout == timedelta(minutes=10)


@pytest.mark.parametrize(
    "place", ["", "projects/a-project/secrets/", "projects/123456789012/secrets/"]
)
def test_secret_of_the_stacks_project_is_known_by_its_short_name(place: str) -> None:
    config = read({"services": {"handler": {"secrets": {"KEY": f"{place}key:2"}}}})

    assert config.services["handler"].secrets["KEY"] == Secret("key", "2")


@pytest.mark.parametrize(
    ("cpu", "found"), [(1.0, "1"), ("2.0", "2"), (0.125, "0.125"), ("0.08", "0.08")]
)
def test_number_of_cpus_is_written_as_cloud_run_does(cpu: object, found: str) -> None:
    config = read({"services": {"handler": {"cpu": cpu, "concurrency": 1}}})

    assert config.services["handler"].cpu == found


def test_key_with_nothing_after_it_is_an_empty_mapping() -> None:
    config = read({"events": [{"name": "orders", "pubsub": None}], "alerts": None})

    assert isinstance(config.events[0].source, PubSubSource)
    assert config.alert_channels == ()
    assert problems({"jobs": [{**JOB, "start": {"workflow": None}}]}) == [
        "jobs[0].start.workflow.name: is missing: the workflow's name"
    ]


# What is refused: single values


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("every 5 minutes", "has 3 fields where unix-cron has five"),
        ("0 0 3 * * *", "has 6 fields where unix-cron has five"),
        ("@daily", "has 1 fields"),
        ("61 * * * *", "minute '61' is not valid: it takes 0-59"),
        ("* 24 * * *", "hour '24' is not valid: it takes 0-23"),
        ("* * 0 * *", "day of the month '0' is not valid"),
        ("* * * 13 *", "month '13' is not valid"),
        ("* * * * 8", "day of the week '8' is not valid"),
        ("* * L * *", "Cloud Scheduler knows no L"),
        ("* * * * MON#2", "Cloud Scheduler knows no L, W, # or ?"),
        ("* * ? * *", "Cloud Scheduler knows no L, W, # or ?"),
        ("* * * * mon", "with names in upper case"),
        ("* * * MON *", "month 'MON' is not valid"),
        ("JAN * * * *", "minute 'JAN' is not valid"),
        ("5/10 * * * *", "a step only after * or a range"),
        ("*/0 * * * *", "minute '*/0' is not valid"),
        ("30-10 * * * *", "a range goes upwards"),
        ("1,,2 * * * *", "minute '' is not valid"),
        ("1- * * * *", "minute '1-' is not valid"),
        ("-1 * * * *", "minute '-1' is not valid"),
        ("1,2- * * * *", "minute '2-' is not valid"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6 *", "never fires"),
    ],
)
def test_bad_schedule_is_refused_with_its_field(expression: str, reason: str) -> None:
    found = only_problem({"jobs": [{**JOB, "schedule": expression}]})

    assert found.startswith(f'jobs[0].schedule: "{expression}" ')
    assert reason in found


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "*/15 0-6,20-23/2 1,15 JAN,JUN-AUG MON-FRI",
        "0 0 29 2 *",
        "0 0 * * 7",
        "0 0 31 2 MON",
        "59 23 31 12 SUN",
    ],
)
def test_unix_cron_is_accepted(expression: str) -> None:
    assert read_job(schedule=expression).jobs[0].schedule.expression == expression


@pytest.mark.parametrize(
    ("zone", "reason"),
    [
        ("EST", "is an abbreviation"),
        ("CET", "write Area/Location"),
        ("GMT", "is an abbreviation"),
        ("Mars/Base", "is no time zone of the IANA database"),
        ("CEST", "for example Europe/Berlin"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("+02:00", "is no time zone"),
    ],
)
def test_bad_time_zone_is_refused_with_what_to_write(zone: str, reason: str) -> None:
    assert reason in only_problem({"jobs": [{**JOB, "timeZone": zone}]})


@pytest.mark.parametrize(
    ("timeout", "reason"),
    [
        ("45m", "is not from 15s to 30m"),
        ("14s", "is not from 15s to 30m"),
        (90, "has no unit: write 90s for seconds or 90m for minutes"),
        ("5", "is not a duration: write 90s, 5m, 1h30m or 7d"),
        ("five minutes", "is not a duration"),
        ("-5m", "is not a duration"),
        (True, "is not a string"),
    ],
)
def test_bad_timeout_is_refused(timeout: object, reason: str) -> None:
    found = only_problem({"services": {"handler": {"timeout": timeout}}})

    assert found.startswith(f"services.handler.timeout: {json.dumps(timeout)} ")
    assert reason in found


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("User-Agent", "Cloud Scheduler replaces it"),
        ("Host", "Cloud Scheduler sets it"),
        ("X-Google-Foo", "Google replaces it"),
        ("x-appengine-x", "Google replaces it"),
        ("Content-Length", "Cloud Scheduler computes it"),
        ("Content-Type", "always sent as application/json"),
        ("Authorization", "the token of the scheduler's account stands there"),
        ("X-CloudScheduler-JobName", "Cloud Scheduler sets it"),
        ("X-CloudScheduler", "Cloud Scheduler sets it"),
        ("X-Scheduler-Function", "the program sets it"),
        ("two words", "is no header name"),
    ],
)
def test_header_that_is_not_the_users_is_refused(header: str, reason: str) -> None:
    found = only_problem({"jobs": [{**JOB, "headers": {header: "x"}}]})

    assert found.startswith(f"jobs[0].headers.{header}: ")
    assert reason in found


def test_header_value_that_is_no_text_is_refused() -> None:
    headers = {"X-N": 1, "X-M": True, "Host": "h"}

    assert problems({"jobs": [{**JOB, "headers": headers}]}) == [
        'jobs[0].headers.X-N: 1 is not a string: write it in quotes, "1"',
        'jobs[0].headers.X-M: true is not a string: write it in quotes, "true"',
        'jobs[0].headers.Host: "Host" cannot be set: Cloud Scheduler sets it from the URL',
    ]
    assert "printable ASCII" in only_problem({"jobs": [{**JOB, "headers": {"X-N": "a\nb"}}]})


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ({"name": "x" * 25}, 'name: "xxxxxxxxxxxxxxxxxxxxxxxxx" takes 4 to 20'),
        ({"name": "Upper"}, "takes 4 to 20 of a-z"),
        ({"name": "google-jobs"}, "though not with goog"),
        ({"labels": {f"l{number}": "x" for number in range(64)}}, "labels: 64 are too many"),
        ({"database": {"name": "a1234567-1234-1234-1234-123456789abc"}}, "not like a UUID"),
        ({"services": {"handler": {"env": {"A": "é" * 16385}}}}, "has 32770 bytes: at most 32768"),
        ({"services": {"handler": {"cpu": "0.1255"}}}, "is no number of CPUs: 0.08 to 0.999"),
        (
            {"jobs": [{**JOB, "headers": {"X-N": "1", "x-n": "2"}}]},
            "headers.x-n: is the same header as X-N",
        ),
        (
            {
                "services": {
                    "handler": {
                        "roles": [
                            {"role": "roles/pubsub.publisher", "topic": "news"},
                            {
                                "role": "roles/pubsub.publisher",
                                "topic": "projects/a-project/topics/news",
                            },
                        ]
                    }
                }
            },
            "services.handler.roles[1]: is given twice",
        ),
        ({"events": [{"name": "orders-dead", "pubsub": {}}]}, "does not end in -dead"),
        ({"environment": "production"}, 'environment: "production" is not known; it is one of dev'),
        ({"projectNumber": "my-project"}, "is no project number"),
        ({"projectNumber": 1234}, "is no project number"),
        ({"image": "gcr.io/p/handler:latest"}, "is no digest"),
        ({"labels": {"Team": "x"}}, "labels.Team: "),
        ({"labels": {"team": "A B"}}, "is no label value"),
        ({"alerts": {"channels": ["me@example.com"]}}, "alerts.channels[0]: "),
        ({"jobs": "report"}, 'jobs: "report" is not a list'),
        ({"jobs": ["report"]}, 'jobs[0]: "report" is not a mapping'),
        ({"jobs": [{**JOB, "name": "a name"}]}, 'jobs[0].name: "a name" takes letters, digits'),
        ({"jobs": [{**JOB, "paused": "yes"}]}, "is neither true nor false"),
        ({"jobs": [{**JOB, "service": "handlr"}]}, "did you mean handler?"),
        ({"jobs": [{**JOB, "service": "other"}]}, "is not under services; there is handler"),
        ({"jobs": [{**JOB, "shedule": "x"}]}, "is not a known key; did you mean schedule?"),
        ({"jobs": [{**JOB, "retry": {"count": 6}}]}, "is not a whole number from 0 to 5"),
        ({"jbos": []}, "jbos: [] is not a known key; did you mean jobs?"),
        ({"services": {"proxy": {}}}, "is a name that the program needs itself"),
        ({"services": {"a_b": {}}}, "services.a_b: "),
        ({"services": {"h" * 16: {}}}, "of 31 characters; 6 to 30 are allowed"),
        ({"services": {"handler": {"cpu": 3}}}, "is no number of CPUs"),
        ({"services": {"handler": {"cpu": "0.5"}}}, "is more than a share of one CPU may serve"),
        ({"services": {"handler": {"memory": "1GB"}}}, "write 512Mi or 2Gi"),
        ({"services": {"handler": {"cpu": 4}}}, "with cpu 4: 2Gi to 16Gi"),
        ({"services": {"handler": {"cpu": 8, "memory": "3Gi"}}}, "with cpu 8: 4Gi to 32Gi"),
        ({"services": {"handler": {"memory": "64Mi"}}}, "with cpu 1: 128Mi to 4Gi"),
        ({"services": {"handler": {"minInstances": 11}}}, "is more than maxInstances"),
        ({"services": {"handler": {"env": {"ONCE_STORE": "x"}}}}, "is set by the program"),
        ({"services": {"handler": {"env": {"THREADS": "9"}}}}, "is set by the program"),
        ({"services": {"handler": {"secrets": {"KEY": "a b"}}}}, "write NAME or NAME:VERSION"),
        (
            {"services": {"handler": {"env": {"KEY": "x"}, "secrets": {"KEY": "k"}}}},
            "is set under env too",
        ),
        (
            {"services": {"handler": {"roles": [{**GRANT, "role": "roles/editor"}]}}},
            "is a basic role",
        ),
        (
            {"services": {"handler": {"roles": [{"role": "roles/storage.objectUser"}]}}},
            "names no single resource",
        ),
        (
            {"services": {"handler": {"roles": [GRANT, GRANT]}}},
            "services.handler.roles[1]: is given twice",
        ),
        (
            {"unprotected": ["reports"]},
            'unprotected[0]: "reports" is no service of this stack; there is handler',
        ),
        ({"database": {"name": "(default)"}}, "exists once per project"),
        ({"database": {"location": "mars"}}, "is no location of Firestore"),
        ({"retention": "99999999999d"}, "is longer than 36500d"),
        ({"services": {"handler": {"memory": "8Gi"}}}, "with cpu 1: 128Mi to 4Gi"),
        (
            {"services": {"handler": {"cpu": 0.25, "concurrency": 1, "memory": "1Gi"}}},
            "with cpu 0.25: 128Mi to 512Mi",
        ),
        ({"services": {"handler": {"env": {"FUNCTION_TARGET": "f"}}}}, "is set by the program"),
        ({"services": {"handler": {"env": {"PUBSUB_EMULATOR_HOST": "h"}}}}, "would lead away"),
        (
            {"services": {"handler": {"roles": [{**GRANT, "bucket": "gs://a/b"}]}}},
            "is no bucket's name: without gs://",
        ),
        ({"image": True}, 'write it in quotes, "true"'),
        ({"alerts": {"channels": [5]}}, "alerts.channels[0]: 5 is not a string"),
        ({"jobs": [{**JOB, "body": {"a": [date(2026, 1, 1)]}}]}, "has a date at a[0]"),
        ({"jobs": [{**JOB, "body": "2026-01-01 00:00:00 +0000 UTC"}]}, "has a date"),
        ({"jobs": [{**JOB, "body": 10**400}]}, "has a number that JSON does not"),
        ({"jobs": [{**JOB, "body": {"a": float("nan")}}]}, "has a number at a that JSON does not"),
        (
            {"jobs": [{**JOB, "start": {"workflow": {"name": "w", "argument": {"n": 2**60}}}}]},
            "jobs[0].start.workflow.argument: ",
        ),
        ({"database": {"manageFields": False}}, "is needed for a new database"),
    ],
)
def test_bad_value_is_refused(raw: dict[str, Any], found: str) -> None:
    assert found in only_problem(raw)


# What is refused: values that do not fit together


@pytest.mark.parametrize("missing", ["project", "region"])
def test_missing_provider_setting_is_told_with_its_command(missing: str) -> None:
    found = only_problem({}, **{missing: None})

    assert found.startswith(f"gcp:{missing}: is missing: pulumi config set gcp:{missing} ")


def test_missing_project_number_is_told_with_its_command() -> None:
    found = only_problem({"projectNumber": ""})

    assert "gcloud projects describe" in found


def test_two_jobs_of_one_name_are_refused() -> None:
    assert only_problem({"jobs": [JOB, JOB]}) == 'jobs[1].name: "report" names two jobs'


def test_job_without_service_is_refused_where_there_are_several() -> None:
    found = only_problem({"services": {"one": {}, "two": {}}, "jobs": [JOB]})

    assert found == "jobs[0].service: is missing: one of one, two"


def test_retry_that_ends_before_the_lease_is_refused_with_the_duration_that_works() -> None:
    retry = {"count": 0, "maxDuration": "0s"}
    found = only_problem({"jobs": [{**JOB, "retry": retry}]})

    assert found.startswith("jobs[0].retry: ")
    assert "maxDuration of at least 12m would work" in found
    assert read_job(retry={**retry, "maxDuration": "12m"}).jobs[0].retry.count == 0
    assert only_problem({"jobs": [{**JOB, "retry": {**retry, "maxDuration": "11m9s"}}]})


def test_shortest_wait_longer_than_the_longest_is_refused() -> None:
    found = only_problem({"jobs": [{**JOB, "retry": {"minBackoff": "2m"}}]})

    assert "is longer than maxBackoff, which is 60s" in found


def test_retention_shorter_than_the_retries_is_refused_with_what_is_needed() -> None:
    found = only_problem({"retention": "1m", "jobs": [JOB]})

    assert found.startswith('retention: "1m" is over before the last retry of report')
    assert "more than 24m is needed" in found
    assert only_problem({"retention": "24m", "jobs": [JOB]})
    assert read({"retention": "24m1s", "jobs": [JOB]})


@pytest.mark.parametrize(
    "other", [{"service": "handler"}, {"service": "missing"}, {"appEngine": {}}]
)
def test_two_targets_are_refused(other: dict[str, Any]) -> None:
    found = only_problem({"jobs": [{**JOB, **other, "start": {"workflow": {"name": "w"}}}]})

    (second,) = other
    assert found == f"jobs[0]: has more than one target: {', '.join(sorted([second, 'start']))}"


@pytest.mark.parametrize(
    ("target", "service"),
    [({"start": {"workflow": {"name": "w"}}}, "proxy"), ({"appEngine": {}}, None)],
)
def test_job_with_another_target_names_no_service_where_there_are_several(
    target: dict[str, Any], service: str | None
) -> None:
    config = read({"services": {"one": {}, "two": {}}, "jobs": [{**JOB, **target}]})

    assert config.jobs[0].service == service


@pytest.mark.parametrize(
    ("start", "path"),
    [
        ({"workflow": {"name": "w", "argument": {"idempotency_token": 1}}}, "argument"),
        ({"cloudRunJob": {"name": "j", "env": {"IDEMPOTENCY_TOKEN": "x"}}}, "env"),
        ({"buildTrigger": {"name": "t", "substitutions": {"_IDEMPOTENCY_TOKEN": "x"}}}, "subst"),
    ],
)
def test_users_key_in_the_place_of_the_token_is_refused(start: dict[str, Any], path: str) -> None:
    found = only_problem({"jobs": [{**JOB, "start": start}]})

    assert path in found
    assert "is where the run's own token goes" in found


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ({}, "needs exactly one of"),
        ({"workflow": {"name": "a"}, "cloudRunJob": {"name": "b"}}, "needs exactly one of"),
        ({"workflow": {}}, "jobs[0].start.workflow.name: is missing"),
        ({"workflow": {"name": "Bad Name!"}}, "takes letters, digits, - and _ only"),
        ({"buildTrigger": {"name": "t", "location": "nowhere9"}}, "is no location"),
        ({"workflow": {"name": "projects/p/workflows/w"}}, "is no full name"),
        ({"buildTrigger": {"name": "t", "branch": "a", "tag": "b"}}, "has a branch and a tag"),
        ({"buildTrigger": {"name": "t", "substitutions": {"x": "y"}}}, "is no user substitution"),
        ({"pipeline": {}}, "is not a known key"),
    ],
)
def test_bad_start_is_refused(start: dict[str, Any], reason: str) -> None:
    assert any(reason in found for found in problems({"jobs": [{**JOB, "start": start}]}))


def test_start_that_is_no_mapping_is_one_problem() -> None:
    found = only_problem({"jobs": [{**JOB, "start": {"workflow": "w"}}]})

    assert found == 'jobs[0].start.workflow: "w" is not a mapping (key: value)'


@pytest.mark.parametrize(
    "account",
    ["builder@a-project.iam.gserviceaccount.com", "123-compute@developer.gserviceaccount.com"],
)
def test_build_may_run_as_an_own_account_or_the_default_one(account: str) -> None:
    trigger = {"name": "t", "location": "global", "serviceAccount": account}
    start = read_job(start={"buildTrigger": trigger}).jobs[0].start

    assert isinstance(start, BuildTrigger)
    assert start.service_account == account


def test_body_and_function_have_no_use_next_to_start() -> None:
    found = problems(
        {"jobs": [{**JOB, "start": {"workflow": {"name": "w"}}, "body": 1, "function": "f"}]}
    )

    assert len(found) == 2
    assert all("has no use next to start" in one for one in found)


def test_secret_is_refused_wherever_it_stands_in_a_file() -> None:
    found = only_problem({"jobs": [{**JOB, "body": {"key": {"secure": "AAAA"}}}]})

    assert found.startswith("jobs[0].body.key: holds a secret")
    assert "Secret Manager" in found


def test_secret_key_of_the_engine_is_refused() -> None:
    found = only_problem({"jobs": [JOB]}, secret_keys=["jobs"])

    assert found.startswith("jobs: holds a secret")
    assert "0 3 * * *" not in found


def test_all_problems_are_told_at_once_in_one_message() -> None:
    with pytest.raises(ConfigError) as caught:
        read(
            {
                "name": "x" * 25,
                "retention": "1m",
                "services": {"handler": {"timeout": 90}},
                "jobs": [{**JOB, "schedule": "61 * * * *"}, {"name": "b", "shedule": "* * * * *"}],
            },
            project=None,
        )

    paths = [problem.path for problem in caught.value.problems]
    assert paths == [
        "gcp:project",
        "name",
        "services.handler.timeout",
        "jobs[0].schedule",
        "jobs[1].schedule",
        "jobs[1].shedule",
        "retention",
    ]
    message = str(caught.value)
    assert message.startswith("the stack configuration has 7 problems:\n  - gcp:project: ")
    assert message.count("\n") == 7


# Events


def read_event(**keys: Any) -> StackConfig:
    return read({"events": [{"name": "orders", **keys}]})


def event_problem(**keys: Any) -> str:
    return only_problem({"events": [{"name": "orders", **keys}]})


def test_subscription_has_dead_letters_and_waits_that_outlast_the_lease() -> None:
    config = read_event(pubsub={})
    (event,) = config.events
    assert isinstance(event.source, PubSubSource)

    assert config.topic(event) == "projects/a-project/topics/scheduled-once-orders"
    assert config.dead_letter_topic(event) == f"{config.topic(event)}-dead"
    assert event.source.max_attempts == 10
    # The lease is 6 min: nine waits of 40 s.
    assert event.source.min_backoff == timedelta(seconds=40)
    assert event.source.max_backoff == timedelta(minutes=10)
    assert event.source.retention == timedelta(days=7)


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ({"pubsub": {}}, "7d"),
        ({"pubsub": {"retention": "2d"}}, "2d"),
        ({"eventarc": FINALIZED}, "1d"),
    ],
)
def test_record_outlives_the_last_delivery_of_its_event(
    source: dict[str, Any], needed: str
) -> None:
    events = [{"name": "orders", **source}]

    found = only_problem({"retention": "23h", "events": events})

    assert found.startswith('retention: "23h" is over while orders can still be delivered again')
    assert f"at least {needed} is needed" in found
    assert read({"retention": needed, "events": events})


@pytest.mark.parametrize("topic", ["audit", "projects/other/topics/audit"])
def test_existing_topic_is_not_the_stacks_own(topic: str) -> None:
    config = read_event(pubsub={"topic": topic})

    full = topic if "/" in topic else f"projects/a-project/topics/{topic}"
    assert config.topic(config.events[0]) == full


def test_dead_letters_can_be_switched_off() -> None:
    config = read_event(pubsub={"deadLetter": False, "immediate": True})
    (event,) = config.events
    assert isinstance(event.source, PubSubSource)

    assert config.dead_letter_topic(event) is None
    assert event.source.max_backoff == timedelta()


@pytest.mark.parametrize(
    ("pubsub", "reason"),
    [
        ({"minBackoff": "10s"}, "uses up the 10 delivery attempts"),
        ({"minBackoff": "39s"}, "at least 40s would work"),
        ({"immediate": True}, "uses up the 10 delivery attempts"),
        ({"minBackoff": "11m"}, "is longer than 10m, Pub/Sub's limit"),
        ({"minBackoff": "5m", "maxBackoff": "4m"}, "is longer than maxBackoff"),
        ({"deadLetter": {"maxAttempts": 4}}, "is not a whole number from 5 to 100"),
        ({"retention": "9m"}, "is not from 10m to 7d"),
        ({"retention": "20m"}, "lost unseen; at least 21m would work"),
        ({"topic": "audit", "bucket": "a-bucket"}, "has a topic and a bucket"),
        ({"topik": "t1"}, "did you mean topic?"),
        ({"bucket": "gs://foo"}, "without gs://"),
        ({"deadLetter": True}, "write false, or {maxAttempts: 10}"),
        ({"immediate": True}, "events[0].pubsub.immediate: true uses up"),
        (
            {"deadLetter": False, "immediate": True, "maxBackoff": "10s"},
            "has no use next to immediate",
        ),
    ],
)
def test_subscription_that_would_lose_what_can_succeed_is_refused(
    pubsub: dict[str, Any], reason: str
) -> None:
    assert reason in event_problem(pubsub=pubsub)


def test_age_limit_outlasts_a_crashed_attempt() -> None:
    assert "dropped unseen; at least 21m would work" in event_problem(pubsub={}, maxAge="20m")
    assert read_event(pubsub={}, maxAge="21m").events[0].max_age == timedelta(minutes=21)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"pubsub": {"deadLetter": False}, "maxAttempts": 9}, "has no effect"),
        ({"pubsub": {}, "maxAttempts": 11}, "is never reached: after 10 it is a dead letter"),
        ({"pubsub": {}, "maxAttempts": 5}, "can be used up while a crashed attempt"),
        (
            {"eventarc": FINALIZED, "maxAttempts": 9},
            "has no effect",
        ),
    ],
)
def test_attempt_limit_of_the_handler_is_refused_where_it_cannot_hold(
    keys: dict[str, Any], reason: str
) -> None:
    assert reason in event_problem(**keys)


def test_service_that_takes_events_answers_within_pubsubs_deadline() -> None:
    found = only_problem(
        {
            "services": {"handler": {"timeout": "11m"}},
            "events": [{"name": "orders", "pubsub": {}}],
        }
    )

    assert found.startswith("services.handler.timeout: ")
    assert "10m at most" in found


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({}, "needs exactly one of"),
        ({"pubsub": None, "eventarc": None}, "needs exactly one of"),
        ({"pubsub": {}, "eventarc": {"type": "t"}}, "needs exactly one of"),
        ({"eventarc": {}}, "events[0].eventarc.type: is missing"),
        ({"eventarc": {"type": "finalized"}}, "is no CloudEvents type"),
        ({"eventarc": {**FINALIZED, "filters": {}}}, "filters: needs bucket for google.cloud"),
        (
            {"eventarc": {"type": "google.cloud.firestore.document.v1.written"}},
            "needs database",
        ),
        (
            {"eventarc": {"type": "google.cloud.audit.log.v1.written"}},
            "needs methodName, serviceName",
        ),
        ({"eventarc": {"type": "google.cloud.datastore.entity.v1.written"}}, "needs database"),
        (
            {"eventarc": {**FINALIZED, "filters": {}, "pathPatterns": {"bucket": "a*"}}},
            "filters: needs bucket",
        ),
        ({"eventarc": {**FINALIZED, "filters": {"bucket": ""}}}, 'filters.bucket: "" is empty'),
        (
            {"eventarc": {**FINALIZED, "pathPatterns": {"bucket": "a*"}}},
            "pathPatterns.bucket: stands under filters too",
        ),
        ({"pubsub": {"filter": "x" * 257}}, "has 257 bytes: at most 256"),
        (
            {"eventarc": {"type": "a.b", "filters": {"type": "a.b"}}},
            "eventarc.filters.type: is given by eventarc.type",
        ),
        (
            {"eventarc": {"type": "google.cloud.pubsub.topic.v1.messagePublished"}},
            "use pubsub, which has retries and a dead-letter topic",
        ),
    ],
)
def test_bad_event_source_is_refused(keys: dict[str, Any], reason: str) -> None:
    assert reason in event_problem(**keys)


def test_two_events_of_one_name_are_refused() -> None:
    event = {"name": "orders", "pubsub": {}}

    assert "names two events" in only_problem({"events": [event, event]})


# The worked example


def test_example_is_added_beside_the_stacks_own_jobs() -> None:
    config = read({"examples": True, "jobs": [JOB]})

    assert list(config.services) == ["handler", "booking", "proxy"]
    assert [job.name for job in config.jobs] == ["report", "example"]
    start = config.starts["example"]
    assert isinstance(start, Workflow)
    assert start.argument["url"] == config.service_url("booking")


@pytest.mark.parametrize("name", ["booking", "workflow"])
def test_names_of_the_example_are_refused_for_others(name: str) -> None:
    found = only_problem({"examples": True, "services": {name: {}}, "jobs": [JOB]})

    assert found.startswith(f"services.{name}: is a name of the worked example")


# Warnings


@pytest.mark.parametrize(
    ("schedule", "timeout", "advice"),
    [
        ("*/5 * * * *", "5m", "a timeout of 3m59s would fit"),
        ("0,1 * * * *", "15s", "no timeout is short enough"),
        ("55 23,0 * * *", "30m", None),
        ("50,10 * * * *", "20m", "a timeout of 18m59s would fit"),
        ("*/15 * * * *", "13m", None),
        ("*/15 * * * *", "14m", "a timeout of 13m59s would fit"),
    ],
)
def test_period_not_longer_than_the_lease_is_warned_of(
    schedule: str, timeout: str, advice: str | None
) -> None:
    config = read(
        {
            "services": {"handler": {"timeout": timeout}},
            "jobs": [{**JOB, "schedule": schedule}],
        }
    )

    if advice is None:
        assert config.warnings == ()
    else:
        (warning,) = config.warnings
        assert warning.startswith("jobs[0].schedule: report runs every ")
        assert advice in warning


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ({"appEngine": {}}, "an appEngine.timeout of 3m59s would fit"),
        ({"start": {"workflow": {"name": "w"}}, "schedule": "* * * * *"}, "no timeout is short"),
        ({"start": {"workflow": {"name": "w"}}, "schedule": "*/2 * * * *"}, "timeout is fixed"),
    ],
)
def test_advice_is_what_the_target_lets_one_set(target: dict[str, Any], advice: str) -> None:
    (warning,) = read_job(**{"schedule": "*/5 * * * *", **target}).warnings

    assert advice in warning


@pytest.mark.parametrize(
    ("more", "warned"),
    [({}, True), ({"manageFields": False}, False), ({"manageFields": True}, False)],
)
def test_database_that_nobody_configures_is_warned_of(more: dict[str, Any], warned: bool) -> None:
    config = read({"database": {"name": "(default)", "create": False, **more}})

    assert bool(config.warnings) is warned
    assert all("database.manageFields: true" in warning for warning in config.warnings)


# Schedules


def test_next_runs_keep_the_local_time_across_a_clock_change() -> None:
    schedule = Schedule("30 6 * * *", "Europe/Berlin")
    times = islice(schedule.after(datetime(2026, 10, 24, 0, 0, tzinfo=UTC)), 2)

    assert [time.isoformat() for time in times] == [
        "2026-10-24T06:30:00+02:00",
        "2026-10-25T06:30:00+01:00",
    ]


def test_day_of_month_or_day_of_week_is_enough_where_both_are_given() -> None:
    times = islice(Schedule("0 0 1 * MON", "UTC").after(datetime(2024, 1, 1, 1, tzinfo=UTC)), 5)

    assert [time.day for time in times] == [8, 15, 22, 29, 1]


def test_zone_names_are_those_of_the_pinned_database() -> None:
    assert "Europe/Berlin" in cron.zones()
    assert len(cron.zones()) > 400


# The files


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_example_stack_is_valid_and_has_no_warning(stack: str) -> None:
    config = read_stack(REPOSITORY, stack)

    assert config.production is (stack == "prod")
    assert {job.name for job in config.jobs} >= {"nightly-report", "invoice-run", "sync-rates"}
    assert config.warnings == ()


def test_defaults_in_the_project_file_are_those_of_the_program(tmp_path: Path) -> None:
    project = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text())
    defaults = {
        key: declared["default"]
        for key, declared in project["config"].items()
        if declared["default"] != ""
    }

    assert read(defaults) == read({})
    assert all(declared["description"] for declared in project["config"].values())


def test_stack_file_may_name_its_keys_with_the_project(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(
        "name: mine\n"
        "config:\n"
        "  name: {default: billing}\n"
        "  retention: {value: 8d}\n"
        "  pulumi:tags: {value: {pulumi:template: elsewhere}}\n"
    )
    (tmp_path / "Pulumi.test.yaml").write_text(
        "config:\n"
        "  gcp:project: a-project\n"
        "  gcp:region: us-east1\n"
        '  mine:projectNumber: "123456789012"\n'
    )
    config = read_stack(tmp_path, "test")

    assert (config.name, config.region) == ("billing", "us-east1")
    assert config.retention == timedelta(days=8)
    assert config.project_number == "123456789012"
