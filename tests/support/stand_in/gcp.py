"""What the Google Cloud provider and its APIs do beyond the schema, for the types that we use.

Sources: the provider's documentation in the installed SDK, and the APIs' own reference for formats.
A type without an entry here is checked against its schema and then simply exists.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from tests.support.stand_in.cloud import Cloud, RefusedError
from tests.support.stand_in.schema import UNKNOWNS

Values = dict[str, Any]
Problems = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Kind:
    """How one resource type behaves."""

    id: str
    """Format of the id over the inputs, ``project`` and ``region`` filled in from the provider."""
    api: str = ""
    """The API that must be on."""
    name: str = "name"
    """The input that the provider fills with a generated name where it is absent."""
    fixed: tuple[str, ...] = ()
    """Inputs whose change replaces the resource; ``*``: all of them."""
    parents: tuple[tuple[str, str], ...] = ()
    """``(type, id format)`` of what must exist before."""
    accounts: tuple[str, ...] = ()
    """Paths of inputs that name a service account, which must exist."""
    computed: Callable[[Values, Cloud], Values] = lambda values, cloud: {}
    known_in_preview: tuple[str, ...] = ()
    """Computed outputs that the provider tells before it creates."""
    check: Callable[[Values], Problems] = lambda values: iter(())
    idempotent: bool = False
    """Creating what exists is no conflict."""
    deletion_policy: str = "DELETE"
    """What the provider does without ``deletionPolicy``."""
    refuses_delete: Callable[[Values], str] = lambda values: ""


def _known(value: Any) -> TypeGuard[Any]:
    return value is not None and not (isinstance(value, str) and value in UNKNOWNS)


def _pattern(values: Values, name: str, pattern: str) -> Problems:
    value = values.get(name)
    if _known(value) and not re.fullmatch(pattern, str(value)):
        yield name, f"{value!r} does not match {pattern}"


def _seconds(values: Values, name: str, low: float, high: float, path: str = "") -> Problems:
    value = values.get(name)
    if not _known(value):
        return
    match = re.fullmatch(r"(\d+(?:\.\d{1,9})?)s", str(value))
    if not match:
        yield f"{path}{name}", f"{value!r} is no duration such as 3.5s"
    elif not low <= float(match[1]) <= high:
        yield f"{path}{name}", f"{value!r} is not within {low:g}s to {high:g}s"


def _between(values: Values, name: str, low: float, high: float, path: str = "") -> Problems:
    value = values.get(name)
    if _known(value) and not low <= float(value) <= high:
        yield f"{path}{name}", f"{value!r} is not within {low:g} to {high:g}"


def _labels(values: Values) -> Problems:
    for key, value in (values.get("labels") or {}).items():
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key):
            yield f"labels.{key}", "a label's key needs lower case, digits, - and _, at most 63"
        if _known(value) and not re.fullmatch(r"[a-z0-9_-]{0,63}", value):
            yield f"labels.{key}", f"{value!r}: a label's value needs lower case, digits, - and _"


# --- Cloud Scheduler


def _check_job(values: Values) -> Problems:
    yield from _pattern(values, "name", r"[A-Za-z\d_-]{1,500}")
    if _known(values.get("description")) and len(values["description"]) > 500:
        yield "description", "longer than 500 characters"
    targets = [
        name for name in ("httpTarget", "appEngineHttpTarget", "pubsubTarget") if values.get(name)
    ]
    if len(targets) != 1:
        yield "httpTarget", "needs exactly one of httpTarget, appEngineHttpTarget, pubsubTarget"
        return
    longest = 1800 if targets[0] == "httpTarget" else 86400
    yield from _seconds(values, "attemptDeadline", 15, longest)
    target = values[targets[0]]
    if isinstance(target, dict):
        yield from _check_target(targets[0], target)
    retry = values.get("retryConfig") or {}
    if isinstance(retry, dict):
        yield from _between(retry, "retryCount", 0, 5, "retryConfig.")
        yield from _between(retry, "maxDoublings", 0, 16, "retryConfig.")
        yield from _seconds(retry, "maxRetryDuration", 0, 86400, "retryConfig.")
        for name in ("minBackoffDuration", "maxBackoffDuration"):
            yield from _seconds(retry, name, 0, 86400, "retryConfig.")


def _check_target(path: str, target: Values) -> Problems:
    uri = target.get("uri")
    if path == "httpTarget" and _known(uri) and not re.match(r"https?://[^/ ]+", uri):
        yield f"{path}.uri", f"{uri!r} is no HTTP URL"
    if target.get("oidcToken") and target.get("oauthToken"):
        yield f"{path}.oidcToken", "conflicts with oauthToken"
    body = target.get("body")
    if _known(body):
        try:
            base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            yield f"{path}.body", "is not base64"


def _job_outputs(values: Values, cloud: Cloud) -> Values:
    return {"state": "PAUSED" if values.get("paused") else "ENABLED"}


# --- Cloud Run


def _check_service(values: Values) -> Problems:
    yield from _pattern(values, "name", r"[a-z]([a-z0-9-]{0,47}[a-z0-9])?")
    yield from _labels(values)
    template = values.get("template")
    if not isinstance(template, dict):
        return
    yield from _seconds(template, "timeout", 1, 3600, "template.")
    yield from _between(template, "maxInstanceRequestConcurrency", 1, 1000, "template.")
    for index, container in enumerate(template.get("containers") or []):
        if isinstance(container, dict):
            path = f"template.containers[{index}]."
            yield from _check_container(container, template, path)


def _check_container(container: Values, template: Values, path: str) -> Problems:
    names = [env.get("name") for env in container.get("envs") or []]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{path}envs", f"{name} is given more than once"
    for name in names:
        if name in ("PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION"):
            yield f"{path}envs", f"{name} is reserved by Cloud Run"
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    for name in limits:
        if name not in ("cpu", "memory", "nvidia.com/gpu"):
            yield f"{path}resources.limits.{name}", "is no limit of Cloud Run"
    cpu = _cpu(limits.get("cpu"))
    if cpu is None:
        return
    if cpu < 1 and (template.get("maxInstanceRequestConcurrency") or 80) > 1:
        yield f"{path}resources.limits.cpu", "less than 1 CPU allows a concurrency of 1 only"
    if cpu < 1 and resources.get("cpuIdle") is False:
        yield f"{path}resources.limits.cpu", "less than 1 CPU needs cpuIdle"
    if cpu > 1 and cpu not in (2, 4, 6, 8):
        yield f"{path}resources.limits.cpu", "needs 1, 2, 4, 6 or 8 CPUs, or less than 1"
    memory = _mebibytes(limits.get("memory"))
    if memory is not None:
        most = {1.0: 4096, 2.0: 8192, 4.0: 16384, 6.0: 24576, 8.0: 32768}.get(cpu, 1024)
        least = {4.0: 2048, 6.0: 4096, 8.0: 4096}.get(cpu, 128)
        if not least <= memory <= most:
            yield (
                f"{path}resources.limits.memory",
                f"{limits['memory']} does not go with {cpu:g} CPU: {least}Mi to {most}Mi",
            )


def _cpu(text: Any) -> float | None:
    if not _known(text):
        return None
    return float(text[:-1]) / 1000 if str(text).endswith("m") else float(text)


def _mebibytes(text: Any) -> float | None:
    match = re.fullmatch(r"(\d+)(Mi|Gi|M|G)", str(text)) if _known(text) else None
    return (
        float(match[1]) * {"Mi": 1, "Gi": 1024, "M": 0.954, "G": 954}[match[2]] if match else None
    )


def _service_outputs(values: Values, cloud: Cloud) -> Values:
    uri = f"https://{values['name']}-{cloud.project_number}.{values['location']}.run.app"
    revision = f"{values['name']}-00001-abc"
    return {
        "uri": uri,
        "urls": [uri],
        "latestReadyRevision": revision,
        "latestCreatedRevision": revision,
    }


def _service_refuses_delete(values: Values) -> str:
    if values.get("deletionProtection", True) is False:
        return ""
    return (
        "cannot destroy service without setting deletion_protection=false and running "
        "`terraform apply`"
    )


# --- Firestore


def _check_database(values: Values) -> Problems:
    yield from _pattern(values, "name", r"\(default\)|[a-z][a-z0-9-]{2,61}[a-z0-9]")
    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", str(values.get("name"))):
        yield "name", "must not look like a UUID"


def _database_refuses_delete(values: Values) -> str:
    if values.get("deleteProtectionState") == "DELETE_PROTECTION_ENABLED":
        return "Error 400: Database has delete protection enabled."
    return ""


def _field_outputs(values: Values, cloud: Cloud) -> Values:
    return {
        "name": "projects/{project}/databases/{database}/collectionGroups/{collection}"
        "/fields/{field}".format(**values)
    }


# --- IAM


def _check_member(values: Values) -> Problems:
    member = values.get("member")
    kinds = r"(user|serviceAccount|group|domain|principal|principalSet|deleted):.+"
    if _known(member) and not re.fullmatch(rf"allUsers|allAuthenticatedUsers|{kinds}", member):
        yield "member", f"{member!r} is no member of a policy"
    pattern = r"roles/[\w.]+|(projects|organizations)/[\w-]+/roles/[\w.]+"
    yield from _pattern(values, "role", pattern)


def _email(values: Values, cloud: Cloud) -> Values:
    email = f"{values['accountId']}@{values['project']}.iam.gserviceaccount.com"
    return {
        "email": email,
        "member": f"serviceAccount:{email}",
        "name": f"projects/{values['project']}/serviceAccounts/{email}",
        "uniqueId": "1" * 21,
    }


def _check_account(values: Values) -> Problems:
    yield from _pattern(values, "accountId", r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
    if _known(values.get("displayName")) and len(values["displayName"]) > 100:
        yield "displayName", "longer than 100 characters"
    if _known(values.get("description")) and len(values["description"]) > 256:
        yield "description", "longer than 256 characters"


def _identity(values: Values, cloud: Cloud) -> Values:
    agent = f"gcp-sa-{values['service'].removesuffix('.googleapis.com')}"
    email = f"service-{cloud.project_number}@{agent}.iam.gserviceaccount.com"
    return {"email": email, "member": f"serviceAccount:{email}"}


def _member(id_: str, api: str, *parents: tuple[str, str]) -> Kind:
    return Kind(
        id=f"{id_}/{{role}}/{{member}}/{{condition}}",
        api=api,
        name="",
        fixed=("*",),
        parents=parents,
        accounts=("member",),
        check=_check_member,
        idempotent=True,
    )


# --- Pub/Sub and Eventarc

_PUBSUB_NAME = r"(?!goog)[A-Za-z][\w.~+%-]{2,254}"


def _check_topic(values: Values) -> Problems:
    yield from _pattern(values, "name", _PUBSUB_NAME)
    yield from _labels(values)
    yield from _seconds(values, "messageRetentionDuration", 600, 31 * 86400)


def _check_subscription(values: Values) -> Problems:
    yield from _pattern(values, "name", _PUBSUB_NAME)
    yield from _labels(values)
    yield from _between(values, "ackDeadlineSeconds", 10, 600)
    yield from _seconds(values, "messageRetentionDuration", 600, 31 * 86400)
    retry = values.get("retryPolicy") or {}
    for name in ("minimumBackoff", "maximumBackoff"):
        yield from _seconds(retry, name, 0, 600, "retryPolicy.")
    dead = values.get("deadLetterPolicy") or {}
    yield from _between(dead, "maxDeliveryAttempts", 5, 100, "deadLetterPolicy.")
    topic = dead.get("deadLetterTopic")
    if _known(topic) and not re.fullmatch(r"projects/[^/]+/topics/[^/]+", topic):
        yield "deadLetterPolicy.deadLetterTopic", f"{topic!r} is not projects/P/topics/T"
    expiry = (values.get("expirationPolicy") or {}).get("ttl")
    if _known(expiry) and expiry and not re.fullmatch(r"\d+(\.\d+)?s", expiry):
        yield "expirationPolicy.ttl", f"{expiry!r} is neither empty nor a duration"


def _check_repository(values: Values) -> Problems:
    yield from _pattern(values, "repositoryId", r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
    yield from _labels(values)


def _repository_outputs(values: Values, cloud: Cloud) -> Values:
    host = f"{values['location']}-docker.pkg.dev"
    return {
        "name": values["repositoryId"],
        "registryUri": f"{host}/{values['project']}/{values['repositoryId']}",
    }


_DATABASE = ("gcp:firestore/database:Database", "projects/{project}/databases/{database}")
_SERVICE = (
    "gcp:cloudrunv2/service:Service",
    "projects/{project}/locations/{location}/services/{name}",
)
_ACCOUNT = "gcp:serviceaccount/account:Account"
_IDENTITY = "gcp:projects/serviceIdentity:ServiceIdentity"
_TOPIC = ("gcp:pubsub/topic:Topic", "projects/{project}/topics/{topic}")
_RUN, _PUBSUB = "run.googleapis.com", "pubsub.googleapis.com"

KINDS = {
    "gcp:projects/service:Service": Kind(
        id="{project}/{service}",
        api="serviceusage.googleapis.com",
        name="",
        fixed=("service", "project"),
        idempotent=True,
    ),
    "gcp:projects/serviceIdentity:ServiceIdentity": Kind(
        id="projects/{project}/services/{service}",
        api="serviceusage.googleapis.com",
        name="",
        fixed=("*",),
        computed=_identity,
        idempotent=True,
    ),
    "gcp:projects/iAMMember:IAMMember": _member("{project}", "cloudresourcemanager.googleapis.com"),
    "gcp:serviceaccount/account:Account": Kind(
        id="projects/{project}/serviceAccounts/{email}",
        api="iam.googleapis.com",
        name="",
        fixed=("accountId", "project"),
        computed=_email,
        known_in_preview=("email", "member"),
        check=_check_account,
    ),
    "gcp:serviceaccount/iAMMember:IAMMember": _member("{serviceAccountId}", "iam.googleapis.com"),
    "gcp:firestore/database:Database": Kind(
        id="projects/{project}/databases/{name}",
        api="firestore.googleapis.com",
        fixed=("name", "project", "locationId", "databaseEdition", "cmekConfig", "tags"),
        check=_check_database,
        deletion_policy="ABANDON",
        refuses_delete=_database_refuses_delete,
    ),
    "gcp:firestore/field:Field": Kind(
        id="projects/{project}/databases/{database}/collectionGroups/{collection}/fields/{field}",
        api="firestore.googleapis.com",
        name="",
        fixed=("project", "database", "collection", "field"),
        parents=(_DATABASE,),
        computed=_field_outputs,
        idempotent=True,
    ),
    "gcp:cloudrunv2/service:Service": Kind(
        id="projects/{project}/locations/{location}/services/{name}",
        api=_RUN,
        fixed=("name", "project", "location"),
        accounts=("template.serviceAccount",),
        computed=_service_outputs,
        check=_check_service,
        refuses_delete=_service_refuses_delete,
    ),
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": _member(
        "projects/{project}/locations/{location}/services/{name}", _RUN, _SERVICE
    ),
    "gcp:cloudrunv2/jobIamMember:JobIamMember": _member(
        "projects/{project}/locations/{location}/jobs/{name}", _RUN
    ),
    "gcp:cloudscheduler/job:Job": Kind(
        id="projects/{project}/locations/{region}/jobs/{name}",
        api="cloudscheduler.googleapis.com",
        fixed=("name", "project", "region"),
        accounts=("httpTarget.oidcToken.serviceAccountEmail",),
        computed=_job_outputs,
        check=_check_job,
    ),
    "gcp:artifactregistry/repository:Repository": Kind(
        id="projects/{project}/locations/{location}/repositories/{repositoryId}",
        api="artifactregistry.googleapis.com",
        name="",
        fixed=("repositoryId", "project", "location", "format", "mode", "kmsKeyName"),
        computed=_repository_outputs,
        check=_check_repository,
    ),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": _member(
        "projects/{project}/locations/{location}/repositories/{repository}",
        "artifactregistry.googleapis.com",
    ),
    "gcp:secretmanager/secretIamMember:SecretIamMember": _member(
        "projects/{project}/secrets/{secretId}", "secretmanager.googleapis.com"
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": _member("b/{bucket}", "storage.googleapis.com"),
    "gcp:pubsub/topic:Topic": Kind(
        id="projects/{project}/topics/{name}",
        api=_PUBSUB,
        fixed=("name", "project"),
        check=_check_topic,
    ),
    "gcp:pubsub/topicIAMMember:TopicIAMMember": _member(
        "projects/{project}/topics/{topic}", _PUBSUB, _TOPIC
    ),
    "gcp:pubsub/subscription:Subscription": Kind(
        id="projects/{project}/subscriptions/{name}",
        api=_PUBSUB,
        fixed=("name", "project", "topic", "enableMessageOrdering", "filter"),
        parents=(_TOPIC,),
        accounts=("pushConfig.oidcToken.serviceAccountEmail",),
        check=_check_subscription,
    ),
    "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember": _member(
        "projects/{project}/subscriptions/{subscription}",
        _PUBSUB,
        ("gcp:pubsub/subscription:Subscription", "projects/{project}/subscriptions/{subscription}"),
    ),
    "gcp:eventarc/trigger:Trigger": Kind(
        id="projects/{project}/locations/{location}/triggers/{name}",
        api="eventarc.googleapis.com",
        fixed=("name", "project", "location", "matchingCriterias", "transport"),
        accounts=("serviceAccount",),
    ),
    "gcp:workflows/workflow:Workflow": Kind(
        id="projects/{project}/locations/{region}/workflows/{name}",
        api="workflows.googleapis.com",
        fixed=("name", "project", "region"),
        accounts=("serviceAccount",),
        refuses_delete=lambda values: (
            ""
            if values.get("deletionProtection", True) is False
            else "cannot destroy workflow without setting deletion_protection=false"
        ),
    ),
    "gcp:logging/metric:Metric": Kind(
        id="{name}", api="logging.googleapis.com", fixed=("name", "project", "bucketName")
    ),
    "gcp:monitoring/alertPolicy:AlertPolicy": Kind(
        id="projects/{project}/alertPolicies/{displayName}",
        api="monitoring.googleapis.com",
        name="",
        fixed=("project",),
    ),
    "gcp:storage/notification:Notification": Kind(
        id="{bucket}/notificationConfigs/{topic}", fixed=("*",)
    ),
}
GENERIC = Kind(
    id="projects/{project}/{type}/{name}", fixed=("name", "location", "region", "project")
)


def _storage_agent(cloud: Cloud) -> str:
    return f"service-{cloud.project_number}@gs-project-accounts.iam.gserviceaccount.com"


FUNCTIONS: dict[str, Callable[[Values, Values, Cloud], Values]] = {
    "gcp:organizations/getClientConfig:getClientConfig": lambda args, config, cloud: {
        "accessToken": "a-token",
        "defaultLabels": {},
        "id": "client-config",
        "project": config.get("project", ""),
        "region": config.get("region", ""),
        "zone": config.get("zone", ""),
    },
    "gcp:storage/getProjectServiceAccount:getProjectServiceAccount": (
        lambda args, config, cloud: {
            "emailAddress": _storage_agent(cloud),
            "id": _storage_agent(cloud),
            "member": f"serviceAccount:{_storage_agent(cloud)}",
            "project": args.get("project") or config.get("project", ""),
            "userProject": args.get("userProject"),
        }
    ),
}
"""What the provider answers to a program that asks. ``getProject`` is missing on purpose: it calls
Cloud Billing, which a deployer need not be allowed to."""


def refusal(kind: Kind, values: Values, cloud: Cloud) -> None:
    """Raise what the API would answer to a create or update that comes too early."""
    if kind.api and not cloud.api_enabled(kind.api):
        raise RefusedError(
            f"Error 403: {kind.api} has not been used in project {values.get('project')} before "
            "or it is disabled. SERVICE_DISABLED"
        )
    for parent, format_ in kind.parents:
        id_ = format_.format(**values)
        if "/topics/projects/" in id_:  # the topic's full name was given
            id_ = id_[id_.rindex("projects/") :]
        own = id_.startswith(f"projects/{values['project']}/")
        if own and cloud.find(parent, id_) is None:
            raise RefusedError(f"Error 404: {id_} was not found")
    for path in kind.accounts:
        email = str(_at(values, path) or "").rpartition("/")[2].removeprefix("serviceAccount:")
        own = email.endswith(f"@{values.get('project')}.iam.gserviceaccount.com")
        agent = f"service-{cloud.project_number}@gcp-sa-" in email
        if (own and not cloud.exists(_ACCOUNT, email=email)) or (
            agent and not cloud.exists(_IDENTITY, email=email)
        ):
            raise RefusedError(f"Error 400: Service account {email} does not exist")


def _at(values: Any, path: str) -> Any:
    for part in path.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values
