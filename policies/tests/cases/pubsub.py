"""Programs for the rules about Pub/Sub."""

from ..analyzer import Reference
from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import (
    NOT_YET,
    dead_letters,
    kept,
    publisher,
    service,
    subscriber,
    subscription,
    topic,
)

_ALONE = subscription().set("topic", "projects/acme/topics/orders-topic").drop("deadLetterPolicy")
_TOPICS = [topic("orders-topic"), topic("orders-dead")]
_PULL = kept().set("topic", "projects/acme/topics/orders-dead")

CASES = (
    Case(
        "pubsub-dead-letter",
        passes=dead_letters(),
        breaks=[_ALONE],
        absent=([_PULL], PASSES),
        unknown=([_ALONE.set("deadLetterPolicy", NOT_YET)], PASSES),
    ),
    Case(
        "pubsub-retry-policy",
        passes=dead_letters(),
        breaks=[*_TOPICS, subscription().drop("retryPolicy"), kept(), publisher(), subscriber()],
        absent=([_PULL], PASSES),
        unknown=([_ALONE.set("retryPolicy", NOT_YET)], PASSES),
    ),
    Case(
        "pubsub-never-expires",
        passes=[_PULL],
        breaks=[_PULL.set("expirationPolicy.ttl", "2678400s")],
        absent=([_PULL.drop("expirationPolicy")], BREAKS),
        unknown=([_PULL.set("expirationPolicy.ttl", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "pubsub-push-oidc",
        passes=dead_letters(),
        breaks=[
            *_TOPICS,
            subscription().drop("pushConfig.oidcToken"),
            kept(),
            publisher(),
            subscriber(),
        ],
        absent=([_PULL], PASSES),
        unknown=(
            [_ALONE.set("pushConfig.oidcToken.serviceAccountEmail", Reference("push", "email"))],
            PASSES,
        ),
    ),
    Case(
        "pubsub-ack-deadline",
        passes=[service(), *dead_letters()],
        breaks=[
            service(),
            *_TOPICS,
            subscription().set("ackDeadlineSeconds", 60),
            kept(),
            publisher(),
            subscriber(),
        ],
        absent=([service(), _ALONE.drop("ackDeadlineSeconds")], BREAKS),
        unknown=([service(), _ALONE.set("ackDeadlineSeconds", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "pubsub-dead-letter-grants",
        passes=dead_letters(),
        breaks=[*_TOPICS, subscription(), kept(), publisher()],
        absent=([*_TOPICS, subscription(), kept()], BREAKS),
        unknown=(
            [*_TOPICS, subscription(), kept(), publisher(), subscriber().set("member", NOT_YET)],
            CANNOT_RUN,
        ),
    ),
    Case(
        "pubsub-dead-letter-kept",
        passes=dead_letters(),
        breaks=[*_TOPICS, subscription(), publisher(), subscriber()],
        absent=([_ALONE], PASSES),
        unknown=(
            [*_TOPICS, subscription(), kept().set("topic", NOT_YET), publisher(), subscriber()],
            CANNOT_RUN,
        ),
    ),
)
