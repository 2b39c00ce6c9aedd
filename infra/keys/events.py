"""The key `events`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from infra import timing, values
from infra.keys.services import chosen_service
from infra.model import Event, EventarcSource, PubSubSource, Service
from infra.reading import (
    Problems,
    Section,
    flag,
    listed,
    whole,
    written,
)
from infra.timing import Timing

DEFAULT_MAX_ATTEMPTS = 10

_NEEDED_FILTERS = {
    "google.cloud.storage.": ("bucket",),
    "google.cloud.firestore.": ("database",),
    "google.cloud.datastore.": ("database",),
    "google.cloud.audit.log.": ("methodName", "serviceName"),
}
"""What Eventarc asks for beside the type, by the type's beginning.

Source: https://cloud.google.com/eventarc/docs/reference/supported-events
"""


class EventReader:
    """Reads the events of a stack.

    Parameters
    ----------
    problems
        Where to note what is wrong.
    services
        Those that an event can name.
    project, region
        Where a topic or a trigger is that says nothing else.
    """

    def __init__(
        self, problems: Problems, services: Mapping[str, Service], project: str, region: str
    ) -> None:
        self.problems = problems
        self.services = services
        self.project = project
        self.region = region

    def read(self, top: Section) -> tuple[Event, ...]:
        """Read `events`."""
        events: list[Event] = []
        for section in top.each("events", "write {name: ..., pubsub: {topic: ...}}"):
            event = self._event(section)
            if event is None:
                continue
            if event.name and any(event.name == other.name for other in events):
                self.problems.add(section.at("name"), "names two events", event.name)
            events.append(event)
        return tuple(events)

    def _event(self, section: Section) -> Event | None:
        name = section.need("name", values.event_name, "", "what the handler calls it")
        service = chosen_service(section, self.services)
        timing_ = self.services[service].timing
        if timing_.timeout > timing.MAX_ACK_DEADLINE:
            self.problems.add(
                f"services.{service}.timeout",
                f"is longer than Pub/Sub waits for an answer: {written(timing.MAX_ACK_DEADLINE)} "
                f"at most, or move {name} to a service of its own",
                written(timing_.timeout),
            )
        kinds = section.mappings(("pubsub", "eventarc"))
        pubsub, eventarc = section.section("pubsub"), section.section("eventarc")
        max_age = section.get("maxAge", values.positive, None)
        max_attempts = section.get("maxAttempts", whole(1, 100), None)
        section.finish()
        if len(kinds) != 1:
            self.problems.add(section.path, "needs exactly one of pubsub, eventarc")
            return None
        source: PubSubSource | EventarcSource
        if pubsub is not None:
            source = self._pubsub(pubsub, timing_)
        elif eventarc is not None:
            source = self._eventarc(eventarc)
        else:
            return None
        needed = timing.event_lifetime(timing_, source.max_backoff)
        if max_age is not None and max_age < needed:
            _too_short(section, "maxAge", "dropped", needed)
        if max_attempts is not None:
            self._check_attempts(section, max_attempts, source, timing_)
        return Event(name, service, timing_, source, max_age, max_attempts)

    def _check_attempts(
        self,
        section: Section,
        max_attempts: int,
        source: PubSubSource | EventarcSource,
        timing_: Timing,
    ) -> None:
        """Check the handler's own limit: only dead letters make Pub/Sub tell the attempt."""
        if not isinstance(source, PubSubSource) or source.max_attempts is None:
            reason = "has no effect: only a subscription with dead letters tells the attempt"
        elif max_attempts > source.max_attempts:
            reason = f"is never reached: after {source.max_attempts} it is a dead letter"
        elif (max_attempts - 1) * source.min_backoff < timing_.lease:
            reason = (
                "can be used up while a crashed attempt still holds its lease "
                f"({written(timing_.lease)}) with waits of {written(source.min_backoff)}"
            )
        else:
            return
        self.problems.add(section.at("maxAttempts"), reason, max_attempts)

    def _pubsub(self, source: Section, timing_: Timing) -> PubSubSource:
        topic = source.get("topic", values.topic, None)
        if topic and "/" not in topic:
            topic = f"projects/{self.project}/topics/{topic}"
        bucket = source.get("bucket", values.bucket, None)
        if topic and bucket:
            self.problems.add(source.path, "has a topic and a bucket; a bucket's topic is its own")
        max_attempts = self._max_attempts(source)
        at_once = source.get("immediate", flag, False)
        default = max(timedelta(seconds=10), timing.event_min_backoff(timing_, max_attempts or 100))
        found = PubSubSource(
            topic=topic,
            bucket=bucket,
            filter=source.get("filter", values.message_filter, None),
            ordering=source.get("ordering", flag, False),
            retention=source.get("retention", values.message_retention, timedelta(days=7)),
            max_attempts=max_attempts,
            min_backoff=source.get("minBackoff", values.event_backoff, default),
            max_backoff=source.get("maxBackoff", values.event_backoff, timing.MAX_EVENT_BACKOFF),
        )
        source.finish()
        if at_once:
            for key in source.given(("minBackoff", "maxBackoff")):
                source.refuse(key, "has no use next to immediate: remove one of them")
            found = replace(found, min_backoff=timedelta(), max_backoff=timedelta())
        self._check_backoffs(source, found, timing_)
        return found

    def _max_attempts(self, source: Section) -> int | None:
        if source.raw.get("deadLetter") is False:
            return source.get("deadLetter", lambda _: None, None)
        if source.raw.get("deadLetter") is True:
            source.refuse("deadLetter", "is the default: write false, or {maxAttempts: 10}")
            return source.get("deadLetter", lambda _: DEFAULT_MAX_ATTEMPTS, None)
        dead_letter = source.section("deadLetter") or Section({}, source.path, self.problems)
        found = dead_letter.get("maxAttempts", whole(5, 100), DEFAULT_MAX_ATTEMPTS)
        dead_letter.finish()
        return found

    def _check_backoffs(self, source: Section, found: PubSubSource, timing_: Timing) -> None:
        if found.min_backoff > found.max_backoff:
            source.refuse(
                "minBackoff", f"is longer than maxBackoff, which is {written(found.max_backoff)}"
            )
            return
        if found.max_attempts is not None:
            needed = timing.event_min_backoff(timing_, found.max_attempts)
            if found.min_backoff < needed:
                source.refuse(
                    "immediate" if source.raw.get("immediate") else "minBackoff",
                    f"uses up the {found.max_attempts} delivery attempts while a crashed one still "
                    f"holds its lease ({written(timing_.lease)}): at least {written(needed)} would "
                    "work, or more attempts, or deadLetter: false",
                )
        lifetime = timing.event_lifetime(timing_, found.max_backoff)
        if found.retention < lifetime:
            _too_short(source, "retention", "lost", lifetime)

    def _eventarc(self, source: Section) -> EventarcSource:
        found = EventarcSource(
            type=source.need("type", values.event_type, "", "a CloudEvents type"),
            location=source.get("location", values.location, self.region),
            filters=source.entries("filters", check_value=values.filter_value),
            path_patterns=source.entries("pathPatterns", check_value=values.filter_value),
        )
        source.finish()
        if "type" in {*found.filters, *found.path_patterns}:
            source.problems.add(source.at("filters.type"), "is given by eventarc.type")
        for attribute in sorted({*found.filters} & {*found.path_patterns}):
            source.problems.add(
                source.at(f"pathPatterns.{attribute}"), "stands under filters too; remove one"
            )
        for prefix, attributes in _NEEDED_FILTERS.items():
            missing = {*attributes} - {*found.filters}
            if found.type.startswith(prefix) and missing:
                source.problems.add(
                    source.at("filters"), f"needs {listed(missing)} for {found.type}"
                )
        return found


def _too_short(section: Section, key: str, fate: str, needed: timedelta) -> None:
    section.refuse(
        key,
        f"is over before a crashed attempt's lease surely is: the event would be {fate} "
        f"unseen; at least {written(needed)} would work (timeout, lease and longest wait)",
    )
