"""One compliant resource of each kind; a test breaks one property of it."""

from __future__ import annotations

from typing import Any

from rules import schema

from ..analyzer import Declared, Reference

URL = "https://handler-123456789012.europe-west6.run.app"
ACCOUNT = "handler@acme.iam.gserviceaccount.com"
CALLER = "caller@acme.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{CALLER}"
IMAGE = f"europe-west6-docker.pkg.dev/acme/handlers/handler@sha256:{'0' * 64}"
PUBSUB_AGENT = "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"

NOT_YET = Reference("other", "value")
"""A value that is not known yet, and that nothing in the program gives."""


def job(name: str = "nightly") -> Declared:
    return Declared(
        schema.SCHEDULER_JOB,
        name,
        {
            "schedule": "0 2 * * *",
            "httpTarget": {
                "uri": URL,
                "headers": {"X-Scheduler-Project": "acme", "X-Scheduler-Region": "europe-west6"},
                "oidcToken": {"serviceAccountEmail": CALLER, "audience": URL},
            },
        },
    )


def timed_job(name: str = "nightly") -> Declared:
    """Give a job whose deadline and retries fit `once_service`."""
    retries = {"maxRetryDuration": "1080s", "maxBackoffDuration": "60s"}
    return job(name).set("attemptDeadline", "300s").set("retryConfig", retries)


def service(name: str = "handler") -> Declared:
    return Declared(
        schema.RUN_SERVICE,
        name,
        {
            "name": name,
            "location": "europe-west6",
            "ingress": "INGRESS_TRAFFIC_INTERNAL_ONLY",
            "template": {"serviceAccount": ACCOUNT, "containers": [{"image": IMAGE}]},
        },
    )


def once_service(*variables: str) -> Declared:
    """Give the service of a deduplicating handler, with some of its variables."""
    values = {
        "ONCE_LEASE_SECONDS": "360",
        "ONCE_RETENTION_SECONDS": "604800",
        "ONCE_STORE": "firestore://acme/runs",
    }
    envs = [{"name": name, "value": values[name]} for name in variables]
    return service().set("template.timeout", "300s").set("template.containers.0.envs", envs)


def service_v1(name: str = "handler") -> Declared:
    return Declared(
        schema.RUN_SERVICE_V1,
        name,
        {
            "name": name,
            "location": "europe-west6",
            "metadata": {"annotations": {"run.googleapis.com/ingress": "internal"}},
            "template": {
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "containers": [{"image": IMAGE}],
                }
            },
        },
    )


def run_job(name: str = "report") -> Declared:
    template = {"serviceAccount": ACCOUNT, "containers": [{"image": IMAGE}]}
    properties = {"location": "europe-west6", "template": {"template": template}}
    return Declared(schema.RUN_JOB, name, properties)


def function(name: str = "upload") -> Declared:
    return Declared(
        schema.FUNCTION,
        name,
        {
            "location": "europe-west6",
            "serviceConfig": {
                "serviceAccountEmail": ACCOUNT,
                "ingressSettings": "ALLOW_INTERNAL_ONLY",
                "environmentVariables": {"MAX_AGE_SECONDS": "3600"},
            },
            "eventTrigger": {
                "eventType": "google.cloud.storage.object.v1.finalized",
                "retryPolicy": "RETRY_POLICY_RETRY",
                "serviceAccountEmail": CALLER,
            },
        },
    )


def function_v1(name: str = "upload") -> Declared:
    return Declared(
        schema.FUNCTION_V1,
        name,
        {
            "region": "europe-west6",
            "serviceAccountEmail": ACCOUNT,
            "ingressSettings": "ALLOW_INTERNAL_ONLY",
            "environmentVariables": {"MAX_AGE_SECONDS": "3600"},
            "eventTrigger": {
                "eventType": "google.storage.object.finalize",
                "failurePolicy": {"retry": True},
            },
        },
    )


def database(name: str = "runs") -> Declared:
    return Declared(
        schema.DATABASE,
        name,
        {
            "name": name,
            "type": "FIRESTORE_NATIVE",
            "locationId": "europe-west6",
            "deleteProtectionState": "DELETE_PROTECTION_ENABLED",
        },
    )


def ttl_field(name: str = "ttl") -> Declared:
    place = {"database": "runs", "collection": "scheduler_runs", "field": "expire_at"}
    return Declared(schema.FIELD, name, {**place, "ttlConfig": {}})


def unindexed_fields(name: str = "unindexed") -> Declared:
    place = {"database": "runs", "collection": "scheduler_runs", "field": "*"}
    return Declared(schema.FIELD, name, {**place, "indexConfig": {}})


def grant(type: str, **properties: Any) -> Declared:
    """Give a harmless grant: one member on one resource."""
    if type.endswith("Policy"):
        policy = '{"bindings": [{"role": "roles/run.invoker", "members": ["%s"]}]}'
        holders: dict[str, Any] = {"policyData": policy % MEMBER}
    elif type.endswith("Binding"):
        holders = {"role": "roles/run.invoker", "members": [MEMBER]}
    else:
        holders = {"role": "roles/run.invoker", "member": MEMBER}
    return Declared(type, "grant", {**properties, **holders})


def datastore_grant() -> Declared:
    condition = {
        "title": "one database",
        "expression": 'resource.name == "projects/acme/databases/runs"',
    }
    return grant(schema.PROJECT_GRANTS[0], project="acme", condition=condition).set(
        "role", "roles/datastore.user"
    )


def topic(name: str) -> Declared:
    return Declared(schema.TOPIC, name, {"name": name})


def subscription() -> Declared:
    """Give a push subscription whose topics belong to somebody else."""
    return Declared(
        schema.SUBSCRIPTION,
        "orders",
        {
            "topic": "projects/acme/topics/orders",
            "expirationPolicy": {"ttl": ""},
            "retryPolicy": {"minimumBackoff": "10s"},
            "deadLetterPolicy": {"deadLetterTopic": "projects/acme/topics/dead"},
            "pushConfig": {"pushEndpoint": URL, "oidcToken": {"serviceAccountEmail": CALLER}},
        },
    )


def subscriber() -> Declared:
    holders = {"role": "roles/pubsub.subscriber", "member": PUBSUB_AGENT}
    subscription = Reference("orders", "name")
    return Declared(
        schema.SUBSCRIPTION_GRANTS[0], "subscriber", {"subscription": subscription, **holders}
    )


def publisher() -> Declared:
    holders = {"role": "roles/pubsub.publisher", "member": PUBSUB_AGENT}
    return Declared(
        schema.TOPIC_GRANTS[0], "publisher", {"topic": Reference("dead", "name"), **holders}
    )


def kept() -> Declared:
    """Give the subscription that keeps the dead letters."""
    properties = {"topic": Reference("dead", "id"), "expirationPolicy": {"ttl": ""}}
    return Declared(schema.SUBSCRIPTION, "kept", properties)


def dead_letters() -> list[Declared]:
    """Give a subscription with a dead-letter topic of its own, and all that this one needs."""
    own = subscription().set("deadLetterPolicy.deadLetterTopic", Reference("dead", "id"))
    return [topic("dead"), own, kept(), publisher(), subscriber()]


def trigger(name: str = "uploads") -> Declared:
    return Declared(
        schema.TRIGGER,
        name,
        {
            "location": "europe-west6",
            "serviceAccount": CALLER,
            "matchingCriterias": [
                {"attribute": "type", "value": "google.cloud.storage.object.v1.finalized"},
                {"attribute": "bucket", "value": "acme-uploads"},
            ],
            "destination": {
                "cloudRunService": {"service": "handler", "region": "europe-west6"},
            },
        },
    )


def api(name: str = "scheduler") -> Declared:
    properties = {"service": "cloudscheduler.googleapis.com", "disableOnDestroy": False}
    return Declared(schema.API, name, properties)


def bucket(name: str = "uploads") -> Declared:
    properties = {"location": "europe-west6", "publicAccessPrevention": "enforced"}
    return Declared(schema.BUCKET, name, properties)
