"""Rules for Pub/Sub subscriptions that push to a handler, and for their dead letters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial

from . import protocol, schema
from .grants import members_of_role
from .reading import Resource, Stack, any_known, known_first
from .rule import ADVISORY, ALLOW, is_allowed, resource_rule, stack_rule
from .stack import called_service, hangs_up_first, names_at, own_name

SUBSCRIPTION = (schema.SUBSCRIPTION,)

_SERVICE_AGENT = re.compile(r"serviceAccount:service-\d+@gcp-sa-pubsub\.iam\.gserviceaccount\.com")
_PUBLISHER = "roles/pubsub.publisher"
_SUBSCRIBER = "roles/pubsub.subscriber"
_ONLY_PRESENCE = "What is not known yet is there, and passes: only its absence is a violation."


@resource_rule(
    "pubsub-dead-letter",
    types=SUBSCRIPTION,
    title="A push subscription has a dead-letter topic",
    why="A message that the handler can never take is otherwise pushed until its retention ends,"
    " and then lost without a trace.",
    fix="Set dead_letter_policy with a topic of its own and max_delivery_attempts. A subscription"
    " whose messages may be lost (in this template: `deadLetter: false`) can be named with its"
    " reason in the setting `allow`.",
    unknown=_ONLY_PRESENCE,
    knobs=ALLOW,
)
def dead_letter(subscription: Resource) -> Iterator[str]:
    if not _pushes(subscription) or subscription.has("deadLetterPolicy"):
        return
    if not is_allowed(subscription):
        yield "there is no dead-letter policy."


@resource_rule(
    "pubsub-retry-policy",
    types=SUBSCRIPTION,
    title="A push subscription waits between attempts",
    why="Without a retry policy a refused message comes back at once: its attempts are used up"
    " while the first one still works.",
    fix='Set retry_policy={"minimum_backoff": "10s", "maximum_backoff": "600s"}. A subscription'
    " that must not wait (in this template: `immediate: true`, which goes without dead letters)"
    " can be named with its reason in the setting `allow`.",
    unknown=_ONLY_PRESENCE,
    knobs=ALLOW,
)
def retry_policy(subscription: Resource) -> Iterator[str]:
    if not _pushes(subscription) or subscription.has("retryPolicy"):
        return
    if not is_allowed(subscription):
        yield "there is no retry policy."


@resource_rule(
    "pubsub-never-expires",
    types=SUBSCRIPTION,
    title="A push subscription does not expire",
    why="A subscription without traffic is deleted after 31 days, and every later message is lost.",
    fix='Set expiration_policy={"ttl": ""}.',
)
def never_expires(subscription: Resource) -> Iterator[str]:
    if _pushes(subscription):
        yield from _expiry(subscription)


@resource_rule(
    "pubsub-pull-never-expires",
    types=SUBSCRIPTION,
    level=ADVISORY,
    title="A pull subscription does not expire",
    why="Nobody pulls for 31 days, and it is deleted with all later messages. Whoever pulls it"
    " knows whether that matters, so this is an advice; on a dead-letter topic of this stack"
    " pubsub-dead-letter-kept insists.",
    fix='Set expiration_policy={"ttl": ""}.',
)
def pull_never_expires(subscription: Resource) -> Iterator[str]:
    if not _pushes(subscription):
        yield from _expiry(subscription)


@resource_rule(
    "pubsub-push-oidc",
    types=SUBSCRIPTION,
    title="A push shows its target who calls",
    why="A push without a token reaches only what anybody on the internet may call too.",
    fix="Set push_config.oidc_token with a service account of its own.",
    unknown="An account that is not known yet is set, and passes: only its absence is a violation.",
)
def push_oidc(subscription: Resource) -> Iterator[str]:
    account = "pushConfig.oidcToken.serviceAccountEmail"
    if _pushes(subscription) and subscription.peek(account) in (None, ""):
        yield "the push has no OIDC token."


@stack_rule(
    "pubsub-ack-deadline",
    title="Pub/Sub waits as long as the service may work",
    why="When the deadline passes first, the message is pushed again while its handler still"
    " works, and each push counts as a delivery attempt.",
    fix="Set ack_deadline_seconds to the service's timeout; it can be 600 at most, so the"
    " timeout of a service that takes pushes must not be longer.",
)
def ack_deadline(stack: Stack) -> Iterator[tuple[Resource, str]]:
    def check(subscription: Resource) -> Iterator[tuple[Resource, str]]:
        service = called_service(stack, subscription, "pushConfig", "pushConfig.pushEndpoint")
        wait = partial(_ack_deadline, subscription)
        return hangs_up_first(subscription, service, wait, "the deadline of")

    pushed = [found for found in stack.of_type(*SUBSCRIPTION) if _pushes(found)]
    yield from known_first(check, pushed)


@stack_rule(
    "pubsub-dead-letter-grants",
    title="Pub/Sub may move a message to its dead-letter topic",
    why="Pub/Sub's service agent does the move. Without both grants the policy is accepted and"
    " does nothing: the message is pushed until its retention ends, and then lost.",
    fix="Grant the agent service-PROJECT_NUMBER@gcp-sa-pubsub.iam.gserviceaccount.com"
    " roles/pubsub.publisher on the dead-letter topic and roles/pubsub.subscriber on the"
    " subscription.",
)
def dead_letter_grants(stack: Stack) -> Iterator[tuple[Resource, str]]:
    own_topics = {own_name(topic) for topic in stack.of_type(schema.TOPIC)}
    everywhere = stack.of_type(*schema.PROJECT_GRANTS)
    on_topics = stack.of_type(*schema.TOPIC_GRANTS)
    on_subscriptions = stack.of_type(*schema.SUBSCRIPTION_GRANTS)

    def check(subscription: Resource) -> Iterator[tuple[Resource, str]]:
        name = own_name(subscription)
        grants = [*everywhere, *on_subscriptions]
        if not _agent_holds(_SUBSCRIBER, grants, schema.SUBSCRIPTION, name):
            yield subscription, f"the service agent has no {_SUBSCRIBER} on {name}."
        for topic in _dead_letter_topics(subscription) & own_topics:
            if not _agent_holds(_PUBLISHER, [*everywhere, *on_topics], schema.TOPIC, topic):
                yield subscription, f"the service agent has no {_PUBLISHER} on {topic}."

    yield from known_first(check, _with_dead_letters(stack))


@stack_rule(
    "pubsub-dead-letter-kept",
    title="Somebody keeps what arrives at a dead-letter topic",
    why="A topic without a subscription drops every message at once, so the dead letters are lost."
    " Its subscription is meant to have no traffic, so one that expires is gone when the first"
    " dead letter comes.",
    fix="Add a subscription on the dead-letter topic that never expires.",
)
def dead_letter_kept(stack: Stack) -> Iterator[tuple[Resource, str]]:
    own_topics = {own_name(topic) for topic in stack.of_type(schema.TOPIC)}
    subscriptions = stack.of_type(*SUBSCRIPTION)

    def check(subscription: Resource) -> Iterator[tuple[Resource, str]]:
        for topic in _dead_letter_topics(subscription) & own_topics:
            if not any_known(partial(_keeps, topic), subscriptions):
                yield (
                    subscription,
                    f"the dead-letter topic {topic} has no subscription that never expires.",
                )

    yield from known_first(check, _with_dead_letters(stack))


def _pushes(subscription: Resource) -> bool:
    return subscription.has("pushConfig.pushEndpoint")


def _ack_deadline(subscription: Resource) -> timedelta:
    given = subscription.get("ackDeadlineSeconds")
    return timedelta(seconds=given) if given else protocol.DEFAULT_ACK_DEADLINE


def _expiry(subscription: Resource) -> Iterator[str]:
    ttl = subscription.get("expirationPolicy.ttl")
    if ttl != "":
        yield f"it expires after {ttl or '31 days (the default)'} without traffic."


def _keeps(topic: str, subscription: Resource) -> bool:
    if topic not in names_at(subscription, "topic", schema.TOPIC):
        return False
    return bool(subscription.get("expirationPolicy.ttl") == "")


def _with_dead_letters(stack: Stack) -> list[Resource]:
    return [found for found in stack.of_type(*SUBSCRIPTION) if found.has("deadLetterPolicy")]


def _dead_letter_topics(subscription: Resource) -> set[str]:
    return names_at(subscription, "deadLetterPolicy.deadLetterTopic", schema.TOPIC)


def _agent_holds(role: str, grants: Iterable[Resource], type: str, name: str) -> bool:
    """Tell whether Pub/Sub's service agent has a role on one resource, or on the project."""
    property = "topic" if type == schema.TOPIC else "subscription"

    def gives(grant: Resource) -> bool:
        if grant.type not in schema.PROJECT_GRANTS and name not in names_at(grant, property, type):
            return False
        return any(_SERVICE_AGENT.fullmatch(member) for member in members_of_role(grant, role))

    return any_known(gives, grants)
