"""The stand-ins refuse what the real provider and its APIs refuse, or the rest proves little."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.engine import PREREQUISITES, REPOSITORY, Engine
from tests.support.stand_in import gcp, schema

POLICY_ENVIRONMENT = REPOSITORY / "policies" / ".venv"

JOB = {
    "name": "a",
    "httpTarget": {"uri": "https://a.example/", "headers": {"A": "b"}},
    "attemptDeadline": "300s",
    "retryConfig": {"retryCount": 1, "maxRetryDuration": "60s"},
}
SERVICE = {
    "name": "a",
    "location": "europe-west1",
    "template": {
        "timeout": "300s",
        "containers": [
            {"image": "i", "envs": [{"name": "A", "value": "b"}], "resources": {"limits": {}}}
        ],
    },
}


def refused(token: str, values: dict[str, Any]) -> list[str]:
    found = list(schema.problems(schema.resource(token).fields, values))
    found = found or list(gcp.KINDS[token].check(values))
    return [name for name, _ in found]


def changed(values: Any, path: str, value: Any) -> Any:
    """Return a copy with one property set, or taken out for None."""
    head, _, rest = path.partition(".")
    if isinstance(values, list):
        return [changed(one, path, value) for one in values]
    if rest:
        return {**values, head: changed(values[head], rest, value)}
    if value is None:
        return {key: one for key, one in values.items() if key != head}
    return {**values, head: value}


@pytest.mark.parametrize(
    ("token", "values"),
    [("gcp:cloudscheduler/job:Job", JOB), ("gcp:cloudrunv2/service:Service", SERVICE)],
)
def test_sound_resource_is_accepted(token: str, values: dict[str, Any]) -> None:
    assert refused(token, values) == []


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("shedule", "* * * * *", "shedule"),
        ("httpTarget.method", "POST", "httpTarget.method"),
        ("httpTarget.uri", None, "httpTarget.uri"),
        ("httpTarget.uri", "ftp://a", "httpTarget.uri"),
        ("httpTarget.body", "no base64!", "httpTarget.body"),
        ("httpTarget.headers", {"A": 1}, "httpTarget.headers.A"),
        ("httpTarget.headers", ["A"], "httpTarget.headers"),
        ("httpTarget.oidcToken", {"audience": "a"}, "httpTarget.oidcToken.serviceAccountEmail"),
        ("httpTarget", "https://a", "httpTarget"),
        ("httpTarget", None, "httpTarget"),
        ("paused", "yes", "paused"),
        ("name", "a b", "name"),
        ("attemptDeadline", "31m", "attemptDeadline"),
        ("attemptDeadline", "1801s", "attemptDeadline"),
        ("attemptDeadline", "14s", "attemptDeadline"),
        ("retryConfig.retryCount", 6, "retryConfig.retryCount"),
        ("retryConfig.retryCount", "three", "retryConfig.retryCount"),
    ],
)
def test_unsound_job_is_refused_by_the_property(path: str, value: Any, name: str) -> None:
    assert refused("gcp:cloudscheduler/job:Job", changed(JOB, path, value)) == [name]


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("location", None, "location"),
        ("template", None, "template"),
        ("ingress", "INTERNAL", "ingress"),
        ("name", "A", "name"),
        ("name", "a" * 50, "name"),
        ("labels", {"A": "b"}, "labels.A"),
        ("template.timeout", "3601s", "template.timeout"),
        ("template.timeout", 300, "template.timeout"),
        ("template.concurrency", 8, "template.concurrency"),
        (
            "template.maxInstanceRequestConcurrency",
            1001,
            "template.maxInstanceRequestConcurrency",
        ),
        ("template.containers.image", None, "template.containers[0].image"),
        (
            "template.containers.envs",
            [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
            "template.containers[0].envs",
        ),
        (
            "template.containers.envs",
            [{"name": "PORT", "value": "1"}],
            "template.containers[0].envs",
        ),
        (
            "template.containers.resources.limits",
            {"cpu": "3"},
            "template.containers[0].resources.limits.cpu",
        ),
        (
            "template.containers.resources.limits",
            {"cpu": "1", "memory": "8Gi"},
            "template.containers[0].resources.limits.memory",
        ),
    ],
)
def test_unsound_service_is_refused_by_the_property(path: str, value: Any, name: str) -> None:
    assert refused("gcp:cloudrunv2/service:Service", changed(SERVICE, path, value)) == [name]


@pytest.mark.parametrize(
    ("token", "values", "name"),
    [
        ("gcp:serviceaccount/account:Account", {"accountId": "five5"}, "accountId"),
        ("gcp:pubsub/topic:Topic", {"name": "ab"}, "name"),
        ("gcp:pubsub/topic:Topic", {"name": "google-topic"}, "name"),
        (
            "gcp:pubsub/subscription:Subscription",
            {"name": "abc", "topic": "t", "ackDeadlineSeconds": 601},
            "ackDeadlineSeconds",
        ),
        (
            "gcp:pubsub/subscription:Subscription",
            {"name": "abc", "topic": "t", "deadLetterPolicy": {"maxDeliveryAttempts": 4}},
            "deadLetterPolicy.maxDeliveryAttempts",
        ),
        (
            "gcp:firestore/database:Database",
            {"name": "UP", "locationId": "eur3", "type": "FIRESTORE_NATIVE"},
            "name",
        ),
        (
            "gcp:firestore/database:Database",
            {"name": "records", "locationId": "eur3", "type": "NATIVE"},
            "type",
        ),
        (
            "gcp:projects/iAMMember:IAMMember",
            {"project": "p", "role": "editor", "member": "user:a@example.com"},
            "role",
        ),
        (
            "gcp:projects/iAMMember:IAMMember",
            {"project": "p", "role": "roles/editor", "member": "a@example.com"},
            "member",
        ),
    ],
)
def test_unsound_value_is_refused_by_the_property(
    token: str, values: dict[str, Any], name: str
) -> None:
    assert refused(token, values) == [name]


def test_preview_knows_what_was_given_and_not_what_the_api_decides(engine: Engine) -> None:
    result = engine.program("""
        import pulumi, pulumi_gcp as gcp
        account = gcp.serviceaccount.Account("a", account_id="account-a")
        service = gcp.cloudrunv2.Service("s", name="s", location="europe-west1",
            template=gcp.cloudrunv2.ServiceTemplateArgs())
        identity = gcp.projects.ServiceIdentity("i", service="pubsub.googleapis.com")
        pulumi.export("known", [account.email, account.project, service.name])
        pulumi.export("unknown", [service.uri, identity.member, account.unique_id])
    """).preview()

    assert result.outputs["known"] == [
        "account-a@a-project.iam.gserviceaccount.com",
        "a-project",
        "s",
    ]
    assert set(result.outputs["unknown"]) == {schema.UNKNOWN}


def test_second_resource_of_one_id_is_a_conflict(engine: Engine) -> None:
    result = engine.program("""
        import pulumi_gcp as gcp
        for name in "ab":
            gcp.firestore.Database(name, name="same", location_id="eur3", type="FIRESTORE_NATIVE")
    """).up()

    assert not result.ok
    assert "Error 409: projects/a-project/databases/same already exists" in result.errors


def test_abandoned_database_stays_and_stands_in_the_way(engine: Engine) -> None:
    stack = engine.program("""
        import pulumi_gcp as gcp
        gcp.firestore.Database("a", name="kept", location_id="eur3", type="FIRESTORE_NATIVE",
            deletion_policy="ABANDON")
    """)
    stack.up().raise_for_status()
    stack.destroy().raise_for_status()

    assert "projects/a-project/databases/kept" in engine.things()
    assert "Error 409" in stack.up().errors


def test_service_is_protected_unless_told_otherwise(engine: Engine) -> None:
    stack = engine.program("""
        import pulumi_gcp as gcp
        gcp.cloudrunv2.Service("s", name="s", location="europe-west1",
            template=gcp.cloudrunv2.ServiceTemplateArgs())
    """)
    stack.up().raise_for_status()

    assert "deletion_protection=false" in stack.destroy().errors


def test_account_that_does_not_exist_yet_is_refused(engine: Engine) -> None:
    result = engine.program("""
        import pulumi_gcp as gcp
        gcp.projects.IAMMember("m", project="a-project", role="roles/datastore.user",
            member="serviceAccount:nobody@a-project.iam.gserviceaccount.com")
    """).up()

    assert (
        "Service account nobody@a-project.iam.gserviceaccount.com does not exist" in result.errors
    )


def test_api_that_is_not_on_is_refused(tmp_path: Path) -> None:
    result = (
        Engine(tmp_path, apis=PREREQUISITES)
        .program("""
        import pulumi_gcp as gcp
        gcp.pubsub.Topic("t", name="topic")
    """)
        .up()
    )

    assert "SERVICE_DISABLED" in result.errors


def test_formatted_output_is_refused(engine: Engine) -> None:
    result = engine.program("""
        import pulumi_gcp as gcp
        account = gcp.serviceaccount.Account("a", account_id="account-a")
        gcp.pubsub.Topic("t", name="topic", kms_key_name=f"key of {account.email}")
    """).preview()

    assert "formatted as a string" in result.errors


def test_renamed_resource_is_replaced_and_the_old_one_is_gone(engine: Engine) -> None:
    source = """
        import pulumi_gcp as gcp
        gcp.pubsub.Topic("t", name="{name}", labels={{"a": "{label}"}})
    """
    engine.program(source.format(name="old", label="b")).up().raise_for_status()
    updated = engine.program(source.format(name="old", label="c")).up().raise_for_status()
    renamed = engine.program(source.format(name="new", label="c")).up().raise_for_status()

    assert [step.operation for step in updated.changed] == ["update"]
    assert "replace" in {step.operation for step in renamed.changed}
    assert list(engine.things()) == ["projects/a-project/topics/new"]


def test_policy_pack_runs_on_the_preview(engine: Engine, tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "PulumiPolicy.yaml").write_text(f"""
runtime:
  name: python
  options:
    virtualenv: {POLICY_ENVIRONMENT}
""")
    (pack / "__main__.py").write_text("""
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy

def no_topics(args, report):
    if args.resource_type == "gcp:pubsub/topic:Topic":
        report("no topics, please")

PolicyPack("pack", policies=[
    ResourceValidationPolicy("no-topics", "No topics", no_topics, EnforcementLevel.MANDATORY),
])
""")
    stack = engine.program("""
        import pulumi_gcp as gcp
        gcp.pubsub.Topic("t", name="topic")
    """)

    stopped = stack.preview(policies=pack)
    advised = stack.preview(policies=pack, policy_config={"no-topics": "advisory"})

    assert not stopped.ok
    assert [(one.policy, one.level, one.resource) for one in stopped.violations] == [
        ("no-topics", "mandatory", "t")
    ]
    assert advised.ok
    assert [one.level for one in advised.violations] == ["advisory"]
