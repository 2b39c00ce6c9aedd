"""What reaches Google's APIs exists there: fields, types, enum values, header names, durations.

The definitions are the discovery documents inside the google-api-python-client wheel. A provider
renames little on the way to an API; what it does is written down per resource type.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from infra.config import ConfigError, load
from tests.support.engine import PROJECT, PROJECT_NUMBER, REGION, Engine, Step

NOT_GOOGLE = {"docker-build:index:Image"}


@dataclass(frozen=True)
class Body:
    """How the inputs of a resource become the body of a request."""

    document: str
    schema: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Input to field, by the input's path without indexes."""
    dropped: tuple[str, ...] = ()
    """Inputs that are part of the URL, or the provider's own."""
    listed: tuple[str, ...] = ()
    """Inputs that are one object here and a list of one in the API."""
    convert: Callable[[Any], Any] = lambda body: body
    """What is left to do after that."""


def member(document: str, schema: str = "Binding") -> Body:
    """An IAM member becomes one entry of a binding in the resource's policy."""
    return Body(
        document,
        schema,
        convert=lambda inputs: {
            "role": inputs["role"],
            "members": [inputs["member"]],
            **({"condition": inputs["condition"]} if "condition" in inputs else {}),
        },
    )


def dataset_access(inputs: dict[str, Any]) -> dict[str, Any]:
    """BigQuery has entries of its own."""
    email = inputs["member"].removeprefix("serviceAccount:")
    return {"access": [{"role": inputs["role"], "userByEmail": email}]}


URL = ("project", "location", "region")

BODIES = {
    "gcp:artifactregistry/repository:Repository": Body(
        "artifactregistry.v1",
        "Repository",
        dropped=(*URL, "repositoryId"),
        convert=lambda body: {
            **body,
            "cleanupPolicies": {policy["id"]: policy for policy in body["cleanupPolicies"]},
        },
    ),
    "gcp:bigquery/datasetIamMember:DatasetIamMember": Body(
        "bigquery.v2", "Dataset", convert=dataset_access
    ),
    "gcp:cloudrunv2/jobIamMember:JobIamMember": member("run.v2", "GoogleIamV1Binding"),
    "gcp:cloudrunv2/service:Service": Body(
        "run.v2",
        "GoogleCloudRunV2Service",
        renamed={"template.containers.envs": "env", "template.containers.commands": "command"},
        dropped=(*URL, "deletionProtection"),
        listed=("template.containers.ports",),
    ),
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": member("run.v2", "GoogleIamV1Binding"),
    "gcp:cloudscheduler/job:Job": Body(
        # Pausing is a call of its own.
        "cloudscheduler.v1",
        "Job",
        dropped=(*URL, "paused"),
    ),
    "gcp:cloudtasks/queueIamMember:QueueIamMember": member("cloudtasks.v2"),
    "gcp:eventarc/trigger:Trigger": Body(
        "eventarc.v1",
        "Trigger",
        renamed={
            "matchingCriterias": "eventFilters",
            "destination.cloudRunService": "cloudRun",
        },
        dropped=URL,
    ),
    "gcp:firestore/database:Database": Body(
        "firestore.v1", "GoogleFirestoreAdminV1Database", dropped=("project", "deletionPolicy")
    ),
    "gcp:firestore/field:Field": Body(
        "firestore.v1",
        "GoogleFirestoreAdminV1Field",
        dropped=("project", "database", "collection", "field"),
    ),
    "gcp:monitoring/alertPolicy:AlertPolicy": Body(
        "monitoring.v3", "AlertPolicy", dropped=("project",)
    ),
    "gcp:projects/iAMMember:IAMMember": member("cloudresourcemanager.v1"),
    "gcp:projects/service:Service": Body(
        "serviceusage.v1", "EnableServiceRequest", convert=lambda inputs: {}
    ),
    "gcp:projects/serviceIdentity:ServiceIdentity": Body(
        "serviceusage.v1beta1", "Empty", convert=lambda inputs: {}
    ),
    "gcp:pubsub/subscription:Subscription": Body("pubsub.v1", "Subscription", dropped=("project",)),
    "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember": member("pubsub.v1"),
    "gcp:pubsub/topic:Topic": Body("pubsub.v1", "Topic", dropped=("project",)),
    "gcp:pubsub/topicIAMMember:TopicIAMMember": member("pubsub.v1"),
    "gcp:secretmanager/secretIamMember:SecretIamMember": member("secretmanager.v1"),
    "gcp:serviceaccount/account:Account": Body(
        "iam.v1",
        "CreateServiceAccountRequest",
        convert=lambda inputs: {
            "accountId": inputs["accountId"],
            "serviceAccount": {"displayName": inputs["displayName"]},
        },
    ),
    "gcp:serviceaccount/iAMMember:IAMMember": member("iam.v1"),
    "gcp:storage/bucketIAMMember:BucketIAMMember": Body(
        "storage.v1",
        "Policy",
        convert=lambda inputs: {
            "bindings": [{"role": inputs["role"], "members": [inputs["member"]]}]
        },
    ),
    "gcp:storage/notification:Notification": Body(
        "storage.v1",
        "Notification",
        renamed={"payloadFormat": "payload_format"},
        dropped=("bucket",),
    ),
    "gcp:workflows/workflow:Workflow": Body(
        "workflows.v1", "Workflow", dropped=(*URL, "deletionProtection")
    ),
}


@cache
def document(name: str) -> dict[str, Any]:
    folder = files("googleapiclient.discovery_cache") / "documents"
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def described(name: str, schema: str, property_: str) -> str:
    return str(document(name)["schemas"][schema]["properties"][property_]["description"])


def body_of(rule: Body, inputs: dict[str, Any]) -> Any:
    def rewrite(value: Any, path: str) -> Any:
        if isinstance(value, list):
            return [rewrite(one, path) for one in value]
        if not isinstance(value, dict):
            return value
        made = {}
        for key, inner in value.items():
            where = f"{path}.{key}" if path else key
            if where in rule.dropped:
                continue
            inner = rewrite(inner, where)
            made[rule.renamed.get(where, key)] = [inner] if where in rule.listed else inner
        return made

    return rule.convert(rewrite(inputs, ""))


def mismatches(name: str, schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = document(name)["schemas"][schema["$ref"]]
    kind = schema["type"]
    if kind == "object":
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no object"
            return
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, inner in value.items():
            found = properties.get(key, others)
            if found is None:
                yield f"{path}.{key}: the API has {', '.join(properties)}"
            elif found.get("readOnly"):
                yield f"{path}.{key}: is output only"
            else:
                yield from mismatches(name, found, inner, f"{path}.{key}")
    elif kind == "array":
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        for index, inner in enumerate(value):
            yield from mismatches(name, schema["items"], inner, f"{path}[{index}]")
    elif not fits(kind, schema.get("format"), value):
        yield f"{path}: {value!r} is no {schema.get('format') or kind}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(schema['enum'])}"


def fits(kind: str, format_: str | None, value: Any) -> bool:
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if not isinstance(value, str):
        return False
    if format_ == "google-duration":
        # An empty one is the provider's way to say that a subscription never expires.
        return value == "" or re.fullmatch(r"\d+(\.\d{1,9})?s", value) is not None
    if format_ == "byte":
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return False
    return True


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """Every resource of a stack that uses every key of the configuration."""
    stack = Engine(tmp_path_factory.mktemp("google")).everything()
    return stack.preview().raise_for_status().resources


def of(resources: list[Step], type_: str) -> list[dict[str, Any]]:
    found = [step.inputs for step in resources if step.type.endswith(type_)]
    assert found
    return found


def test_every_type_that_is_created_is_checked(resources: list[Step]) -> None:
    assert {step.type for step in resources} - NOT_GOOGLE == BODIES.keys()


@pytest.mark.parametrize("type_", BODIES)
def test_fields_and_values_exist_in_the_api(resources: list[Step], type_: str) -> None:
    rule = BODIES[type_]
    schema = {"$ref": rule.schema}
    problems = [
        problem
        for step in resources
        if step.type == type_
        for problem in mismatches(
            rule.document, schema, body_of(rule, step.inputs), f"{step.name} {rule.schema}"
        )
    ]
    assert problems == []


def test_check_finds_what_the_api_does_not_have() -> None:
    job = {"httpTarget": {"method": "POST"}, "attemptDeadline": "5m", "state": "ENABLED"}
    found = list(mismatches("cloudscheduler.v1", {"$ref": "Job"}, job, "job"))

    assert [problem.partition(":")[0] for problem in found] == [
        "job.httpTarget.method",
        "job.attemptDeadline",
        "job.state",
    ]


def test_apis_that_are_switched_on_exist(resources: list[Step]) -> None:
    names = [
        path.name.removesuffix(".json")
        for path in (files("googleapiclient.discovery_cache") / "documents").iterdir()
        if path.name.endswith(".json") and path.name != "index.json"
    ]
    # It has no discovery document here, but Google's pages name it as a prerequisite of a trigger:
    # https://cloud.google.com/eventarc/docs/run/route-trigger-eventarc
    undescribed = "eventarcpublishing.googleapis.com"
    for inputs in of(resources, "projects/service:Service"):
        if inputs["service"] == undescribed:
            continue
        api = inputs["service"].removesuffix(".googleapis.com")
        found = [name for name in names if name.split(".")[0] == api]
        assert found, api
        assert document(found[0])["rootUrl"] == f"https://{inputs['service']}/"


def seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def test_attempt_deadline_is_within_the_documented_interval(resources: list[Step]) -> None:
    documented = described("cloudscheduler.v1", "Job", "attemptDeadline")
    assert "For HTTP targets" in documented
    assert "[15 seconds, 30 minutes]" in documented
    for job in of(resources, "cloudscheduler/job:Job"):
        assert 15 <= seconds(job["attemptDeadline"]) <= 1800


def test_retries_obey_the_documented_limits(resources: list[Step]) -> None:
    documented = described("cloudscheduler.v1", "RetryConfig", "retryCount")
    assert "Values greater than 5 and negative values are not allowed" in documented
    for job in of(resources, "cloudscheduler/job:Job"):
        retry = job["retryConfig"]
        assert 0 <= retry["retryCount"] <= 5
        assert seconds(retry["minBackoffDuration"]) <= seconds(retry["maxBackoffDuration"])


def test_job_names_are_made_of_the_documented_characters(resources: list[Step]) -> None:
    documented = described("cloudscheduler.v1", "Job", "name")
    assert "letters ([A-Za-z]), numbers ([0-9]), hyphens (-), or underscores (_)" in documented
    for job in of(resources, "cloudscheduler/job:Job"):
        assert re.fullmatch(r"[\w-]{1,500}", job["name"], re.ASCII)


def reserved_headers() -> list[str]:
    """The headers that the API says it ignores, replaces or sets."""
    text = described("cloudscheduler.v1", "HttpTarget", "headers")
    listed = text[text.index("A partial list") : text.index("If the job has a body")]
    return re.findall(r"\* `?([A-Za-z*-]+)`?:", listed)


def test_list_of_reserved_headers_was_found() -> None:
    assert {"Host", "Content-Length", "User-Agent", "X-Google-*", "X-AppEngine-*"} < set(
        reserved_headers()
    )


def test_no_header_that_is_set_is_reserved(resources: list[Step]) -> None:
    reserved = [name.lower() for name in reserved_headers()]
    for job in of(resources, "cloudscheduler/job:Job"):
        target = job.get("httpTarget") or job["appEngineHttpTarget"]
        for name in target["headers"]:
            assert re.fullmatch(r"[A-Za-z0-9-]+", name)
            for pattern in reserved:
                assert not re.fullmatch(pattern.replace("*", ".*"), name.lower())


@pytest.mark.parametrize("name", reserved_headers())
def test_reserved_header_is_refused_in_the_configuration(name: str) -> None:
    header = name.replace("*", "Anything")
    job = {"name": "a", "schedule": "0 6 * * *", "headers": {header: "x"}}
    with pytest.raises(ConfigError, match=re.escape(f"jobs[0].headers.{header}")):
        load({"projectNumber": PROJECT_NUMBER, "jobs": [job]}, project=PROJECT, region=REGION)


def test_subscriptions_obey_the_documented_limits(resources: list[Step]) -> None:
    assert "between 5 and 100" in described("pubsub.v1", "DeadLetterPolicy", "maxDeliveryAttempts")
    assert "between 0 and 600 seconds" in described("pubsub.v1", "RetryPolicy", "minimumBackoff")
    assert "maximum custom deadline you can specify is 600 seconds" in described(
        "pubsub.v1", "Subscription", "ackDeadlineSeconds"
    )
    for subscription in of(resources, "pubsub/subscription:Subscription"):
        assert 10 <= subscription.get("ackDeadlineSeconds", 10) <= 600
        if dead_letters := subscription.get("deadLetterPolicy"):
            assert 5 <= dead_letters["maxDeliveryAttempts"] <= 100
        if retry := subscription.get("retryPolicy"):
            assert seconds(retry["minimumBackoff"]) <= seconds(retry["maximumBackoff"]) <= 600


def test_request_timeout_is_what_scheduler_waits(resources: list[Step]) -> None:
    services = {
        inputs["name"]: inputs["template"]["timeout"]
        for inputs in of(resources, "cloudrunv2/service:Service")
    }
    for job in of(resources, "cloudscheduler/job:Job"):
        if target := job.get("httpTarget"):
            host = target["uri"].removeprefix("https://").partition(f"-{PROJECT_NUMBER}")[0]
            assert services[host] == job["attemptDeadline"]
