"""Rules for every kind of resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from . import schema
from .grants import PUBLIC, members
from .reading import Resource
from .rule import ADVISORY, REMEDIATE, SAYS_SO_KNOWN_FIRST, Knob, resource_rule, texts

_LISTED_ACLS = (schema.BUCKET_ACL, schema.DEFAULT_OBJECT_ACL, schema.OBJECT_ACL)
_SINGLE_ACLS = (schema.BUCKET_ACCESS, schema.DEFAULT_OBJECT_ACCESS, schema.OBJECT_ACCESS)
_PUBLIC_ACLS = frozenset({"publicRead", "publicReadWrite", "authenticatedRead"})


@resource_rule(
    "general-regions",
    types=tuple(schema.REGIONS),
    title="A resource stands in an allowed region",
    why="Where data lies is a promise to somebody, and a job in another region than its service"
    " pays for every call.",
    fix="Move the resource to an allowed region, or allow its region in the pack's configuration.",
    knobs={
        "allowed": texts(
            "Allowed regions and multi-regions; europe-* allows all that begin so. Empty: all."
        )
    },
)
def regions(resource: Resource) -> Iterator[str]:
    allowed = resource.setting("allowed")
    if not allowed:
        return
    region = resource.get(schema.REGIONS[resource.type]) or resource.provider_setting("region")
    if region and not any(fnmatchcase(region.lower(), pattern.lower()) for pattern in allowed):
        yield f"{region} is not one of {', '.join(allowed)}."


def _missing_labels(resource: Resource) -> dict[str, str]:
    given = resource.map("labels")
    return {
        name: value for name, value in resource.setting("required").items() if not given.get(name)
    }


def _add_labels(resource: Resource) -> Mapping[str, Any] | None:
    if isinstance(resource.raw.get("labels"), str):
        return None  # not known yet: a remedy is handed a placeholder
    if not (missing := _missing_labels(resource)):
        return None
    resource.add("labels", missing)
    return resource.raw


@resource_rule(
    "general-labels",
    types=schema.LABELLED,
    level=REMEDIATE,
    title="A resource carries the required labels",
    why="Labels tell whose a resource is, and what it costs.",
    fix="Nothing to do: a missing label is added. Where that is not wanted, set it in the program.",
    unknown="Labels that are not known yet are left alone; the preview says that the rule could not"
    " run, and `up` adds what is missing.",
    remedy=_add_labels,
    knobs={
        "required": Knob(
            {},
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Labels with the values that are added where they are missing.",
            },
        )
    },
)
def labels(resource: Resource) -> Iterator[str]:
    if missing := _missing_labels(resource):
        yield f"the labels {', '.join(missing)} are missing."


@resource_rule(
    "general-apis-stay-enabled",
    types=(schema.API,),
    title="Destroying a stack leaves APIs enabled",
    why="An API belongs to the whole project: switched off with one stack, it takes every other"
    " stack down.",
    fix="Set disable_on_destroy=False.",
    unknown="The preview says that the rule could not run; `up` checks it. Where it is not set, the"
    " provider's default counts, which the preview knows.",
)
def apis_stay_enabled(api: Resource) -> Iterator[str]:
    if api.get("disableOnDestroy", False):
        yield f"{api.get('service', api.name)} is disabled on destroy."


@resource_rule(
    "general-bucket-public-access",
    types=(schema.BUCKET,),
    level=ADVISORY,
    title="A bucket refuses to be made public",
    why="One wrong grant, in the console too, opens its objects to the internet; prevention makes"
    " every such grant fail. A bucket without it is not public yet: a public grant in the program"
    " is what general-bucket-public-grants stops.",
    fix='Set public_access_prevention="enforced".',
)
def bucket_public_access(bucket: Resource) -> Iterator[str]:
    prevention = bucket.get("publicAccessPrevention")
    if prevention != "enforced":
        yield f"public access prevention is {prevention or 'not set'}."


@resource_rule(
    "general-bucket-public-grants",
    types=(*schema.BUCKET_GRANTS, *_LISTED_ACLS, *_SINGLE_ACLS),
    title="Nobody unnamed may read a bucket",
    why="allUsers is the internet, allAuthenticatedUsers is everybody with a Google account.",
    fix="Grant the role to a named account or group; for public files use a load balancer in"
    " front.",
    unknown=SAYS_SO_KNOWN_FIRST,
)
def bucket_public_grants(grant: Resource) -> Iterator[str]:
    if grant.type in schema.BUCKET_GRANTS:
        holders = members(grant)
    elif grant.type in _SINGLE_ACLS:
        holders = iter((grant.get("entity", ""),))
    else:
        if grant.type != schema.DEFAULT_OBJECT_ACL and grant.get("predefinedAcl") in _PUBLIC_ACLS:
            yield f"the ACL {grant.get('predefinedAcl')} is public."
        holders = (entry.split(":", 1)[-1] for entry in grant.values("roleEntities"))
    for holder in holders:
        if holder in PUBLIC:
            yield f"{holder} is granted access."
