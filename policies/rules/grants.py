"""Who gets what by a grant, in the three ways in which one can be written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .reading import Resource

PUBLIC = frozenset({"allUsers", "allAuthenticatedUsers"})


def is_member(grant: Resource) -> bool:
    """Tell whether the grant adds one member and leaves all others alone."""
    return grant.type.endswith("Member")


def is_policy(grant: Resource) -> bool:
    """Tell whether the grant is a whole policy."""
    return grant.type.endswith("Policy")


def members(grant: Resource) -> Iterator[str]:
    """Give all members, the known ones first; an unknown one raises after them."""
    if is_policy(grant):
        for binding in _bindings(grant):
            yield from binding.get("members", [])
    elif is_member(grant):
        yield grant.get("member", "")
    else:
        yield from grant.values("members")


def roles(grant: Resource) -> Iterator[str]:
    """Give all roles; an unknown one raises."""
    if is_policy(grant):
        for binding in _bindings(grant):
            yield binding.get("role", "")
    else:
        yield grant.get("role", "")


def members_of_role(grant: Resource, role: str) -> Iterator[str]:
    """Give the members of one role, the known ones first."""
    if is_policy(grant):
        for binding in _bindings(grant):
            if binding.get("role") == role:
                yield from binding.get("members", [])
    elif grant.get("role") == role:
        yield from members(grant)


def _bindings(grant: Resource) -> Iterator[dict[str, Any]]:
    policy = json.loads(grant.get("policyData", "{}"))
    yield from policy.get("bindings", [])
