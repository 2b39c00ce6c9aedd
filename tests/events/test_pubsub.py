"""Real pushes, redeliveries and dead letters: the handler behind Google's Pub/Sub emulator.

Every message is published before the first test looks, because the emulator takes seconds between
two deliveries.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from once import deadletter
from once.events import ONLY_FOR

from local import deadletters
from local.deadletters import DeadLetter, DeadLetters
from local.pubsub import PubSub, Subscription, send_event
from tests.events.conftest import APP
from tests.support.backends import SqliteBackend
from tests.support.faults import eventually
from tests.support.handler import Handler
from tests.support.lab import Lab
from tests.support.pushes import Message, Request

LEASE_SECONDS = 3


@dataclass
class Site:
    """A handler with its subscriptions, each with a topic and dead letters of its own.

    Each case of a test has a project of its own, because the handler tells its functions apart by
    the subscription's id.
    """

    pubsub: PubSub
    lab: Lab
    handler: Handler
    message_ids: dict[str, str] = field(default_factory=dict)

    def subscribe(
        self, case: str, function: str, *, max_attempts: int = 5, unwrapped: bool = False
    ) -> None:
        """Subscribe a function to the topic of a case."""
        self.pubsub.subscribe(
            Subscription(
                name=f"projects/{case}/subscriptions/{function}",
                topic=topic(case),
                endpoint=f"http://127.0.0.1:{self.handler.port}/",
                dead_letter_topic=f"{topic(case)}-dead",
                max_attempts=max_attempts,
                min_backoff=timedelta(milliseconds=100),
                max_backoff=timedelta(seconds=1),
                unwrapped=unwrapped,
            )
        )

    def open(self, case: str, function: str, **options: Any) -> str:
        """Subscribe a function, keep its dead letters, publish a message; return the case."""
        case = f"{case}-{uuid.uuid4().hex[:8]}"
        self.subscribe(case, function, **options)
        self.pubsub.subscribe(Subscription(dead_letters(case), f"{topic(case)}-dead"))
        data = json.dumps({"case": case}).encode()
        self.message_ids[case] = self.pubsub.publish(topic(case), data, {"kind": "test"})
        return case

    def run_id(self, case: str, subscription: str, function: str | None = None) -> str:
        """Return the run_id of a case's message."""
        push = {
            "message": {"messageId": self.message_ids[case]},
            "subscription": f"projects/{case}/subscriptions/{subscription}",
        }
        name = function or subscription.replace("-", "_")
        return Request({}, json.dumps(push).encode()).key(name).id

    def effects(self, case: str, subscription: str, what: str = "ran", **names: str) -> int:
        """Return how often a function took effect for a case's message."""
        return len(self.lab.effects(self.run_id(case, subscription, **names), what))

    def outcomes(self, run_id: str) -> list[str]:
        """Return what was answered to each delivery of a message."""
        name = "logging.googleapis.com/labels"
        labels = [line.get(name, {}) for line in self.handler.log()]
        return [
            each["outcome"] for each in labels if each.get("run_id") == run_id and "outcome" in each
        ]

    def dead(self, case: str) -> list[DeadLetter]:
        """Return the dead letters of a case."""
        return look(dead_letters(case), self.pubsub.host)

    def wait_for_dead(self, case: str) -> DeadLetter:
        """Wait for the dead letter of a case and return it."""
        found: list[DeadLetter] = []

        def there() -> bool:
            found.extend(self.dead(case))
            return bool(found)

        eventually(there, f"{case} is dead-lettered")
        return found[0]


def topic(case: str) -> str:
    return f"projects/{case}/topics/messages"


def dead_letters(case: str) -> str:
    return f"projects/{case}/subscriptions/dead"


def look(subscription: str, host: str) -> list[DeadLetter]:
    with DeadLetters(subscription, host=host, wait_seconds=0.5).pulled() as found:
        return found


@pytest.fixture(scope="module")
def site(pubsub: PubSub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a handler whose event leases are brief."""
    folder = tmp_path_factory.mktemp("pushes")
    lab = Lab(SqliteBackend(folder / "runs.db"), folder)
    settings = {"ONCE_EVENT_LEASE_SECONDS": str(LEASE_SECONDS)}
    with lab.handler(source=APP, settings=settings) as handler:
        yield Site(pubsub, lab, handler)


@pytest.fixture
def lab_of_its_own(tmp_path: Path) -> Lab:
    """Return a lab for handlers that crash."""
    return Lab(SqliteBackend(tmp_path / "runs.db"), tmp_path)


@pytest.fixture(scope="module")
def cases(site: Site) -> Mapping[str, str]:
    """Return the cases by name, all published."""
    return {
        "pushed": site.open("pushed", "count"),
        "unwrapped": site.open("unwrapped", "count", unwrapped=True),
        "fails-once": site.open("fails-once", "fail-once"),
        "always-raises": site.open("always-raises", "raise"),
        "fatal": site.open("fatal", "fatal"),
        "nobody": site.open("nobody", "nobody-handles-it"),
        "two": site.open("two", "both"),
    }


@pytest.mark.parametrize("form", ["pushed", "unwrapped"])
def test_pushed_message_is_handled(form: str, site: Site, cases: Mapping[str, str]) -> None:
    case = cases[form]
    run_id = site.run_id(case, "count")
    eventually(lambda: "completed" in site.outcomes(run_id), "it is handled")

    (effect,) = site.lab.effects(run_id)
    assert effect["attributes"]["kind"] == "test"
    assert effect["id"] == site.message_ids[case]


def test_function_that_fails_once_gets_the_message_again(
    site: Site, cases: Mapping[str, str]
) -> None:
    run_id = site.run_id(cases["fails-once"], "fail-once")
    eventually(lambda: "completed" in site.outcomes(run_id), "it is handled")

    assert len(site.lab.effects(run_id)) == 2


def test_bug_that_always_raises_ends_in_the_dead_letter_topic_after_the_configured_attempts(
    site: Site, cases: Mapping[str, str]
) -> None:
    case = cases["always-raises"]

    letter = site.wait_for_dead(case)

    assert letter.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
    assert letter.reason == "not acknowledged in 5 deliveries"
    assert letter.subscription == f"projects/{case}/subscriptions/raise"
    assert json.loads(letter.data) == {"case": case}
    assert site.effects(case, "raise", function="fail") == 5


def test_message_that_nobody_handles_is_kept_in_the_dead_letter_topic(
    site: Site, cases: Mapping[str, str]
) -> None:
    letter = site.wait_for_dead(cases["nobody"])

    assert json.loads(letter.data) == {"case": cases["nobody"]}


def test_fatal_is_acknowledged_at_once(site: Site, cases: Mapping[str, str]) -> None:
    run_id = site.run_id(cases["fatal"], "fatal")
    eventually(lambda: "failed" in site.outcomes(run_id), "it is given up")

    assert len(site.lab.effects(run_id)) == 1
    assert site.dead(cases["fatal"]) == []  # no topic is configured for the handler itself


def test_function_that_ended_does_not_run_again_when_another_of_the_event_does(
    site: Site, cases: Mapping[str, str]
) -> None:
    case = cases["two"]
    eventually(lambda: site.effects(case, "both", "second", function="second") == 2, "both ended")

    assert site.effects(case, "both", "first", function="first") == 1


# --- What the handler itself puts into the dead-letter topic --------------------------------------


def test_event_that_is_given_up_goes_to_the_dead_letter_topic_with_its_reason(
    pubsub: PubSub, site: Site
) -> None:
    case = f"given-up-{uuid.uuid4().hex[:8]}"
    dead_topic = f"projects/{case}/topics/given-up"
    pubsub.subscribe(Subscription(dead_letters(case), dead_topic))
    stack = {
        name: {
            "subscription": f"projects/p/subscriptions/{name}",
            "deadLetterTopic": dead_topic,
            "maxAgeSeconds": 7_200,
        }
        for name in ("fatal", "aged", "count")
    }
    fatal = Message("fatal", data=b"\xff", attributes={"k": "v", "googclient_x": "y"})
    aged = Message("aged", published="2026-01-01T00:00:00Z")
    settings = {
        "ONCE_EVENTS": json.dumps(stack),
        "ONCE_EVENT_LEASE_SECONDS": str(LEASE_SECONDS),
        "PUBSUB_EMULATOR_HOST": pubsub.host,
    }
    with site.lab.handler(source=APP, settings=settings) as handler:
        for message in (fatal, fatal, aged, Message("count")):
            handler.request("POST", message.wrapped.headers, message.wrapped.body)

    letters = {letter.subscription: letter for letter in look(dead_letters(case), pubsub.host)}

    assert len(letters) == 2
    failed = letters[fatal.full_subscription]
    assert failed.data == b"\xff"
    assert failed.reason == "failed by fatal: Fatal: the-text-of-an-exception"
    assert failed.attributes == {
        "k": "v",
        "once-outcome": "failed",
        "once-reason": "Fatal: the-text-of-an-exception",
        "once-handler": "fatal",
        "once-run-id": fatal.wrapped.key("fatal").id,
        "once-id": fatal.id,
        "once-source": f"//pubsub.googleapis.com/{fatal.full_subscription}",
        "once-type": "google.cloud.pubsub.topic.v1.messagePublished",
        "once-time": failed.attributes["once-time"],
        "once-subscription": fatal.full_subscription,
    }
    dropped = letters[aged.full_subscription]
    # The stack's max_age wins over the decorator's, which is one hour.
    assert dropped.reason.startswith("dropped by aged: Dropped: the event is ")
    assert dropped.reason.endswith("more than max_age, 2:00:00")


def test_event_is_not_given_up_before_the_dead_letter_topic_has_it(
    pubsub: PubSub, site: Site
) -> None:
    missing = "projects/p/topics/missing"
    fatal = {"subscription": "projects/p/subscriptions/fatal", "deadLetterTopic": missing}
    settings = {
        "ONCE_EVENTS": json.dumps({"fatal": fatal}),
        "ONCE_EVENT_LEASE_SECONDS": str(LEASE_SECONDS),
        "PUBSUB_EMULATOR_HOST": pubsub.host,
    }
    request = Message("fatal").wrapped
    with site.lab.handler(source=APP, settings=settings) as handler:
        lost = handler.request("POST", request.headers, request.body)
        assert (lost.status, lost.outcome) == (500, "released")
        assert site.lab.backend.get(request.key("fatal")) is None

        pubsub.topic(missing)
        kept = handler.request("POST", request.headers, request.body)

    assert (kept.status, kept.outcome) == (200, "failed")


# --- A crash, and why infra/ holds the waits against the lease ------------------------------------


def test_crashed_attempt_is_taken_over_and_its_message_is_no_dead_letter(
    pubsub: PubSub, lab_of_its_own: Lab
) -> None:
    """The waits before the last delivery, 49 of at least a second, outlast the lease of 3 s."""
    settings = {"ONCE_EVENT_LEASE_SECONDS": str(LEASE_SECONDS)}
    with lab_of_its_own.handler(source=APP, settings=settings) as handler:
        site = Site(pubsub, lab_of_its_own, handler)
        case = site.open("crashes", "die-once", max_attempts=50)
        run_id = site.run_id(case, "die-once")
        eventually(lambda: "completed" in site.outcomes(run_id), "it is taken over")

        *refused, last = site.outcomes(run_id)
        assert refused
        assert set(refused) == {"in_progress"}
        assert last == "completed"
        assert len(site.lab.effects(run_id, "begun")) == 2
        assert len(site.lab.effects(run_id)) == 1
        assert site.dead(case) == []


def test_refusals_while_a_lease_lives_use_up_the_delivery_attempts(
    pubsub: PubSub, lab_of_its_own: Lab
) -> None:
    """Four waits of some seconds do not outlast the lease of ten minutes: what infra/ refuses."""
    settings = {"ONCE_EVENT_LEASE_SECONDS": "600"}
    with lab_of_its_own.handler(source=APP, settings=settings) as handler:
        site = Site(pubsub, lab_of_its_own, handler)
        case = site.open("too-early", "die-once", max_attempts=5)

        letter = site.wait_for_dead(case)

        assert letter.reason == "not acknowledged in 5 deliveries"
        run_id = site.run_id(case, "die-once")
        assert set(site.outcomes(run_id)) == {"in_progress"}
        assert len(site.lab.effects(run_id, "begun")) == 1
        assert site.lab.effects(run_id) == []


# --- The drain ------------------------------------------------------------------------------------


def test_names_of_the_drain_are_those_of_the_handler() -> None:
    assert deadletters._OWN == deadletter.PREFIX
    assert deadletters._ONLY_FOR == ONLY_FOR


@pytest.fixture
def drain(pubsub: PubSub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the command at the emulator."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub.host)


@pytest.mark.usefixtures("drain")
def test_drain_lists_shows_and_publishes_again_for_the_subscription_that_failed(
    site: Site, cases: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    case = cases["nobody"]
    letter = site.wait_for_dead(case)
    # A function that had its copy, and does not want another.
    site.subscribe(case, "count")

    def run(*arguments: str) -> str:
        assert deadletters.main([dead_letters(case), "--wait", "1", *arguments]) == 0
        return capsys.readouterr().out

    assert f"{letter.id}  " in run("list")
    assert "1 in projects/" in run("list")  # listing takes nothing away
    shown = run("show", letter.id)
    assert "kind: test" in shown
    assert case in shown
    again = run("republish", letter.id).split()[-1]
    assert run("list").startswith("0 in ")

    site.message_ids[case] = again
    other = site.run_id(case, "count")
    eventually(lambda: "dropped" in site.outcomes(other), "the other function drops it")
    assert site.lab.effects(other) == []
    # Its own subscription has still nobody to handle it, so it comes back.
    letter = site.wait_for_dead(case)
    assert letter.attributes["kind"] == "test"
    assert letter.attributes[ONLY_FOR] == f"projects/{case}/subscriptions/nobody-handles-it"


@pytest.mark.usefixtures("drain")
@pytest.mark.parametrize("command", ["show", "republish"])
def test_drain_says_which_message_it_did_not_find(
    command: str, site: Site, cases: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    subscription = dead_letters(cases["pushed"])

    assert deadletters.main([subscription, "--wait", "0.5", command, "404"]) == 2

    assert f"no message 404 was found in {subscription}" in capsys.readouterr().err


@pytest.mark.usefixtures("drain")
def test_drain_says_that_a_subscription_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert deadletters.main(["projects/p/subscriptions/missing", "list"]) == 2

    assert "deadletters: 404" in capsys.readouterr().err


def test_drain_without_credentials_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PUBSUB_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")

    assert deadletters.main(["projects/p/subscriptions/s", "list"]) == 2

    assert "default credentials were not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["dead", "list"], ["projects/p/subscriptions/s", "republish"]]
)
def test_drain_refuses_a_command_that_names_nothing(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        deadletters.main(arguments)


# --- Eventarc, which has no emulator --------------------------------------------------------------


def test_event_is_sent_as_eventarc_sends_it(site: Site) -> None:
    url = f"http://127.0.0.1:{site.handler.port}/"
    event_id, subject = uuid.uuid4().hex, "objects/caf\u00e9 1.csv"

    answers = [
        send_event(url, type="test.counted", source="//s/b", id=event_id, subject=subject)
        for _ in range(2)
    ]

    assert [answer.status for answer in answers] == [200, 200]
    assert [json.loads(answer.body)["outcome"] for answer in answers] == ["completed", "duplicate"]
    (effect,) = site.lab.effects(json.loads(answers[0].body)["run_id"])
    assert effect["id"] == event_id
    assert effect["subject"] == subject
    assert effect["time"] is not None
    assert send_event(url, type="test.nobody", source="s").status == 404
