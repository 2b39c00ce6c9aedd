"""What a stack consists of: the types of its configuration, and the names that follow from it.

Names, addresses and URLs are made from the configuration alone, so that the first preview knows
them and a policy never meets an unknown value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from infra.cron import Schedule
from infra.timing import MAX_EVENT_BACKOFF, Retry, Timing

DEFAULT_TIMING = Timing(timedelta(minutes=5))

EVENTS = "events"
"""The account that Pub/Sub pushes messages with."""

EVENTARC = "eventarc"
"""The account that Eventarc triggers call with."""

SCHEDULER = "scheduler"
"""The account that Cloud Scheduler calls the services with."""

PROXY = "proxy"
"""The service that starts Google APIs; it exists when a job has `start`."""

PROXY_TIMING = Timing(timedelta(minutes=2))
"""A look, a start and another look, each with its own budget, and a cold start before them."""


@dataclass(frozen=True)
class Database:
    """The Firestore database of the records.

    Attributes
    ----------
    create
        False: the database exists already and stays outside the stack.
    manage_fields
        Whether the stack sets the TTL field and the index exemption.
    """

    name: str
    location: str
    create: bool
    manage_fields: bool


@dataclass(frozen=True)
class Secret:
    """A secret of Secret Manager: its id, or its full name in another project."""

    name: str
    version: str


@dataclass(frozen=True)
class Grant:
    """A role for a service's account on one named resource; `kind` is a key of GRANT_KINDS."""

    role: str
    kind: str
    resource: str


@dataclass(frozen=True)
class Vpc:
    """Direct VPC egress of a service."""

    network: str
    subnetwork: str | None
    tags: tuple[str, ...]
    all_traffic: bool


@dataclass(frozen=True)
class Service:
    """One Cloud Run service.

    Attributes
    ----------
    command
        What the container runs instead of what its image says; empty: that.
    """

    name: str
    timing: Timing = DEFAULT_TIMING
    cpu: str = "1"
    memory: str = "512Mi"
    concurrency: int = 8
    min_instances: int = 0
    max_instances: int = 10
    ingress: str = "internal"
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    roles: tuple[Grant, ...] = ()
    vpc: Vpc | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workflow:
    """Start a Workflows workflow (full name) with an argument."""

    name: str
    argument: Mapping[str, object]


@dataclass(frozen=True)
class CloudRunJob:
    """Run a Cloud Run job (full name) with overrides."""

    name: str
    args: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True)
class BuildTrigger:
    """Run a Cloud Build trigger (full name) on a branch or a tag, or on its own default.

    Attributes
    ----------
    service_account
        The account that the trigger's builds run as, where it is one of the user's own: the proxy
        must be allowed to act as it.
    """

    name: str
    branch: str | None
    tag: str | None
    substitutions: Mapping[str, str]
    service_account: str | None = None


Start: TypeAlias = Workflow | CloudRunJob | BuildTrigger


@dataclass(frozen=True)
class AppEngine:
    """An App Engine application of the same project that has the handler library in it."""

    service: str | None
    relative_uri: str


@dataclass(frozen=True)
class Job:
    """One Cloud Scheduler job.

    Attributes
    ----------
    service
        The Cloud Run service that it calls: the user's, or the proxy for a `start`; None for App
        Engine.
    """

    name: str
    schedule: Schedule
    function: str
    timing: Timing
    retry: Retry
    service: str | None
    start: Start | None
    app_engine: AppEngine | None
    body: object
    headers: Mapping[str, str]
    paused: bool


@dataclass(frozen=True)
class PubSubSource:
    """Messages of a Pub/Sub topic, delivered by a subscription of the stack.

    Attributes
    ----------
    topic
        An existing topic's full name; None: the stack has one, called like the event.
    bucket
        A Cloud Storage bucket whose notifications feed the topic.
    max_attempts
        After so many deliveries a message goes to the dead-letter topic; None: there is none.
    min_backoff, max_backoff
        The waits between deliveries; both zero: none at all.
    """

    topic: str | None
    bucket: str | None
    filter: str | None
    ordering: bool
    retention: timedelta
    max_attempts: int | None
    min_backoff: timedelta
    max_backoff: timedelta


@dataclass(frozen=True)
class EventarcSource:
    """Events of an Eventarc trigger, delivered by a subscription that Eventarc owns."""

    type: str
    location: str
    filters: Mapping[str, str]
    path_patterns: Mapping[str, str]

    @property
    def max_backoff(self) -> timedelta:
        """The longest wait between deliveries: Eventarc's subscriptions have Pub/Sub's default."""
        return MAX_EVENT_BACKOFF

    @property
    def retention(self) -> timedelta:
        """How long Eventarc's subscriptions keep an event that is not acknowledged.

        Source: https://cloud.google.com/eventarc/docs/retry-events
        """
        return timedelta(hours=24)


@dataclass(frozen=True)
class Event:
    """One source of events, and the rules under which the handler takes them.

    Attributes
    ----------
    name
        What the handler calls it.
    max_age, max_attempts
        Older events, and those delivered more often, are acknowledged and dropped; None: never.
    """

    name: str
    service: str
    timing: Timing
    source: PubSubSource | EventarcSource
    max_age: timedelta | None
    max_attempts: int | None


@dataclass(frozen=True)
class StackConfig:
    """Everything that the program needs to know; valid by construction.

    Attributes
    ----------
    unprotected
        The services that production may remove.
    warnings
        What would work but is unwise, ready to be shown.
    """

    project: str
    region: str
    project_number: str
    name: str
    production: bool
    database: Database
    retention: timedelta
    scheduler_region: str
    labels: Mapping[str, str]
    alert_channels: tuple[str, ...] | None
    image: str | None
    services: Mapping[str, Service]
    unprotected: tuple[str, ...]
    jobs: tuple[Job, ...]
    events: tuple[Event, ...]
    examples: bool
    warnings: tuple[str, ...]

    def called(self, name: str) -> str:
        """Return the name of a resource: the stack's own prefix keeps two stacks apart."""
        return f"{self.name}-{name}"

    def account_email(self, name: str) -> str:
        """Return a service account's address, which a first preview knows already."""
        return f"{self.called(name)}@{self.project}.iam.gserviceaccount.com"

    def service_url(self, service: str) -> str:
        """Return a service's deterministic URL, which a first preview knows already."""
        return f"https://{self.called(service)}-{self.project_number}.{self.region}.run.app"

    @property
    def store(self) -> str:
        """The URL of the store, as the handler reads it."""
        return f"firestore://{self.project}/{self.database.name}"

    def topic(self, event: Event) -> str:
        """Return the full name of the topic that an event's messages come from."""
        source = event.source
        if isinstance(source, PubSubSource) and source.topic:
            return source.topic
        return f"projects/{self.project}/topics/{self.called(event.name)}"

    def dead_letter_topic(self, event: Event) -> str | None:
        """Return the full name of an event's dead-letter topic, if it has one."""
        source = event.source
        if isinstance(source, PubSubSource) and source.max_attempts is not None:
            return f"projects/{self.project}/topics/{self.called(event.name)}-dead"
        return None

    def subscription(self, event: Event) -> str:
        """Return the full name of the subscription that pushes an event's messages."""
        return f"projects/{self.project}/subscriptions/{self.called(event.name)}"

    @property
    def starts(self) -> Mapping[str, Start]:
        """What the proxy starts, by function."""
        return {job.function: job.start for job in self.jobs if job.start}
