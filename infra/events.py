"""Events: Pub/Sub topics and subscriptions of the stack, and Eventarc triggers.

Every grant to one of Google's service agents waits for that agent to exist, and is made only where
the agent has something to do with it.
"""

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_gcp import eventarc, projects, pubsub, serviceaccount, storage

from infra.account import make_account
from infra.component import Component
from infra.model import EVENTARC, EVENTS, Event, EventarcSource, PubSubSource, StackConfig
from infra.service import RunService, seconds

_PROTOBUF_ONLY = ("google.cloud.firestore.", "google.cloud.datastore.")
"""Types whose data Eventarc delivers in this format alone."""


class Caller(Component):
    """An account that delivers events, and the services that it may call.

    Google's Pub/Sub agent makes the tokens, so it must be allowed to do that for this account, and
    for no other.

    Attributes
    ----------
    account
        The account.
    ready
        What a delivery needs before it can work.
    """

    def __init__(
        self,
        config: StackConfig,
        name: str,
        services: Mapping[str, RunService],
        events: Sequence[Event],
        agent: pulumi.Resource,
        apis: Sequence[pulumi.Resource],
    ) -> None:
        super().__init__("EventCaller", name, config, apis)
        account = self.account = make_account(self, name, "delivers events")
        tokens = serviceaccount.IAMMember(
            f"{name}-tokens",
            service_account_id=account.full_name,
            role="roles/iam.serviceAccountTokenCreator",
            member=pubsub_agent(config),
            opts=self.options(account.resource, agent),
        )
        called = sorted({event.service for event in events})
        self.ready = [
            account.resource,
            tokens,
            *(services[service].invoker(name, account) for service in called),
        ]
        if name == EVENTARC:
            self.ready.append(
                projects.IAMMember(
                    f"{name}-receives",
                    project=config.project,
                    role="roles/eventarc.eventReceiver",
                    member=account.member,
                    opts=self.options(account.resource),
                )
            )
        self.register_outputs({})


class Subscription(Component):
    """A push subscription with its topic, its dead letters, and the grants that these need."""

    def __init__(
        self,
        config: StackConfig,
        event: Event,
        service: RunService,
        caller: Caller,
        agent: pulumi.Resource,
    ) -> None:
        super().__init__("Subscription", event.name, config, [agent])
        source = event.source
        assert isinstance(source, PubSubSource)
        self.event, self.source = event, source
        before = [*caller.ready, *([self._topic()] if source.topic is None else [])]
        if dead_letter_topic := config.dead_letter_topic(event):
            before += self._dead_letters(service)
        url = config.service_url(event.service)
        subscription = pubsub.Subscription(
            event.name,
            project=config.project,
            name=config.called(event.name),
            topic=config.topic(event),
            labels=config.labels or None,
            filter=source.filter,
            enable_message_ordering=source.ordering,
            ack_deadline_seconds=int(event.timing.timeout.total_seconds()),
            message_retention_duration=seconds(source.retention),
            expiration_policy=pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            retry_policy=(
                pubsub.SubscriptionRetryPolicyArgs(
                    minimum_backoff=seconds(source.min_backoff),
                    maximum_backoff=seconds(source.max_backoff),
                )
                if source.max_backoff
                else None
            ),
            dead_letter_policy=(
                pubsub.SubscriptionDeadLetterPolicyArgs(
                    dead_letter_topic=dead_letter_topic,
                    max_delivery_attempts=source.max_attempts,
                )
                if dead_letter_topic
                else None
            ),
            push_config=pubsub.SubscriptionPushConfigArgs(
                push_endpoint=f"{url}/",
                oidc_token=pubsub.SubscriptionPushConfigOidcTokenArgs(
                    service_account_email=caller.account.email, audience=url
                ),
            ),
            opts=self.options(*before),
        )
        if dead_letter_topic:
            # To move a message away, the agent takes it from the subscription. The name is asked of
            # the resource: a grant dies with its subscription, so both are replaced together.
            pubsub.SubscriptionIAMMember(
                f"{event.name}-agent-subscribes",
                project=config.project,
                subscription=subscription.name,
                role="roles/pubsub.subscriber",
                member=pubsub_agent(config),
                opts=self.options(subscription),
            )
        self.register_outputs({})

    def _topic(self) -> pulumi.Resource:
        """Make the event's own topic; where a bucket feeds it, only that bucket's project may."""
        name = self.config.called(self.event.name)
        topic = pubsub.Topic(
            self.event.name,
            project=self.config.project,
            name=name,
            labels=self.config.labels or None,
            opts=self.options(),
        )
        if self.source.bucket:
            publisher = pubsub.TopicIAMMember(
                f"{self.event.name}-bucket-publishes",
                project=self.config.project,
                topic=name,
                role="roles/pubsub.publisher",
                member=storage_agent(self.config),
                opts=self.options(topic),
            )
            storage.Notification(
                self.event.name,
                bucket=self.source.bucket,
                topic=self.config.topic(self.event),
                payload_format="JSON_API_V1",
                opts=self.options(publisher),
            )
        return topic

    def _dead_letters(self, service: RunService) -> list[pulumi.Resource]:
        """Make the dead-letter topic, the subscription that keeps what arrives, and the grants.

        The handler publishes there too: what it drops is not lost without a trace.
        """
        config, name = self.config, f"{self.event.name}-dead"
        topic = pubsub.Topic(
            name,
            project=config.project,
            name=config.called(name),
            labels=config.labels or None,
            opts=self.options(),
        )
        kept = pubsub.Subscription(
            name,
            project=config.project,
            name=config.called(name),
            topic=config.dead_letter_topic(self.event) or "",
            labels=config.labels or None,
            message_retention_duration="604800s",
            expiration_policy=pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            opts=self.options(topic),
        )
        publishers = {
            f"{name}-agent-publishes": pubsub_agent(config),
            f"{name}-publishes": service.account.member,
        }
        return [
            topic,
            kept,
            *(
                pubsub.TopicIAMMember(
                    grant,
                    project=config.project,
                    topic=config.called(name),
                    role="roles/pubsub.publisher",
                    member=member,
                    opts=self.options(topic, service.account.resource),
                )
                for grant, member in publishers.items()
            ),
        ]


class Trigger(Component):
    """An Eventarc trigger. Its subscription is Eventarc's own: 24 hours, and no dead letters."""

    def __init__(
        self,
        config: StackConfig,
        event: Event,
        service: RunService,
        caller: Caller,
        agents: Sequence[pulumi.Resource],
    ) -> None:
        super().__init__("Trigger", event.name, config, agents)
        source = event.source
        assert isinstance(source, EventarcSource)
        criterion = eventarc.TriggerMatchingCriteriaArgs
        patterns = source.path_patterns.items()
        eventarc.Trigger(
            event.name,
            project=config.project,
            location=source.location,
            name=config.called(event.name),
            labels=config.labels or None,
            service_account=caller.account.email,
            event_data_content_type=(
                "application/protobuf" if source.type.startswith(_PROTOBUF_ONLY) else None
            ),
            matching_criterias=[
                criterion(attribute="type", value=source.type),
                *(criterion(attribute=k, value=v) for k, v in sorted(source.filters.items())),
                *(
                    criterion(attribute=k, value=v, operator="match-path-pattern")
                    for k, v in sorted(patterns)
                ),
            ],
            destination=eventarc.TriggerDestinationArgs(
                cloud_run_service=eventarc.TriggerDestinationCloudRunServiceArgs(
                    service=config.called(event.service), region=config.region
                )
            ),
            opts=self.options(*caller.ready, service.service),
        )
        self.register_outputs({})


class EventSources(Component):
    """All events of the stack, and the service agents that they need."""

    def __init__(
        self,
        config: StackConfig,
        services: Mapping[str, RunService],
        apis: Sequence[pulumi.Resource],
    ) -> None:
        super().__init__("Events", "events", config, apis)
        pubsub_identity = self._identity("pubsub")
        pushed = [event for event in config.events if isinstance(event.source, PubSubSource)]
        triggered = [event for event in config.events if isinstance(event.source, EventarcSource)]
        if pushed:
            caller = Caller(config, EVENTS, services, pushed, pubsub_identity, apis)
            for event in pushed:
                Subscription(config, event, services[event.service], caller, pubsub_identity)
        if triggered:
            caller = Caller(config, EVENTARC, services, triggered, pubsub_identity, apis)
            agents = [self._identity("eventarc"), *self._storage_publishes(triggered)]
            for event in triggered:
                Trigger(config, event, services[event.service], caller, agents)
        self.register_outputs({})

    def _identity(self, api: str) -> pulumi.Resource:
        """Make sure that a Google service's agent exists: a grant to a missing one is refused."""
        return projects.ServiceIdentity(
            f"{api}-agent",
            project=self.config.project,
            service=f"{api}.googleapis.com",
            opts=self.options(),
        )

    def _storage_publishes(self, events: Sequence[Event]) -> list[pulumi.Resource]:
        """Let Cloud Storage publish its events: Eventarc takes them from a topic of its own.

        Who may publish is the project's agent, no account of the stack: the grant is the same one
        for every stack in the project, so none takes it away.
        """
        types = [event.source.type for event in events if isinstance(event.source, EventarcSource)]
        if not any(type_.startswith("google.cloud.storage.") for type_ in types):
            return []
        return [
            projects.IAMMember(
                "storage-publishes-events",
                project=self.config.project,
                role="roles/pubsub.publisher",
                member=storage_agent(self.config),
                opts=self.options(retain=True),
            )
        ]


def handler_setting(config: StackConfig, service: str) -> Mapping[str, object]:
    """Return what `ONCE_EVENTS` says to a service, as `infra.contract` describes it."""
    return {event.name: _told(config, event) for event in config.events if event.service == service}


def _told(config: StackConfig, event: Event) -> Mapping[str, object]:
    told: dict[str, object] = (
        {"type": event.source.type}
        if isinstance(event.source, EventarcSource)
        else {"subscription": config.subscription(event), "topic": config.topic(event)}
    )
    if event.max_age:
        told["maxAgeSeconds"] = int(event.max_age.total_seconds())
    if event.max_attempts:
        told["maxAttempts"] = event.max_attempts
    if topic := config.dead_letter_topic(event):
        told["deadLetterTopic"] = topic
    return told


def pubsub_agent(config: StackConfig) -> str:
    """Return Pub/Sub's service agent in the stack's project, as a member."""
    return f"serviceAccount:service-{config.project_number}@gcp-sa-pubsub.iam.gserviceaccount.com"


def storage_agent(config: StackConfig) -> str:
    """Return Cloud Storage's service agent in the stack's project, as a member.

    Asking for it makes it; its address follows from the project's number.
    """
    storage.get_project_service_account_output(project=config.project)
    domain = "gs-project-accounts.iam.gserviceaccount.com"
    return f"serviceAccount:service-{config.project_number}@{domain}"
