"""Every resource type and property that a rule reads, in the words of the SDK for Google Cloud.

A list is marked ``[]``. Reading anything else is an error (see `reading`), and a test holds this
page against the SDK: a misspelt name would be a rule that never fires, which nobody notices.
"""

import re

SCHEDULER_JOB = "gcp:cloudscheduler/job:Job"

RUN_SERVICE = "gcp:cloudrunv2/service:Service"
RUN_JOB = "gcp:cloudrunv2/job:Job"
RUN_WORKER_POOL = "gcp:cloudrunv2/workerPool:WorkerPool"
RUN_SERVICE_V1 = "gcp:cloudrun/service:Service"
FUNCTION = "gcp:cloudfunctionsv2/function:Function"
FUNCTION_V1 = "gcp:cloudfunctions/function:Function"

DATABASE = "gcp:firestore/database:Database"
FIELD = "gcp:firestore/field:Field"

TOPIC = "gcp:pubsub/topic:Topic"
SUBSCRIPTION = "gcp:pubsub/subscription:Subscription"
TRIGGER = "gcp:eventarc/trigger:Trigger"

ACCOUNT_KEY = "gcp:serviceaccount/key:Key"
API = "gcp:projects/service:Service"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
SECRET = "gcp:secretmanager/secret:Secret"  # noqa: S105 (a resource type)

BUCKET = "gcp:storage/bucket:Bucket"
BUCKET_ACL = "gcp:storage/bucketACL:BucketACL"
DEFAULT_OBJECT_ACL = "gcp:storage/defaultObjectACL:DefaultObjectACL"
OBJECT_ACL = "gcp:storage/objectACL:ObjectACL"
BUCKET_ACCESS = "gcp:storage/bucketAccessControl:BucketAccessControl"
DEFAULT_OBJECT_ACCESS = "gcp:storage/defaultObjectAccessControl:DefaultObjectAccessControl"
OBJECT_ACCESS = "gcp:storage/objectAccessControl:ObjectAccessControl"


def _grants(scope: str) -> tuple[str, str, str]:
    """Give the three ways to grant: a member, a binding of one role, the whole policy."""
    package, name = scope.split("/")
    class_name = name[0].upper() + name[1:]
    return (
        f"gcp:{package}/{name}Member:{class_name}Member",
        f"gcp:{package}/{name}Binding:{class_name}Binding",
        f"gcp:{package}/{name}Policy:{class_name}Policy",
    )


PROJECT_GRANTS = _grants("projects/iAM")
FOLDER_GRANTS = _grants("folder/iAM")
ORGANIZATION_GRANTS = _grants("organizations/iAM")
WIDE_GRANTS = (*PROJECT_GRANTS, *FOLDER_GRANTS, *ORGANIZATION_GRANTS)

RUN_GRANTS = (
    *_grants("cloudrunv2/serviceIam"),
    *_grants("cloudrunv2/jobIam"),
    *_grants("cloudrunv2/workerPoolIam"),
    *_grants("cloudrun/iam"),
    *_grants("cloudfunctionsv2/functionIam"),
    *_grants("cloudfunctions/functionIam"),
)
BUCKET_GRANTS = (*_grants("storage/bucketIAM"), *_grants("storage/managedFolderIam"))
TOPIC_GRANTS = _grants("pubsub/topicIAM")
SUBSCRIPTION_GRANTS = _grants("pubsub/subscriptionIAM")
ACCOUNT_GRANTS = _grants("serviceaccount/iAM")
OTHER_GRANTS = (
    *_grants("secretmanager/secretIam"),
    *_grants("artifactregistry/repositoryIam"),
    *_grants("cloudtasks/queueIam"),
    *_grants("bigquery/datasetIam"),
    *_grants("kms/cryptoKeyIAM"),
)

GRANTS = (
    *WIDE_GRANTS,
    *RUN_GRANTS,
    *BUCKET_GRANTS,
    *TOPIC_GRANTS,
    *SUBSCRIPTION_GRANTS,
    *ACCOUNT_GRANTS,
    *OTHER_GRANTS,
)
"""Every kind of grant that the rules know."""


def _grant_properties(type: str) -> tuple[str, ...]:
    if type.endswith("Policy"):
        return ("policyData",)
    return ("role", "member" if type.endswith("Member") else "members[]")


def _container_properties(containers: str, source: str) -> tuple[str, ...]:
    inside = ("image", "envs[]", "envs[].name", "envs[].value", f"envs[].{source}")
    return (containers, *(f"{containers}.{name}" for name in inside))


PROPERTIES: dict[str, tuple[str, ...]] = {
    SCHEDULER_JOB: (
        "name",
        "schedule",
        "timeZone",
        "region",
        "attemptDeadline",
        "httpTarget",
        "httpTarget.uri",
        "httpTarget.headers",
        "httpTarget.oidcToken",
        "httpTarget.oidcToken.audience",
        "httpTarget.oidcToken.serviceAccountEmail",
        "httpTarget.oauthToken",
        "httpTarget.oauthToken.serviceAccountEmail",
        "appEngineHttpTarget",
        "appEngineHttpTarget.headers",
        "retryConfig.retryCount",
        "retryConfig.maxRetryDuration",
        "retryConfig.minBackoffDuration",
        "retryConfig.maxBackoffDuration",
        "retryConfig.maxDoublings",
    ),
    RUN_SERVICE: (
        "name",
        "location",
        "ingress",
        "invokerIamDisabled",
        "labels",
        "uri",
        "template.timeout",
        "template.serviceAccount",
        *_container_properties("template.containers[]", "valueSource"),
        "template.containers[].sourceCode",
    ),
    RUN_JOB: (
        "location",
        "labels",
        "template.template.serviceAccount",
        *_container_properties("template.template.containers[]", "valueSource"),
    ),
    RUN_WORKER_POOL: (
        "location",
        "labels",
        "template.serviceAccount",
        *_container_properties("template.containers[]", "valueSource"),
    ),
    RUN_SERVICE_V1: (
        "name",
        "location",
        "metadata.annotations",
        "template.spec.timeoutSeconds",
        "template.spec.serviceAccountName",
        *_container_properties("template.spec.containers[]", "valueFrom"),
    ),
    FUNCTION: (
        "name",
        "location",
        "labels",
        "buildConfig.environmentVariables",
        "serviceConfig.environmentVariables",
        "serviceConfig.ingressSettings",
        "serviceConfig.serviceAccountEmail",
        "eventTrigger",
        "eventTrigger.retryPolicy",
        "eventTrigger.serviceAccountEmail",
    ),
    FUNCTION_V1: (
        "name",
        "region",
        "labels",
        "buildEnvironmentVariables",
        "environmentVariables",
        "ingressSettings",
        "serviceAccountEmail",
        "eventTrigger.failurePolicy.retry",
    ),
    DATABASE: ("name", "locationId", "deleteProtectionState"),
    FIELD: ("database", "collection", "field", "ttlConfig", "indexConfig", "indexConfig.indexes[]"),
    TOPIC: ("name", "labels"),
    SUBSCRIPTION: (
        "name",
        "topic",
        "labels",
        "ackDeadlineSeconds",
        "pushConfig",
        "pushConfig.pushEndpoint",
        "pushConfig.oidcToken.serviceAccountEmail",
        "deadLetterPolicy",
        "deadLetterPolicy.deadLetterTopic",
        "retryPolicy",
        "expirationPolicy.ttl",
    ),
    TRIGGER: ("location", "labels", "serviceAccount"),
    ACCOUNT_KEY: ("serviceAccountId",),
    API: ("service", "disableOnDestroy"),
    REPOSITORY: ("location", "labels"),
    SECRET: ("labels",),
    BUCKET: ("location", "labels", "publicAccessPrevention"),
    BUCKET_ACL: ("predefinedAcl", "roleEntities[]"),
    DEFAULT_OBJECT_ACL: ("roleEntities[]",),
    OBJECT_ACL: ("predefinedAcl", "roleEntities[]"),
    BUCKET_ACCESS: ("entity",),
    DEFAULT_OBJECT_ACCESS: ("entity",),
    OBJECT_ACCESS: ("entity",),
    **{type: _grant_properties(type) for type in GRANTS},
}
PROPERTIES[PROJECT_GRANTS[0]] += ("condition.expression",)

CALLABLES = {
    type: property
    for package, property in (
        ("cloudrunv2", "name"),
        ("cloudrun", "service"),
        ("cloudfunctionsv2", "cloudFunction"),
        ("cloudfunctions", "cloudFunction"),
    )
    for type in RUN_GRANTS
    if type.startswith(f"gcp:{package}/")
}
"""Where a grant names the service, job or function that may be called."""

for _grant, _name in CALLABLES.items():
    PROPERTIES[_grant] += (_name,)
for _grant in TOPIC_GRANTS:
    PROPERTIES[_grant] += ("topic",)
for _grant in SUBSCRIPTION_GRANTS:
    PROPERTIES[_grant] += ("subscription",)

CONTAINERS = {
    RUN_SERVICE: "template.containers",
    RUN_JOB: "template.template.containers",
    RUN_WORKER_POOL: "template.containers",
    RUN_SERVICE_V1: "template.spec.containers",
}
"""Where the containers stand."""

VALUE_SOURCES = {
    RUN_SERVICE_V1: "valueFrom",
    RUN_SERVICE: "valueSource",
    RUN_JOB: "valueSource",
    RUN_WORKER_POOL: "valueSource",
}
"""Where an environment variable names its secret."""

ENVIRONMENT_MAPS = {
    FUNCTION: ("serviceConfig.environmentVariables", "buildConfig.environmentVariables"),
    FUNCTION_V1: ("environmentVariables", "buildEnvironmentVariables"),
}
"""Where environment variables stand as a map."""

RUN_ACCOUNTS = {
    RUN_SERVICE: "template.serviceAccount",
    RUN_JOB: "template.template.serviceAccount",
    RUN_WORKER_POOL: "template.serviceAccount",
    RUN_SERVICE_V1: "template.spec.serviceAccountName",
    FUNCTION: "serviceConfig.serviceAccountEmail",
    FUNCTION_V1: "serviceAccountEmail",
}
"""The account that code runs as."""

CALLER_ACCOUNTS = {
    SCHEDULER_JOB: (
        "httpTarget.oidcToken.serviceAccountEmail",
        "httpTarget.oauthToken.serviceAccountEmail",
    ),
    SUBSCRIPTION: ("pushConfig.oidcToken.serviceAccountEmail",),
    TRIGGER: ("serviceAccount",),
    FUNCTION: ("eventTrigger.serviceAccountEmail",),
}
"""The accounts that calls are made as."""

REGIONS = {
    SCHEDULER_JOB: "region",
    RUN_SERVICE: "location",
    RUN_JOB: "location",
    RUN_WORKER_POOL: "location",
    RUN_SERVICE_V1: "location",
    FUNCTION: "location",
    FUNCTION_V1: "region",
    DATABASE: "locationId",
    TRIGGER: "location",
    REPOSITORY: "location",
    BUCKET: "location",
}
"""Where the place of a resource stands."""

LABELLED = (
    RUN_SERVICE,
    RUN_JOB,
    RUN_WORKER_POOL,
    FUNCTION,
    FUNCTION_V1,
    TOPIC,
    SUBSCRIPTION,
    TRIGGER,
    REPOSITORY,
    SECRET,
    BUCKET,
)
"""What carries labels."""


def declares(type: str, path: str) -> bool:
    """Tell whether a rule may read this path: it, or the same list, stands in `PROPERTIES`."""
    return any(
        path == declared or path == _without_list_mark(declared)
        for declared in PROPERTIES.get(type, ())
    )


def _without_list_mark(path: str) -> str:
    return re.sub(r"\[\]$", "", path)
