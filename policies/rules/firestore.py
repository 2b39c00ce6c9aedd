"""Rules for the Firestore database that keeps the records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from . import protocol, schema
from .reading import Resource, Stack, known_first, seconds
from .rule import ADVISORY, Knob, resource_rule, stack_rule, texts
from .stack import (
    covers_its_timeout,
    job_deadline,
    job_retries,
    job_service,
    leases,
    length,
    own_name,
    request_timeout,
    services,
    variable,
)

_DEFAULT_DATABASE = "(default)"
_EVERY_FIELD = "*"
_EVERY_COLLECTION = "__default__"
_NARROWED = re.compile(r"resource\.name\s*==\s*[\"']projects/[^/]+/databases/[^/\"']+[\"']")

_COLLECTIONS = texts(
    "Collections to look for in every database of the stack; empty: those that"
    " the services name by ONCE_STORE."
)


class Collection(NamedTuple):
    """A collection whose fields this stack manages, and the resource that a violation names."""

    database: str
    name: str
    owner: Resource


@stack_rule(
    "firestore-ttl",
    title="The records of a handler are deleted when their time is over",
    why="Without a TTL policy every run leaves a document for ever: the bill grows, and so does the"
    " backup.",
    fix='Add a firestore.Field for the collection with field="expire_at" and ttl_config={}.',
    knobs={"collections": _COLLECTIONS},
)
def ttl(stack: Stack) -> Iterator[tuple[Resource, str]]:
    fields = stack.of_type(schema.FIELD)

    def check(collection: Collection) -> Iterator[tuple[Resource, str]]:
        field = _field(fields, collection.database, collection.name, protocol.TTL_FIELD)
        if field is None or not field.has("ttlConfig"):
            name, database = collection.name, collection.database
            yield (
                collection.owner,
                f"{name} in database {database} has no TTL policy on {protocol.TTL_FIELD}.",
            )

    yield from known_first(check, _collections(stack, fields))


@stack_rule(
    "firestore-retention",
    title="A record outlives the retries of its run",
    why="A record that is gone while Cloud Scheduler still retries lets the run take effect again.",
    fix="Raise ONCE_RETENTION_SECONDS above what the violation says (in this template:"
    " `retention`).",
    knobs={
        "retentionSeconds": Knob(
            protocol.DEFAULT_RETENTION.total_seconds(),
            {
                "type": "number",
                "description": "Retention of services that have a lease but do not set"
                " ONCE_RETENTION_SECONDS.",
            },
        )
    },
)
def retention(stack: Stack) -> Iterator[tuple[Resource, str]]:
    otherwise = stack.setting("retentionSeconds")

    def check(job: Resource) -> Iterator[tuple[Resource, str]]:
        service = job_service(stack, job)
        if service is None or not covers_its_timeout(service):
            return
        lease = leases(service).get(protocol.LEASE_VARIABLE)
        if lease is None:
            return
        given = variable(service, protocol.RETENTION_VARIABLE)
        kept = length(otherwise if given is None else given)
        attempt = max(job_deadline(job), request_timeout(service))
        needed = job_retries(job).last_start(attempt) + lease
        if kept <= needed:
            yield (
                service,
                f"records are kept for {seconds(kept)}; the last retry of {job.name} and its lease"
                f" can end {seconds(needed)} after the first attempt began.",
            )

    yield from known_first(check, stack.of_type(schema.SCHEDULER_JOB))


@stack_rule(
    "firestore-timestamps-unindexed",
    level=ADVISORY,
    title="Timestamps are not indexed",
    why="Indexes on values that only grow write to one place: Firestore advises against more"
    " than 500 writes per second, and every index entry is paid for.",
    fix='Add one firestore.Field for the collection with field="*" and index_config={}, and give no'
    " indexes to the timestamp fields.",
    knobs={
        "collections": _COLLECTIONS,
        "fields": texts("The timestamp fields.", protocol.TIMESTAMP_FIELDS),
    },
)
def timestamps_unindexed(stack: Stack) -> Iterator[tuple[Resource, str]]:
    fields = stack.of_type(schema.FIELD)

    def check(collection: Collection) -> Iterator[tuple[Resource, str]]:
        database, name, owner = collection
        exempt = _is_exempt(_field(fields, database, name, _EVERY_FIELD))
        if exempt is None:
            exempt = _is_exempt(_field(fields, database, _EVERY_COLLECTION, _EVERY_FIELD))
        indexed = []
        for field_name in stack.setting("fields"):
            field = _field(fields, database, name, field_name)
            own = _is_exempt(field)
            if own is None and not exempt:
                indexed.append(field_name)
            elif field and own is False:
                yield field, f"{field_name} of {name} in database {database} is indexed."
        if indexed:
            yield owner, f"{', '.join(indexed)} of {name} in database {database} are indexed."

    yield from known_first(check, _collections(stack, fields))


@resource_rule(
    "firestore-delete-protection",
    types=(schema.DATABASE,),
    level=ADVISORY,
    title="The database cannot be deleted by mistake",
    why="With the records gone every retry and every repeated delivery is a new run.",
    fix='Set delete_protection_state="DELETE_PROTECTION_ENABLED".',
)
def delete_protection(database: Resource) -> Iterator[str]:
    state = database.get("deleteProtectionState")
    if state != "DELETE_PROTECTION_ENABLED":
        yield f"delete protection is {state or 'not set'}."


@resource_rule(
    "firestore-narrow-roles",
    types=(schema.PROJECT_GRANTS[0],),
    title="A role on Firestore is narrowed to one database",
    why="roles/datastore.* on a project opens every database in it, those of other teams too.",
    fix="Add a condition with the expression resource.name =="
    ' "projects/PROJECT/databases/DATABASE".',
    unknown="An absent condition is a violation at once. Where the role or the expression is not"
    " known yet, the preview says that the rule could not run, and `up` checks it.",
)
def narrow_roles(grant: Resource) -> Iterator[str]:
    role = grant.get("role", "")
    if not role.startswith("roles/datastore."):
        return
    expression = grant.get("condition.expression", "")
    if not _NARROWED.search(expression) or "||" in expression:
        yield f"{role} is granted on the whole project."


def _collections(stack: Stack, fields: list[Resource]) -> Iterator[Collection]:
    """Give the collections that the handlers use, where this stack is what manages their fields."""
    databases = {own_name(found): found for found in stack.of_type(schema.DATABASE)}
    asked = stack.setting("collections")
    if asked:
        for database, owner in databases.items():
            yield from (Collection(database, name, owner) for name in asked)
        return
    managed = {*databases, *(field.get("database", _DEFAULT_DATABASE) for field in fields)}
    seen: set[tuple[str, str]] = set()
    for service in services(stack):
        store = urlsplit(variable(service, protocol.STORE_VARIABLE) or "")
        database = store.path.strip("/") or _DEFAULT_DATABASE
        if store.scheme != "firestore" or database not in managed:
            continue
        names = [protocol.RUNS_COLLECTION]
        if protocol.EVENT_LEASE_VARIABLE in leases(service):
            names.append(protocol.EVENTS_COLLECTION)
        for name in names:
            if (database, name) not in seen:
                seen.add((database, name))
                yield Collection(database, name, databases.get(database, service))


def _field(fields: list[Resource], database: str, collection: str, name: str) -> Resource | None:
    for field in fields:
        place = (
            field.get("database", _DEFAULT_DATABASE),
            field.get("collection"),
            field.get("field"),
        )
        if place == (database, collection, name):
            return field
    return None


def _is_exempt(field: Resource | None) -> bool | None:
    """Tell whether a field has no index; None where what stands above it decides."""
    if field is None or not field.has("indexConfig"):
        return None
    return not any(True for _ in field.nodes("indexConfig.indexes"))
