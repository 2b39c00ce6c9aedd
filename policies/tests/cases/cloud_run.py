"""Programs for the rules about Cloud Run."""

from rules import schema

from ..analyzer import Reference
from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import NOT_YET, grant, once_service, service

_INVOKER = grant(schema.RUN_GRANTS[0], name="handler", location="europe-west6")
_KEY = {"name": "STRIPE_API_KEY", "value": "rk_51"}
_KEY_BY_REFERENCE = {
    "name": "STRIPE_API_KEY",
    "valueSource": {"secretKeyRef": {"secret": "stripe", "version": "3"}},
}
_LEASE = "template.containers.0.envs.0"

CASES = (
    Case(
        "cloud-run-no-public-access",
        passes=[_INVOKER],
        breaks=[_INVOKER.set("member", "allUsers")],
        absent=([_INVOKER.drop("member")], PASSES),
        unknown=([_INVOKER.set("member", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "cloud-run-invoker-check",
        passes=[service()],
        breaks=[service().set("invokerIamDisabled", True)],
        absent=([service()], PASSES),
        unknown=([service().set("invokerIamDisabled", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "cloud-run-own-account",
        passes=[service()],
        breaks=[service().drop("template.serviceAccount")],
        absent=([service().set("template.serviceAccount", "")], BREAKS),
        unknown=([service().set("template.serviceAccount", Reference("own", "email"))], PASSES),
    ),
    Case(
        "cloud-run-ingress",
        passes=[service()],
        breaks=[service().set("ingress", "INGRESS_TRAFFIC_ALL")],
        absent=([service().drop("ingress")], BREAKS),
        unknown=([service().set("ingress", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "cloud-run-image-digest",
        passes=[service()],
        breaks=[service().set("template.containers.0.image", "gcr.io/acme/handler:latest")],
        absent=([service().drop("template.containers.0.image")], BREAKS),
        unknown=(
            [service().set("template.containers.0.image", Reference("image", "ref"))],
            PASSES,
        ),
    ),
    Case(
        "cloud-run-no-plain-secrets",
        passes=[service().set("template.containers.0.envs", [_KEY_BY_REFERENCE])],
        breaks=[service().set("template.containers.0.envs", [_KEY])],
        absent=([service()], PASSES),
        unknown=(
            [service().set("template.containers.0.envs", [{**_KEY, "value": NOT_YET}])],
            BREAKS,
        ),
    ),
    Case(
        "cloud-run-lease",
        passes=[once_service("ONCE_LEASE_SECONDS")],
        breaks=[once_service("ONCE_LEASE_SECONDS").set("template.timeout", "600s")],
        absent=(
            [
                once_service("ONCE_LEASE_SECONDS")
                .drop("template.timeout")
                .set(f"{_LEASE}.value", "240")
            ],
            BREAKS,
        ),
        unknown=([once_service("ONCE_LEASE_SECONDS").set(f"{_LEASE}.value", NOT_YET)], CANNOT_RUN),
    ),
)
