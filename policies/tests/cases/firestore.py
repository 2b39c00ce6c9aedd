"""Programs for the rules about Firestore."""

from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import (
    NOT_YET,
    database,
    datastore_grant,
    job,
    service,
    ttl_field,
    unindexed_fields,
)

_STORE = "template.containers.0.envs.2.value"
_RETENTION = "template.containers.0.envs.1"
_ASCENDING = {"indexes": [{"order": "ASCENDING"}]}

CASES = (
    Case(
        "firestore-ttl",
        passes=[service(), database(), unindexed_fields(), ttl_field()],
        breaks=[service(), database(), unindexed_fields()],
        absent=([service(), database(), unindexed_fields(), ttl_field().drop("ttlConfig")], BREAKS),
        unknown=([service().set(_STORE, NOT_YET), database()], CANNOT_RUN),
    ),
    Case(
        "firestore-retention",
        passes=[service(), job()],
        breaks=[service().set(f"{_RETENTION}.value", "1200"), job()],
        absent=([service().drop(_RETENTION), job()], PASSES),
        unknown=([service().set(f"{_RETENTION}.value", NOT_YET), job()], CANNOT_RUN),
    ),
    Case(
        "firestore-timestamps-unindexed",
        passes=[service(), database(), ttl_field(), unindexed_fields()],
        breaks=[
            service(),
            database(),
            ttl_field().set("indexConfig", _ASCENDING),
            unindexed_fields(),
        ],
        absent=([service(), database(), ttl_field()], BREAKS),
        unknown=(
            [service(), database(), ttl_field(), unindexed_fields().set("field", NOT_YET)],
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
