"""Programs for the rules about Pub/Sub."""

from ..analyzer import Reference
from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import (
    NOT_YET,
    dead_letters,
    kept,
    service,
    subscriber,
    subscription,
)

_alone = subscription().drop("deadLetterPolicy")
_pulled = kept().set("topic", "projects/acme/topics/orders")
_dead, _orders, _kept, _publisher, _subscriber = dead_letters()

CASES = (
    Case(
        "pubsub-dead-letter",
        passes=[subscription(), subscriber()],
        breaks=[_alone, subscriber()],
        absent=([_pulled], PASSES),
        unknown=([_alone.set("deadLetterPolicy", NOT_YET)], PASSES),
    ),
    Case(
        "pubsub-retry-policy",
        passes=[subscription(), subscriber()],
        breaks=[subscription().drop("retryPolicy"), subscriber()],
        absent=([_pulled], PASSES),
        unknown=([subscription().set("retryPolicy", NOT_YET)], PASSES),
    ),
    Case(
        "pubsub-never-expires",
        passes=[subscription(), subscriber()],
        breaks=[subscription().set("expirationPolicy.ttl", "2678400s"), subscriber()],
        absent=([subscription().drop("expirationPolicy")], BREAKS),
        unknown=([subscription().set("expirationPolicy.ttl", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "pubsub-pull-never-expires",
        passes=[_pulled],
        breaks=[_pulled.set("expirationPolicy.ttl", "2678400s")],
        absent=([_pulled.drop("expirationPolicy")], BREAKS),
        unknown=([_pulled.set("expirationPolicy.ttl", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "pubsub-push-oidc",
        passes=[subscription(), subscriber()],
        breaks=[subscription().drop("pushConfig.oidcToken"), subscriber()],
        absent=([_pulled], PASSES),
        unknown=(
            [
                subscription().set(
                    "pushConfig.oidcToken.serviceAccountEmail", Reference("push", "email")
                )
            ],
            PASSES,
        ),
    ),
    Case(
        "pubsub-ack-deadline",
        passes=[service(), subscription().set("ackDeadlineSeconds", 300), subscriber()],
        breaks=[service(), subscription().set("ackDeadlineSeconds", 60), subscriber()],
        absent=([service(), subscription()], BREAKS),
        unknown=([service(), subscription().set("ackDeadlineSeconds", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "pubsub-dead-letter-grants",
        passes=dead_letters(),
        breaks=[_dead, _orders, _kept, _publisher],
        absent=([_dead, _orders, _kept], BREAKS),
        unknown=(
            [_dead, _orders, _kept, _publisher, _subscriber.set("member", NOT_YET)],
            CANNOT_RUN,
        ),
    ),
    Case(
        "pubsub-dead-letter-kept",
        passes=dead_letters(),
        breaks=[_dead, _orders, _publisher, _subscriber],
        absent=([_alone], PASSES),
        unknown=(
            [_dead, _orders, _kept.set("topic", NOT_YET), _publisher, _subscriber],
            CANNOT_RUN,
        ),
    ),
)
