"""Each resource breaks the rule that it is named for, and no other."""

import pulumi_gcp as gcp

CALLER = "caller@a-project.iam.gserviceaccount.com"
UPLOADED = "google.cloud.storage.object.v1.finalized"


def trigger(name: str, account: str | None = CALLER) -> None:
    gcp.eventarc.Trigger(
        name,
        location="europe-west1",
        service_account=account,
        matching_criterias=[
            gcp.eventarc.TriggerMatchingCriteriaArgs(attribute="type", value=UPLOADED),
            gcp.eventarc.TriggerMatchingCriteriaArgs(attribute="bucket", value="uploads"),
        ],
        destination=gcp.eventarc.TriggerDestinationArgs(
            cloud_run_service=gcp.eventarc.TriggerDestinationCloudRunServiceArgs(
                service="handler", region="europe-west1"
            )
        ),
    )


def function(name: str, variables: dict[str, str] | None = None) -> None:
    gcp.cloudfunctionsv2.Function(
        name,
        location="europe-west1",
        service_config=gcp.cloudfunctionsv2.FunctionServiceConfigArgs(
            service_account_email="handler@a-project.iam.gserviceaccount.com",
            ingress_settings="ALLOW_INTERNAL_ONLY",
            environment_variables=variables,
        ),
        event_trigger=gcp.cloudfunctionsv2.FunctionEventTriggerArgs(
            event_type=UPLOADED,
            retry_policy="RETRY_POLICY_RETRY",
            service_account_email=CALLER,
        ),
    )


trigger("fine")
trigger("eventarc-own-account", account=None)
function("fine-function", {"MAX_AGE_SECONDS": "3600"})
function("eventarc-retry-age-limit")
