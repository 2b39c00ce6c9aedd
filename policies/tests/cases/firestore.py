"""Programs for the rules about Firestore."""

from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import (
    NOT_YET,
    database,
    datastore_grant,
    once_service,
    timed_job,
    ttl_field,
    unindexed_fields,
)

_service = once_service("ONCE_STORE")
_kept_service = once_service("ONCE_LEASE_SECONDS", "ONCE_RETENTION_SECONDS")
_STORE = "template.containers.0.envs.0.value"
_RETENTION = "template.containers.0.envs.1"
_ASCENDING = {"indexes": [{"order": "ASCENDING"}]}

CASES = (
    Case(
        "firestore-ttl",
        passes=[_service, database(), unindexed_fields(), ttl_field()],
        breaks=[_service, database(), unindexed_fields()],
        absent=([_service, database(), unindexed_fields(), ttl_field().drop("ttlConfig")], BREAKS),
        unknown=([_service.set(_STORE, NOT_YET), database()], CANNOT_RUN),
    ),
    Case(
        "firestore-retention",
        passes=[_kept_service, timed_job()],
        breaks=[_kept_service.set(f"{_RETENTION}.value", "1200"), timed_job()],
        absent=([_kept_service.drop(_RETENTION), timed_job()], PASSES),
        unknown=([_kept_service.set(f"{_RETENTION}.value", NOT_YET), timed_job()], CANNOT_RUN),
    ),
    Case(
        "firestore-timestamps-unindexed",
        passes=[_service, database(), ttl_field(), unindexed_fields()],
        breaks=[
            _service,
            database(),
            ttl_field().set("indexConfig", _ASCENDING),
            unindexed_fields(),
        ],
        absent=([_service, database(), ttl_field()], BREAKS),
        unknown=(
            [_service, database(), ttl_field(), unindexed_fields().set("field", NOT_YET)],
            CANNOT_RUN,
        ),
    ),
    Case(
        "firestore-delete-protection",
        passes=[database()],
        breaks=[database().set("deleteProtectionState", "DELETE_PROTECTION_DISABLED")],
        absent=([database().drop("deleteProtectionState")], BREAKS),
        unknown=([database().set("deleteProtectionState", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "firestore-narrow-roles",
        passes=[datastore_grant()],
        breaks=[datastore_grant().drop("condition")],
        absent=([datastore_grant().drop("condition.expression")], BREAKS),
        unknown=([datastore_grant().set("condition.expression", NOT_YET)], CANNOT_RUN),
    ),
)
