"""The provider refuses this too, and stops there: so it has a program of its own."""

import pulumi_gcp as gcp

URL = "https://handler-123456789012.europe-west1.run.app"

gcp.cloudscheduler.Job(
    "scheduler-attempt-deadline",
    schedule="0 2 * * *",
    attempt_deadline="3600s",
    http_target=gcp.cloudscheduler.JobHttpTargetArgs(
        uri=URL,
        headers={"X-Scheduler-Project": "a-project", "X-Scheduler-Region": "europe-west1"},
        oidc_token=gcp.cloudscheduler.JobHttpTargetOidcTokenArgs(
            service_account_email="caller@a-project.iam.gserviceaccount.com", audience=URL
        ),
    ),
)
