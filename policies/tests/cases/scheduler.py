"""Programs for the rules about Cloud Scheduler."""

from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import CALLER, NOT_YET, URL, job, once_service, service, timed_job

_GOOGLE_URL = (
    "https://workflowexecutions.googleapis.com/v1"
    "/projects/acme/locations/europe-west6/workflows/report/executions"
)
_direct = (
    job()
    .set("httpTarget.uri", _GOOGLE_URL)
    .drop("httpTarget.headers")
    .drop("httpTarget.oidcToken")
    .set("httpTarget.oauthToken", {"serviceAccountEmail": CALLER})
)

CASES = (
    Case(
        "scheduler-unix-cron",
        passes=[job()],
        breaks=[job().set("schedule", "every 5 minutes")],
        absent=([job().drop("schedule")], BREAKS),
        unknown=([job().set("schedule", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-time-zone",
        passes=[job().set("timeZone", "Europe/Zurich")],
        breaks=[job().set("timeZone", "CEST")],
        absent=([job()], PASSES),
        unknown=([job().set("timeZone", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-https",
        passes=[job()],
        breaks=[job().set("httpTarget.uri", URL.replace("https", "http"))],
        absent=([job().drop("httpTarget.uri")], BREAKS),
        unknown=([job().set("httpTarget.uri", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-token",
        passes=[job()],
        breaks=[job().drop("httpTarget.oidcToken")],
        absent=([job().drop("httpTarget")], PASSES),
        unknown=([job().set("httpTarget.oidcToken", NOT_YET)], PASSES),
    ),
    Case(
        "scheduler-token-kind",
        passes=[job()],
        breaks=[
            _direct.drop("httpTarget.oauthToken").set(
                "httpTarget.oidcToken", {"serviceAccountEmail": CALLER}
            )
        ],
        absent=([job().drop("httpTarget.oidcToken")], PASSES),
        unknown=([job().set("httpTarget.uri", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-oidc-audience",
        passes=[job()],
        breaks=[job().set("httpTarget.oidcToken.audience", f"{URL}/run?job=nightly")],
        absent=([job().drop("httpTarget.oidcToken.audience")], BREAKS),
        unknown=([job().set("httpTarget.oidcToken.audience", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-identity-headers",
        passes=[job()],
        breaks=[job().drop("httpTarget.headers.X-Scheduler-Region")],
        absent=([job().drop("httpTarget.headers")], BREAKS),
        unknown=([job().set("httpTarget.headers.X-Scheduler-Region", NOT_YET)], PASSES),
    ),
    Case(
        "scheduler-reserved-headers",
        passes=[job()],
        breaks=[job().set("httpTarget.headers.User-Agent", "nightly")],
        absent=([job().drop("httpTarget.headers")], PASSES),
        unknown=([job().set("httpTarget.headers", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-attempt-deadline",
        passes=[job().set("attemptDeadline", "1800s")],
        breaks=[job().set("attemptDeadline", "3600s")],
        absent=([job()], PASSES),
        unknown=([job().set("attemptDeadline", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-deadline-covers-timeout",
        passes=[service(), job().set("attemptDeadline", "300s")],
        breaks=[service(), job().set("attemptDeadline", "180s")],
        absent=([service(), job()], BREAKS),
        unknown=([service(), job().set("attemptDeadline", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "scheduler-retry-after-lease",
        passes=[once_service("ONCE_LEASE_SECONDS"), timed_job()],
        breaks=[
            once_service("ONCE_LEASE_SECONDS"),
            timed_job().set("retryConfig.maxRetryDuration", "300s"),
        ],
        absent=([once_service("ONCE_LEASE_SECONDS"), timed_job().drop("retryConfig")], BREAKS),
        unknown=(
            [
                once_service("ONCE_LEASE_SECONDS"),
                timed_job().set("retryConfig.maxRetryDuration", NOT_YET),
            ],
            CANNOT_RUN,
        ),
    ),
    Case(
        "scheduler-direct-start",
        passes=[_direct.set("httpTarget.uri", _GOOGLE_URL.removesuffix("/executions"))],
        breaks=[_direct],
        absent=([job().drop("httpTarget")], PASSES),
        unknown=([_direct.set("httpTarget.uri", NOT_YET)], CANNOT_RUN),
    ),
)
