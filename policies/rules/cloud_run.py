"""Rules for Cloud Run services, jobs and worker pools, and for functions, which run on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import schema
from .grants import PUBLIC, members
from .reading import UNKNOWN, Resource, seconds
from .rule import ADVISORY, ALLOW, SAYS_SO_KNOWN_FIRST, is_allowed, resource_rule, texts
from .stack import leases, request_timeout, variables

SERVICES = (schema.RUN_SERVICE, schema.RUN_SERVICE_V1)
FUNCTIONS = (schema.FUNCTION, schema.FUNCTION_V1)
WITH_CONTAINERS = tuple(schema.CONTAINERS)

_INGRESS_ANNOTATION = "run.googleapis.com/ingress"
_INVOKER_ANNOTATION = "run.googleapis.com/invoker-iam-disabled"
_INGRESS = {
    schema.RUN_SERVICE: "ingress",
    schema.FUNCTION: "serviceConfig.ingressSettings",
    schema.FUNCTION_V1: "ingressSettings",
}
_RESTRICTED_INGRESS = {
    "INGRESS_TRAFFIC_INTERNAL_ONLY",
    "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
    "ALLOW_INTERNAL_ONLY",
    "ALLOW_INTERNAL_AND_GCLB",
    "internal",
    "internal-and-cloud-load-balancing",
}

_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")

_SECRET_NAME = re.compile(
    r"(?:^|.*_)(?:PASSWORD|PASSWD|PWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?|(?<!PUBLIC_)KEY|APIKEY)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r'|"private_key"\s*:'
    r"|\bAIza[\w-]{35}\b"  # Google API key
    r"|\bya29\.[\w-]+"  # Google access token
    r"|\bgh[pousr]_\w{36,}"  # GitHub
    r"|\bAKIA[0-9A-Z]{16}\b"  # AWS
    r"|\bsk_live_\w+"  # Stripe
    r"|\bxox[abprs]-[\w-]+"  # Slack
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]+\.[\w-]+"  # JSON web token
    r"|://[^/\s:@]*:[^/\s@]+@"  # URL with a password
)


@resource_rule(
    "cloud-run-no-public-access",
    types=schema.RUN_GRANTS,
    title="Nobody unnamed may call a service, a job or a function",
    why="allUsers is the internet, allAuthenticatedUsers is everybody with a Google account."
    " Whoever can call the handler can forge a run.",
    fix="Grant roles/run.invoker to the one service account that calls, as a member resource. What"
    " is meant for everybody, such as a website, can be named with its reason in the setting"
    " `allow`.",
    unknown=SAYS_SO_KNOWN_FIRST,
    knobs=ALLOW,
)
def no_public_access(grant: Resource) -> Iterator[str]:
    for member in members(grant):
        if member in PUBLIC and not is_allowed(grant, schema.CALLABLES[grant.type]):
            yield f"{member} is granted access."


@resource_rule(
    "cloud-run-invoker-check",
    types=SERVICES,
    title="A service checks who calls it",
    why="With the invoker check disabled IAM is not asked at all, and no grant shows that the"
    " service is open.",
    fix="Remove invoker_iam_disabled (v1: the annotation) and grant roles/run.invoker to the"
    " caller.",
)
def invoker_check(service: Resource) -> Iterator[str]:
    if service.type == schema.RUN_SERVICE:
        disabled = service.get("invokerIamDisabled", False)
    else:
        annotations = service.map("metadata.annotations")
        disabled = _known(annotations, _INVOKER_ANNOTATION) == "true"
    if disabled:
        yield "the invoker check is disabled."


@resource_rule(
    "cloud-run-own-account",
    types=tuple(schema.RUN_ACCOUNTS),
    title="What runs has a service account of its own",
    why="Without one it runs as the Compute Engine default account, which in many projects may edit"
    " everything.",
    fix="Set service_account to an account that this service alone uses.",
    unknown="An account that is not known yet is set, and passes: only its absence is a violation."
    " iam-no-default-accounts looks at the address.",
)
def own_account(resource: Resource) -> Iterator[str]:
    if resource.peek(schema.RUN_ACCOUNTS[resource.type]) in (None, ""):
        yield "no service account is set, so it runs as the default one."


@resource_rule(
    "cloud-run-ingress",
    types=(*_INGRESS, schema.RUN_SERVICE_V1),
    level=ADVISORY,
    title="A service is reachable from inside only",
    why="Cloud Scheduler, Pub/Sub, Eventarc and Workflows of the same project count as internal, so"
    " nobody else needs the door. It is the second lock beside the invoker check.",
    fix='Set ingress="INGRESS_TRAFFIC_INTERNAL_ONLY" (functions: "ALLOW_INTERNAL_ONLY"). A website'
    " can be named with its reason in the setting `allow`.",
    knobs=ALLOW,
)
def ingress(service: Resource) -> Iterator[str]:
    if service.type == schema.RUN_SERVICE_V1:
        found = _known(service.map("metadata.annotations"), _INGRESS_ANNOTATION)
    else:
        found = service.get(_INGRESS[service.type])
    if found not in _RESTRICTED_INGRESS and not is_allowed(service):
        yield f"ingress is {found or 'not set, which means open'}."


@resource_rule(
    "cloud-run-image-digest",
    types=WITH_CONTAINERS,
    level=ADVISORY,
    title="An image is deployed by digest, or built by the program",
    why="A tag can point to other code tomorrow; two instances of one revision then run different"
    " handlers.",
    fix="Write the image as NAME@sha256:DIGEST, or build it in the program and use its `ref`.",
    unknown="An image that is not known yet is the output of a build in this program, and passes.",
)
def image_digest(resource: Resource) -> Iterator[str]:
    for container in resource.nodes(schema.CONTAINERS[resource.type]):
        if resource.type == schema.RUN_SERVICE and container.has("sourceCode"):
            continue
        image = container.peek("image")
        if image is not UNKNOWN and not _DIGEST.fullmatch(image or ""):
            yield f"image {image!r} has no digest."


@resource_rule(
    "cloud-run-no-plain-secrets",
    types=(*WITH_CONTAINERS, *FUNCTIONS),
    title="No secret stands in a plain environment variable",
    why="Plain variables are readable for everybody who may look at the service, and stay in old"
    " revisions and in the state.",
    fix="Put the value into Secret Manager and refer to it with value_source.secret_key_ref"
    " (functions: secret_environment_variables; in this template: `secrets` on the service).",
    unknown="A variable is judged by its name first; a value that is not known yet is then taken"
    " for another resource's output and passes.",
    knobs={"allowed": texts("Variables that hold no secret though their name looks like it.")},
)
def no_plain_secrets(resource: Resource) -> Iterator[str]:
    for name, value in _plain_variables(resource):
        if name in resource.setting("allowed") or value in (None, ""):
            continue
        if _SECRET_NAME.fullmatch(name):
            yield f"the variable {name} looks like a secret by its name."
        elif value is not UNKNOWN and _SECRET_VALUE.search(str(value)):
            yield f"the value of the variable {name} looks like a secret."


@resource_rule(
    "cloud-run-lease",
    types=SERVICES,
    title="A lease is not shorter than the request timeout",
    why="A lease that ends while its attempt still works lets a second attempt take over the"
    " run, so it takes effect twice.",
    fix="Lower the service's timeout to the lease, or change it where lease, attempt deadline"
    " and retries follow from it (in this template: `timeout` of the service in the stack"
    " configuration).",
)
def lease(service: Resource) -> Iterator[str]:
    timeout = request_timeout(service)
    shorter = [
        f"{name} is {seconds(own)}" for name, own in leases(service).items() if own < timeout
    ]
    if shorter:
        yield f"the timeout is {seconds(timeout)}, but {' and '.join(shorter)}."


def _known(annotations: dict[str, object], name: str) -> object:
    value = annotations.get(name)
    return None if value is UNKNOWN else value


def _plain_variables(resource: Resource) -> Iterator[tuple[str, object]]:
    """Give names and values: UNKNOWN for one not known yet, None where a secret is named."""
    if resource.type in schema.ENVIRONMENT_MAPS:
        for path in schema.ENVIRONMENT_MAPS[resource.type]:
            yield from resource.map(path).items()
    else:
        for name, holder in variables(resource):
            secret = holder.has(schema.VALUE_SOURCES[resource.type])
            yield name, None if secret else holder.peek("value")
