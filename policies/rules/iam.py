"""Rules for grants and accounts, wherever they are used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import schema
from .grants import is_member, members, roles
from .reading import Resource, known_first
from .rule import SAYS_SO_KNOWN_FIRST, resource_rule

_BASIC_ROLES = frozenset({"roles/owner", "roles/editor", "roles/viewer"})
_IMPERSONATION_ROLES = frozenset(
    {
        "roles/iam.serviceAccountUser",
        "roles/iam.serviceAccountTokenCreator",
        "roles/iam.serviceAccountOpenIdTokenCreator",
        "roles/iam.serviceAccountKeyAdmin",
        "roles/iam.workloadIdentityUser",
    }
)
_DEFAULT_ACCOUNT = re.compile(
    r"(?:serviceAccount:)?"
    r"(?:\d+-compute@developer\.gserviceaccount\.com|[a-z0-9.:-]+@appspot\.gserviceaccount\.com)"
)


@resource_rule(
    "iam-no-basic-roles",
    types=schema.GRANTS,
    title="Nobody is granted a basic role",
    why="Owner, editor and viewer cover thousands of permissions in every service, those of"
    " tomorrow too.",
    fix="Grant the one role that is needed, on the one resource that needs it.",
)
def no_basic_roles(grant: Resource) -> Iterator[str]:
    for role in roles(grant):
        if role in _BASIC_ROLES:
            yield f"{role} is granted."


@resource_rule(
    "iam-no-wide-impersonation",
    types=schema.WIDE_GRANTS,
    title="Nobody may act as every account of a project",
    why="On a project these roles let their holder become any of its accounts, the most powerful"
    " included.",
    fix="Grant the role on the one service account, with serviceaccount.IAMMember.",
)
def no_wide_impersonation(grant: Resource) -> Iterator[str]:
    for role in roles(grant):
        if role in _IMPERSONATION_ROLES:
            yield f"{role} is granted on everything below."


@resource_rule(
    "iam-no-authoritative-grants",
    types=tuple(type for type in schema.WIDE_GRANTS if not type.endswith("Member")),
    title="A project's grants are added, never replaced",
    why="A binding or policy removes whoever else holds the role, Google's service agents"
    " included, and on destroy everybody.",
    fix="Use projects.IAMMember, one per member and role.",
    unknown="No value is needed: the resource itself is the violation.",
)
def no_authoritative_grants(grant: Resource) -> Iterator[str]:
    if not is_member(grant):
        yield f"{grant.type.rsplit(':', 1)[-1]} replaces what others have granted."


@resource_rule(
    "iam-no-keys",
    types=(schema.ACCOUNT_KEY,),
    title="No service account has a key",
    why="A key does not expire, can be copied, and lies in the state.",
    fix="Run as the account on Google Cloud; from elsewhere use workload identity federation.",
    unknown="No value is needed: the resource itself is the violation.",
)
def no_keys(key: Resource) -> Iterator[str]:
    yield f"a key is made by {key.name}."


@resource_rule(
    "iam-no-default-accounts",
    types=tuple(dict.fromkeys((*schema.GRANTS, *schema.RUN_ACCOUNTS, *schema.CALLER_ACCOUNTS))),
    title="No default account is used",
    why="The default accounts of Compute Engine and App Engine belong to everything in the"
    " project, and often hold the editor role.",
    fix="Make a serviceaccount.Account for this one purpose.",
    unknown=SAYS_SO_KNOWN_FIRST,
)
def no_default_accounts(resource: Resource) -> Iterator[str]:
    def check(path: str) -> Iterator[str]:
        yield from _default_account(resource.get(path, ""))

    if resource.type in schema.GRANTS:
        for member in members(resource):
            yield from _default_account(member)
        return
    paths = [*schema.CALLER_ACCOUNTS.get(resource.type, ())]
    if resource.type in schema.RUN_ACCOUNTS:
        paths.append(schema.RUN_ACCOUNTS[resource.type])
    yield from known_first(check, paths)


def _default_account(address: str) -> Iterator[str]:
    if _DEFAULT_ACCOUNT.fullmatch(address):
        yield f"{address} is a default account."
