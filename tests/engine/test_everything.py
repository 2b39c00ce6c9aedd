"""A stack that uses every key of the configuration, and the events in each of their forms."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.engine import (
    EXISTING_TOPICS,
    IMAGE,
    PROJECT_NUMBER,
    UNKNOWN,
    Engine,
    Result,
    Stack,
)

PUBSUB_AGENT = f"serviceAccount:service-{PROJECT_NUMBER}@gcp-sa-pubsub.iam.gserviceaccount.com"
STORAGE_AGENT = (
    f"serviceAccount:service-{PROJECT_NUMBER}@gs-project-accounts.iam.gserviceaccount.com"
)
CALLER = "serviceAccount:every-events@a-project.iam.gserviceaccount.com"
HANDLER = "serviceAccount:every-handler@a-project.iam.gserviceaccount.com"
PROXY = "serviceAccount:every-proxy@a-project.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stack, Result, Result]:
    stack = Engine(tmp_path_factory.mktemp("everything")).everything({"image": IMAGE})
    preview = stack.preview().raise_for_status()
    return stack, preview, stack.up().raise_for_status()


@pytest.fixture
def up(deployed: tuple[Stack, Result, Result]) -> Result:
    return deployed[2]


@pytest.fixture
def grants(up: Result) -> set[tuple[str, str, str]]:
    """Who may do what on what."""
    return {
        (step.inputs["member"], step.inputs["role"], resource(step.inputs))
        for step in up.resources
        if "member" in step.inputs
    }


def resource(grant: Mapping[str, str]) -> str:
    keys = ("name", "bucket", "topic", "subscription", "datasetId", "secretId", "serviceAccountId")
    return next((grant[key] for key in keys if key in grant), f"project {grant.get('project')}")


def subscription(up: Result, name: str) -> dict[str, Any]:
    return up.one("subscription:Subscription", name).inputs


def test_second_up_changes_nothing(deployed: tuple[Stack, Result, Result]) -> None:
    assert deployed[0].up().raise_for_status().changed == []


def test_every_value_is_known_on_the_first_preview(
    deployed: tuple[Stack, Result, Result],
) -> None:
    unknown = [step.urn for step in deployed[1].resources if UNKNOWN in str(step.inputs)]
    assert unknown == []


def test_nothing_is_left_of_it(tmp_path: Any, deployed: tuple[Stack, Result, Result]) -> None:
    engine = deployed[0].engine.copy(tmp_path)
    engine.example("everything").destroy().raise_for_status()

    left = [one for id_, one in engine.things().items() if id_ not in EXISTING_TOPICS]
    apis = [one for one in left if one["type"] == "gcp:projects/service:Service"]
    (grant,) = [one["inputs"] for one in left if one not in apis]
    assert (grant["member"], grant["role"]) == (STORAGE_AGENT, "roles/pubsub.publisher")


def test_agent_may_make_tokens_for_the_accounts_that_deliver_and_for_no_other(
    grants: set[tuple[str, str, str]],
) -> None:
    role = "roles/iam.serviceAccountTokenCreator"
    on = {resource for member, role_, resource in grants if role_ == role}
    assert {member for member, role_, _ in grants if role_ == role} == {PUBSUB_AGENT}
    assert {name.rpartition("/")[2].partition("@")[0] for name in on} == {
        "every-events",
        "every-eventarc",
    }


def test_dead_letters_have_a_topic_a_lasting_subscription_and_exactly_their_grants(
    up: Result, grants: set[tuple[str, str, str]]
) -> None:
    orders = subscription(up, "orders")
    kept = subscription(up, "orders-dead")

    assert orders["deadLetterPolicy"] == {
        "deadLetterTopic": "projects/a-project/topics/every-orders-dead",
        "maxDeliveryAttempts": 50,
    }
    assert kept["topic"] == "projects/a-project/topics/every-orders-dead"
    assert kept["expirationPolicy"] == {"ttl": ""}
    assert {grant for grant in grants if "every-orders" in grant[2]} == {
        (PUBSUB_AGENT, "roles/pubsub.subscriber", "every-orders"),
        (PUBSUB_AGENT, "roles/pubsub.publisher", "every-orders-dead"),
        (HANDLER, "roles/pubsub.publisher", "every-orders-dead"),
    }


@pytest.mark.parametrize("name", ["shared", "at-once"])
def test_without_dead_letters_there_is_no_topic_and_no_grant(
    up: Result, grants: set[tuple[str, str, str]], name: str
) -> None:
    assert "deadLetterPolicy" not in subscription(up, name)
    assert not [step for step in up.of("pubsub/topic:Topic") if step.name == f"{name}-dead"]
    assert not [grant for grant in grants if grant[2].startswith(f"every-{name}")]


def test_existing_topic_is_subscribed_to_and_not_made(up: Result) -> None:
    assert subscription(up, "shared")["topic"] == "projects/other-project/topics/shared"
    assert not [step for step in up.of("pubsub/topic:Topic") if step.name == "shared"]


def test_immediate_retries_have_no_policy_of_waits(up: Result) -> None:
    assert "retryPolicy" not in subscription(up, "at-once")


def test_ordering_and_filter_reach_the_subscription(up: Result) -> None:
    orders = subscription(up, "orders")
    assert orders["enableMessageOrdering"] is True
    assert orders["filter"] == 'attributes.kind = "order"'


def test_every_push_carries_a_token_for_the_services_url(up: Result) -> None:
    for step in up.of("subscription:Subscription"):
        if push := step.inputs.get("pushConfig"):
            assert push["pushEndpoint"] == push["oidcToken"]["audience"] + "/"
            assert push["oidcToken"]["serviceAccountEmail"] == CALLER.partition(":")[2]


def test_bucket_may_publish_to_its_topic(up: Result, grants: set[tuple[str, str, str]]) -> None:
    assert (STORAGE_AGENT, "roles/pubsub.publisher", "every-uploads") in grants
    assert up.one("storage/notification:Notification", "uploads").inputs["bucket"] == "a-bucket"


def test_eventarc_calls_with_an_account_of_its_own(
    up: Result, grants: set[tuple[str, str, str]]
) -> None:
    email = "every-eventarc@a-project.iam.gserviceaccount.com"
    assert {step.inputs["serviceAccount"] for step in up.of("trigger:Trigger")} == {email}
    assert {grant[1:] for grant in grants if grant[0] == f"serviceAccount:{email}"} == {
        ("roles/eventarc.eventReceiver", "project a-project"),
        ("roles/run.invoker", "every-handler"),
    }


def test_proxy_may_start_its_targets_and_nothing_else(grants: set[tuple[str, str, str]]) -> None:
    assert {grant[1:] for grant in grants if grant[0] == PROXY} == {
        ("roles/datastore.user", "project a-project"),
        ("roles/workflows.invoker", "project a-project"),
        ("roles/cloudbuild.builds.editor", "project a-project"),
        ("roles/run.jobsExecutorWithOverrides", "crunch"),
        ("roles/run.viewer", "crunch"),
        (
            "roles/iam.serviceAccountUser",
            "projects/a-project/serviceAccounts/builder@a-project.iam.gserviceaccount.com",
        ),
    }


def test_service_may_use_what_its_configuration_names(grants: set[tuple[str, str, str]]) -> None:
    named = {grant[1:] for grant in grants if grant[0] == HANDLER}
    assert {
        ("roles/storage.objectUser", "a-bucket"),
        ("roles/pubsub.publisher", "a-topic"),
        ("roles/cloudtasks.enqueuer", "a-queue"),
        ("roles/bigquery.dataViewer", "a_dataset"),
        ("roles/secretmanager.secretAccessor", "api-key"),
        ("roles/secretmanager.secretAccessor", "other-key"),
    } <= named


def test_role_on_a_topic_elsewhere_names_its_project(up: Result) -> None:
    grant = up.one(
        "TopicIAMMember", "handler-topic-projects/other-project/topics/news-pubsub.publisher"
    ).inputs

    assert (grant["project"], grant["topic"]) == ("other-project", "news")


def test_secret_reaches_the_service_by_reference(up: Result) -> None:
    service = up.one("cloudrunv2/service:Service", "handler").inputs
    envs = {env["name"]: env for env in service["template"]["containers"][0]["envs"]}

    assert envs["LEVEL"]["value"] == "debug"
    assert envs["OTHER_KEY"]["valueSource"]["secretKeyRef"] == {
        "secret": "projects/other-project/secrets/other-key",
        "version": "3",
    }


def test_app_engine_job_has_the_same_headers_and_no_token(up: Result) -> None:
    target = up.one("job:Job", "on-app-engine").inputs["appEngineHttpTarget"]

    assert target["relativeUri"] == "/tasks/run"
    assert target["appEngineRouting"] == {"service": "worker"}
    assert target["headers"]["X-Scheduler-Function"] == "on-app-engine"


def test_worked_example_ends_in_its_function(up: Result) -> None:
    workflow = up.one("workflow:Workflow").inputs
    account = workflow["serviceAccount"].rpartition("/")[2]

    may_call = up.one("ServiceIamMember", "workflow-calls-booking").inputs
    assert may_call["member"] == f"serviceAccount:{account}"
    assert may_call["name"] == "every-booking"


def test_service_that_waits_longer_than_pubsub_is_refused(engine: Engine) -> None:
    stack = engine.example(
        "dev",
        {
            "image": IMAGE,
            "services": {"handler": {"timeout": "11m"}},
            "events": [{"name": "orders", "pubsub": {}}],
        },
    )
    assert "services.handler.timeout" in stack.preview().errors


def test_more_starts_than_a_variable_holds_are_refused_before_the_first_resource(
    engine: Engine,
) -> None:
    start = {"workflow": {"name": "report", "argument": {"text": "x" * 60}}}
    jobs = [
        {"name": f"job-{number}", "schedule": "0 1 * * *", "start": start} for number in range(200)
    ]
    preview = engine.example("dev", {"image": IMAGE, "jobs": jobs}).preview()

    assert "jobs: as ONCE_STARTS what the service proxy is told has " in preview.errors
    assert "at most 32768, Cloud Run's limit: spread the jobs over more stacks" in preview.errors
    assert [step.urn for step in preview.resources if step.custom] == []


def test_dead_letter_before_the_lease_is_over_is_refused(engine: Engine) -> None:
    stack = engine.example(
        "dev",
        {
            "image": IMAGE,
            "events": [
                {
                    "name": "orders",
                    "pubsub": {"deadLetter": {"maxAttempts": 5}, "minBackoff": "10s"},
                }
            ],
        },
    )
    assert "events[0].pubsub.minBackoff" in stack.preview().errors


@pytest.mark.parametrize(("key", "value"), [("ordering", False), ("filter", "")])
def test_replaced_subscription_is_granted_to_the_agent_again(
    tmp_path: Any, deployed: tuple[Stack, Result, Result], key: str, value: object
) -> None:
    stack = deployed[0].engine.copy(tmp_path).example("everything")
    events = stack.settings["events"]
    events[0]["pubsub"][key] = value
    stack.configure({"events": events})
    calls = len(stack.engine.calls())

    stack.up().raise_for_status()

    done = [
        (call["method"], call["name"])
        for call in stack.engine.calls()[calls:]
        if call["method"] in ("create", "delete") and not call.get("preview")
    ]
    assert done == [
        ("delete", "orders-agent-subscribes"),
        ("delete", "orders"),
        ("create", "orders"),
        ("create", "orders-agent-subscribes"),
    ]
    assert stack.refresh().raise_for_status().changed == []


def test_names_that_differ_in_their_project_only_are_two_resources(engine: Engine) -> None:
    role, start = {"bucket": "a-bucket"}, {"name": "nightly", "location": "global"}
    jobs = [
        {
            "name": f"build-{project}",
            "schedule": "0 1 * * *",
            "start": {
                "buildTrigger": {
                    **start,
                    "serviceAccount": f"builder@{project}.iam.gserviceaccount.com",
                }
            },
        }
        for project in ("project-one", "project-two")
    ]
    handler = {
        "secrets": {"A": "key", "B": "projects/other-project/secrets/key"},
        "roles": [
            {**role, "role": "projects/a-project/roles/reader"},
            {**role, "role": "organizations/1/roles/reader"},
        ],
    }
    stack = engine.example("dev", {"image": IMAGE, "services": {"handler": handler}, "jobs": jobs})
    preview = stack.preview().raise_for_status()

    assert len(preview.of("secretIamMember:SecretIamMember")) == 2
    assert len(preview.of("bucketIAMMember:BucketIAMMember")) == 2
    assert len(preview.of("serviceaccount/iAMMember:IAMMember")) == 2


def test_service_may_be_called_like_any_of_the_grants(engine: Engine) -> None:
    stack = engine.example(
        "dev",
        {
            "image": IMAGE,
            "services": {"agent": {}, "bucket": {}},
            "jobs": [],
            "events": [{"name": "orders", "service": "agent", "pubsub": {}}],
        },
    )
    publishers = {
        step.inputs["member"]
        for step in stack.preview().raise_for_status().of("topicIAMMember:TopicIAMMember")
    }
    assert publishers == {
        PUBSUB_AGENT,
        "serviceAccount:scheduled-once-agent@a-project.iam.gserviceaccount.com",
    }
