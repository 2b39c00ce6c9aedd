"""Each resource breaks the rule that it is named for, and no other."""

import pulumi_gcp as gcp

URL = "https://handler-123456789012.europe-west1.run.app"
GOOGLE_URL = "https://workflowexecutions.googleapis.com/v1/projects/p/locations/l/workflows/w"
HEADERS = {"X-Scheduler-Project": "a-project", "X-Scheduler-Region": "europe-west1"}
OIDC = gcp.cloudscheduler.JobHttpTargetOidcTokenArgs(
    service_account_email="caller@a-project.iam.gserviceaccount.com", audience=URL
)
OAUTH = gcp.cloudscheduler.JobHttpTargetOauthTokenArgs(
    service_account_email="caller@a-project.iam.gserviceaccount.com"
)


def target(
    uri: str = URL,
    headers: dict[str, str] = HEADERS,
    oidc: gcp.cloudscheduler.JobHttpTargetOidcTokenArgs | None = OIDC,
    oauth: gcp.cloudscheduler.JobHttpTargetOauthTokenArgs | None = None,
) -> gcp.cloudscheduler.JobHttpTargetArgs:
    return gcp.cloudscheduler.JobHttpTargetArgs(
        uri=uri, headers=headers, oidc_token=oidc, oauth_token=oauth
    )


def job(
    name: str,
    http_target: gcp.cloudscheduler.JobHttpTargetArgs,
    schedule: str = "0 2 * * *",
    time_zone: str = "Europe/Berlin",
    attempt_deadline: str = "300s",
    max_retry_duration: str = "1080s",
) -> None:
    gcp.cloudscheduler.Job(
        name,
        schedule=schedule,
        time_zone=time_zone,
        attempt_deadline=attempt_deadline,
        http_target=http_target,
        retry_config=gcp.cloudscheduler.JobRetryConfigArgs(
            max_retry_duration=max_retry_duration, max_backoff_duration="60s"
        ),
    )


gcp.cloudrunv2.Service(
    "handler",
    name="handler",
    location="europe-west1",
    ingress="INGRESS_TRAFFIC_INTERNAL_ONLY",
    template=gcp.cloudrunv2.ServiceTemplateArgs(
        service_account="handler@a-project.iam.gserviceaccount.com",
        timeout="300s",
        containers=[
            gcp.cloudrunv2.ServiceTemplateContainerArgs(
                image="europe-docker.pkg.dev/a-project/images/handler@sha256:" + "0" * 64,
                envs=[
                    gcp.cloudrunv2.ServiceTemplateContainerEnvArgs(
                        name="ONCE_LEASE_SECONDS", value="360"
                    )
                ],
            )
        ],
    ),
)

job("fine", target())
job("scheduler-unix-cron", target(), schedule="every 1 hours")
job("scheduler-time-zone", target(), time_zone="CEST")
job("scheduler-https", target(URL.replace("https", "http").replace("handler", "other")))
job("scheduler-token", target(oidc=None))
job("scheduler-token-kind", target(f"{GOOGLE_URL}/executions", {}))
job(
    "scheduler-oidc-audience",
    target(
        oidc=gcp.cloudscheduler.JobHttpTargetOidcTokenArgs(
            service_account_email="caller@a-project.iam.gserviceaccount.com"
        )
    ),
)
job("scheduler-identity-headers", target(headers={"X-Scheduler-Project": "a-project"}))
job("scheduler-reserved-headers", target(headers={**HEADERS, "Host": "example.org"}))
job("scheduler-deadline-covers-timeout", target(), attempt_deadline="180s")
job("scheduler-retry-after-lease", target(), max_retry_duration="60s")
job("scheduler-direct-start", target(f"{GOOGLE_URL}/executions", {}, None, OAUTH))
