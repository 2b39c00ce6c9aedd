"""Each resource breaks the rule that it is named for, and no other."""

import pulumi
import pulumi_gcp as gcp

ENABLED = "DELETE_PROTECTION_ENABLED"


def database(name: str, protection: str = ENABLED) -> gcp.firestore.Database:
    return gcp.firestore.Database(
        name,
        name=name,
        location_id="europe-west1",
        type="FIRESTORE_NATIVE",
        delete_protection_state=protection,
    )


def handler(name: str, store: gcp.firestore.Database, retention: str = "604800") -> None:
    variables: dict[str, pulumi.Input[str]] = {
        "ONCE_STORE": store.name.apply("firestore://a-project/{}".format),
        "ONCE_LEASE_SECONDS": "360",
        "ONCE_RETENTION_SECONDS": retention,
    }
    gcp.cloudrunv2.Service(
        name,
        name=name,
        location="europe-west1",
        ingress="INGRESS_TRAFFIC_INTERNAL_ONLY",
        template=gcp.cloudrunv2.ServiceTemplateArgs(
            service_account="handler@a-project.iam.gserviceaccount.com",
            timeout="300s",
            containers=[
                gcp.cloudrunv2.ServiceTemplateContainerArgs(
                    image="europe-docker.pkg.dev/a-project/images/handler@sha256:" + "0" * 64,
                    envs=[
                        gcp.cloudrunv2.ServiceTemplateContainerEnvArgs(name=name, value=value)
                        for name, value in variables.items()
                    ],
                )
            ],
        ),
    )


def unindexed(store: gcp.firestore.Database, name: str) -> None:
    gcp.firestore.Field(
        name,
        database=store.name,
        collection="scheduler_runs",
        field="*",
        index_config=gcp.firestore.FieldIndexConfigArgs(),
    )


def expires(store: gcp.firestore.Database, name: str) -> None:
    gcp.firestore.Field(
        name,
        database=store.name,
        collection="scheduler_runs",
        field="expire_at",
        ttl_config=gcp.firestore.FieldTtlConfigArgs(),
    )


fine = database("fine")
unindexed(fine, "fine-unindexed")
expires(fine, "fine-expires")
handler("firestore-retention", fine, retention="600")
gcp.cloudscheduler.Job(
    "nightly",
    schedule="0 2 * * *",
    attempt_deadline="300s",
    http_target=gcp.cloudscheduler.JobHttpTargetArgs(
        uri="https://firestore-retention-123456789012.europe-west1.run.app",
        headers={"X-Scheduler-Project": "a-project", "X-Scheduler-Region": "europe-west1"},
        oidc_token=gcp.cloudscheduler.JobHttpTargetOidcTokenArgs(
            service_account_email="caller@a-project.iam.gserviceaccount.com",
            audience="https://firestore-retention-123456789012.europe-west1.run.app",
        ),
    ),
    retry_config=gcp.cloudscheduler.JobRetryConfigArgs(
        max_retry_duration="1080s", max_backoff_duration="60s"
    ),
)

never_expiring = database("firestore-ttl")
unindexed(never_expiring, "never-expiring-unindexed")
handler("never-expiring", never_expiring)

indexed = database("firestore-timestamps-unindexed")
expires(indexed, "indexed-expires")
handler("indexed", indexed)

database("firestore-delete-protection", "DELETE_PROTECTION_DISABLED")

gcp.projects.IAMMember(
    "firestore-narrow-roles",
    project="a-project",
    role="roles/datastore.user",
    member="serviceAccount:handler@a-project.iam.gserviceaccount.com",
)
