"""Programs for the rules about Eventarc and functions."""

from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import NOT_YET, function, trigger

_AGE_LIMIT = "serviceConfig.environmentVariables"

CASES = (
    Case(
        "eventarc-own-account",
        passes=[trigger()],
        breaks=[trigger().drop("serviceAccount")],
        absent=([trigger().set("serviceAccount", "")], BREAKS),
        unknown=([trigger().set("serviceAccount", NOT_YET)], PASSES),
    ),
    Case(
        "eventarc-retry-age-limit",
        passes=[function()],
        breaks=[function().drop(f"{_AGE_LIMIT}.MAX_AGE_SECONDS")],
        absent=([function().drop(_AGE_LIMIT)], BREAKS),
        unknown=([function().set("eventTrigger.retryPolicy", NOT_YET)], CANNOT_RUN),
    ),
)
