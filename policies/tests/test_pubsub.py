"""The borders of the rules about Pub/Sub."""

import json

import pytest
from rules import schema

from .analyzer import Declared, Pack, Reference
from .cases.compliant import (
    MEMBER,
    NOT_YET,
    PUBSUB_AGENT,
    dead_letters,
    grant,
    once_service,
    subscriber,
    subscription,
)

DEAD, ORDERS, KEPT, PUBLISHER, SUBSCRIBER = dead_letters()


class TestDeadLetterGrants:
    def test_each_missing_grant_is_named(self, pack: Pack) -> None:
        report = pack.judge([DEAD, ORDERS, KEPT])
        assert report.messages("pubsub-dead-letter-grants") == [
            "the service agent has no roles/pubsub.subscriber on orders.",
            "the service agent has no roles/pubsub.publisher on dead.",
        ]

    def test_grant_to_somebody_else_does_not_count(self, pack: Pack) -> None:
        for member in (MEMBER, "serviceAccount:service-1@gcp-sa-eventarc.iam.gserviceaccount.com"):
            report = pack.judge([DEAD, ORDERS, KEPT, SUBSCRIBER, PUBLISHER.set("member", member)])
            assert report.rules == ["pubsub-dead-letter-grants"]

    def test_grant_on_something_else_does_not_count(self, pack: Pack) -> None:
        elsewhere = PUBLISHER.set("topic", "projects/acme/topics/orders")
        report = pack.judge([DEAD, ORDERS, KEPT, SUBSCRIBER, elsewhere])
        assert report.rules == ["pubsub-dead-letter-grants"]

    def test_other_role_does_not_count(self, pack: Pack) -> None:
        viewer = SUBSCRIBER.set("role", "roles/pubsub.viewer")
        report = pack.judge([DEAD, ORDERS, KEPT, PUBLISHER, viewer])
        assert report.rules == ["pubsub-dead-letter-grants"]

    @pytest.mark.parametrize("topic", ["dead", "projects/acme/topics/dead"])
    def test_topic_by_short_or_full_name(self, pack: Pack, topic: str) -> None:
        program = [DEAD, ORDERS, KEPT, SUBSCRIBER, PUBLISHER.set("topic", topic)]
        assert pack.judge(program).rules == []

    def test_binding_and_policy_count(self, pack: Pack) -> None:
        binding = (
            grant(schema.TOPIC_GRANTS[1], topic="dead")
            .set("role", "roles/pubsub.publisher")
            .set("members", [NOT_YET, PUBSUB_AGENT])
        )
        bindings = [{"role": "roles/pubsub.publisher", "members": [PUBSUB_AGENT]}]
        policy = grant(schema.TOPIC_GRANTS[2], topic="dead").set(
            "policyData", json.dumps({"bindings": bindings})
        )
        for given in (binding, policy):
            report = pack.judge([DEAD, ORDERS, KEPT, SUBSCRIBER, given])
            assert report.rules == []
            assert "pubsub-dead-letter-grants" not in report.cannot_run

    def test_grant_on_the_project_counts(self, pack: Pack) -> None:
        given = []
        for number, role in enumerate(("roles/pubsub.publisher", "roles/pubsub.subscriber")):
            made = grant(schema.PROJECT_GRANTS[0], project="acme").set("role", role)
            made = made.set("member", PUBSUB_AGENT)
            given.append(Declared(made.type, f"grant-{number}", made.properties))
        assert pack.judge([DEAD, ORDERS, KEPT, *given]).rules == []

    def test_topic_of_somebody_else_is_left_to_them(self, pack: Pack) -> None:
        assert pack.judge([subscription(), subscriber()]).rules == []

    def test_unrelated_unknown_grant_does_not_disarm_the_rule(self, pack: Pack) -> None:
        other = grant(schema.SUBSCRIPTION_GRANTS[0], subscription="other").set("member", NOT_YET)
        report = pack.judge([DEAD, ORDERS, KEPT, PUBLISHER, SUBSCRIBER, other])
        assert report.rules == []
        assert "pubsub-dead-letter-grants" not in report.cannot_run


def test_explicit_names_win_over_those_of_the_program(pack: Pack) -> None:
    named = DEAD.set("name", "acme-dead-letters")
    program = [named, ORDERS, KEPT, PUBLISHER.set("topic", "acme-dead-letters"), SUBSCRIBER]
    assert pack.judge(program).rules == []


@pytest.mark.parametrize("rule", ["pubsub-dead-letter", "pubsub-retry-policy"])
def test_named_subscription_may_go_without(pack: Pack, rule: str) -> None:
    property = {"pubsub-dead-letter": "deadLetterPolicy", "pubsub-retry-policy": "retryPolicy"}
    without = subscription().drop(property[rule])
    config = {rule: {"allow": {"orders": "the next one replaces it"}}}
    assert pack.judge([without, subscriber()], config).rules == []
    assert pack.judge([without.set("name", "other"), subscriber()], config).rules == [rule]
    assert rule in pack.judge([without.set("name", NOT_YET)], config).cannot_run


class TestExpiryOfDeadLetters:
    def test_subscription_that_expires_keeps_nothing(self, pack: Pack) -> None:
        program = [DEAD, ORDERS, KEPT.drop("expirationPolicy"), PUBLISHER, SUBSCRIBER]
        broken = ["pubsub-dead-letter-kept", "pubsub-pull-never-expires"]
        assert pack.judge(program).rules == broken

    def test_unknown_expiry_cannot_be_judged(self, pack: Pack) -> None:
        unknown = KEPT.set("expirationPolicy.ttl", NOT_YET)
        report = pack.judge([DEAD, ORDERS, unknown, PUBLISHER, SUBSCRIBER])
        assert report.rules == []
        assert "pubsub-dead-letter-kept" in report.cannot_run


class TestAckDeadline:
    def test_longer_timeout_than_pubsub_can_wait_for(self, pack: Pack) -> None:
        service = once_service().set("template.timeout", "900s")
        longest = subscription().set("ackDeadlineSeconds", 600)
        report = pack.judge([service, longest, subscriber()])
        assert report.rules == ["pubsub-ack-deadline"]

    def test_endpoint_made_from_the_service(self, pack: Pack) -> None:
        unknown = subscription().set("pushConfig.pushEndpoint", Reference("handler", "uri"))
        report = pack.judge([once_service(), unknown, subscriber()])
        assert report.rules == ["pubsub-ack-deadline"]

    def test_raised_timeout_is_named_by_the_lease_alone(self, pack: Pack) -> None:
        raised = once_service("ONCE_LEASE_SECONDS").set("template.timeout", "540s")
        pushed = subscription().set("ackDeadlineSeconds", 300)
        assert pack.judge([raised, pushed, subscriber()]).rules == ["cloud-run-lease"]
