"""Each resource breaks the rule that it is named for, and no other."""

import pulumi
import pulumi_gcp as gcp

AGENT = "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"

handler = gcp.cloudrunv2.Service(
    "handler",
    location="europe-west1",
    ingress="INGRESS_TRAFFIC_INTERNAL_ONLY",
    template=gcp.cloudrunv2.ServiceTemplateArgs(
        service_account="handler@a-project.iam.gserviceaccount.com",
        timeout="300s",
        containers=[
            gcp.cloudrunv2.ServiceTemplateContainerArgs(
                image="europe-docker.pkg.dev/a-project/images/handler@sha256:" + "0" * 64
            )
        ],
    ),
)
orders = gcp.pubsub.Topic("orders")
dead = gcp.pubsub.Topic("dead")
gcp.pubsub.TopicIAMMember(
    "agent-publishes", topic=dead.name, role="roles/pubsub.publisher", member=AGENT
)


def subscription(
    name: str,
    topic: pulumi.Input[str] = orders.id,
    dead_letter_topic: pulumi.Input[str] | None = dead.id,
    seconds: int = 300,
    never_expires: bool = True,
    waits: bool = True,
    account: str | None = "caller@a-project.iam.gserviceaccount.com",
    push: bool = True,
    granted: bool = True,
) -> None:
    ttl = "" if never_expires else "2678400s"
    retries = gcp.pubsub.SubscriptionRetryPolicyArgs(minimum_backoff="10s") if waits else None
    token = (
        gcp.pubsub.SubscriptionPushConfigOidcTokenArgs(service_account_email=account)
        if account
        else None
    )
    made = gcp.pubsub.Subscription(
        name,
        topic=topic,
        ack_deadline_seconds=seconds,
        expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=ttl),
        retry_policy=retries,
        dead_letter_policy=gcp.pubsub.SubscriptionDeadLetterPolicyArgs(
            dead_letter_topic=dead_letter_topic
        )
        if dead_letter_topic
        else None,
        push_config=gcp.pubsub.SubscriptionPushConfigArgs(
            push_endpoint=handler.uri, oidc_token=token
        )
        if push
        else None,
    )
    if granted:
        gcp.pubsub.SubscriptionIAMMember(
            f"agent-takes-from-{name}",
            subscription=made.name,
            role="roles/pubsub.subscriber",
            member=AGENT,
        )


subscription("fine")
subscription("kept", dead.id, None, push=False)
subscription("pubsub-dead-letter", dead_letter_topic=None)
subscription("pubsub-retry-policy", waits=False)
subscription("pubsub-never-expires", never_expires=False)
subscription(
    "pubsub-pull-never-expires",
    dead_letter_topic=None,
    never_expires=False,
    push=False,
    granted=False,
)
subscription("pubsub-push-oidc", account=None)
subscription("pubsub-ack-deadline", seconds=60)
subscription("pubsub-dead-letter-grants", granted=False)

lost = gcp.pubsub.Topic("lost")
gcp.pubsub.TopicIAMMember(
    "agent-publishes-lost", topic=lost.name, role="roles/pubsub.publisher", member=AGENT
)
subscription("pubsub-dead-letter-kept", dead_letter_topic=lost.id)
