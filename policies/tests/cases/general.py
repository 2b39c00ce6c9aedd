"""Programs for the rules about every kind of resource."""

from rules import schema

from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import NOT_YET, api, bucket, grant

_READER = grant(schema.BUCKET_GRANTS[0], bucket="acme-uploads").set(
    "role", "roles/storage.objectViewer"
)
_LABELLED = bucket().set("labels", {"team": "billing"})

CASES = (
    Case(
        "general-regions",
        passes=[bucket()],
        breaks=[bucket().set("location", "US")],
        absent=([bucket().drop("location")], PASSES),
        unknown=([bucket().set("location", NOT_YET)], CANNOT_RUN),
        config={"allowed": ["europe-*"]},
    ),
    Case(
        "general-labels",
        passes=[_LABELLED],
        breaks=[bucket()],
        absent=([bucket().set("labels", {})], BREAKS),
        unknown=([bucket().set("labels", NOT_YET)], CANNOT_RUN),
        config={"required": {"team": "unknown"}},
    ),
    Case(
        "general-apis-stay-enabled",
        passes=[api()],
        breaks=[api().set("disableOnDestroy", True)],
        absent=([api().drop("disableOnDestroy")], PASSES),
        unknown=([api().set("disableOnDestroy", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "general-bucket-public-access",
        passes=[bucket()],
        breaks=[bucket().set("publicAccessPrevention", "inherited")],
        absent=([bucket().drop("publicAccessPrevention")], BREAKS),
        unknown=([bucket().set("publicAccessPrevention", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "general-bucket-public-grants",
        passes=[_READER],
        breaks=[_READER.set("member", "allUsers")],
        absent=([_READER.drop("member")], PASSES),
        unknown=([_READER.set("member", NOT_YET)], CANNOT_RUN),
    ),
)
