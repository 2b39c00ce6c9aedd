"""The borders of the rules about Firestore."""

import pytest

from .analyzer import Declared, Pack
from .cases.compliant import (
    NOT_YET,
    database,
    datastore_grant,
    once_service,
    timed_job,
    ttl_field,
    unindexed_fields,
)

SERVICE = once_service("ONCE_STORE")
ASCENDING = {"indexes": [{"order": "ASCENDING"}]}


def of_events(field: Declared) -> Declared:
    changed = field.set("collection", "processed_events")
    return Declared(changed.type, f"events-{changed.name}", changed.properties)


class TestTtl:
    def test_another_place_does_not_count(self, pack: Pack) -> None:
        for path, value in (
            ("database", "other"),
            ("collection", "orders"),
            ("field", "lease_expires"),
        ):
            moved = ttl_field().set(path, value)
            report = pack.judge([SERVICE, database(), unindexed_fields(), moved])
            assert report.rules == ["firestore-ttl"], path

    def test_events_have_a_collection_of_their_own(self, pack: Pack) -> None:
        variable = {"name": "ONCE_EVENT_LEASE_SECONDS", "value": "360"}
        service = SERVICE.set(
            "template.containers.0.envs",
            [*SERVICE.properties["template"]["containers"][0]["envs"], variable],
        )
        runs = [service, database(), unindexed_fields(), ttl_field()]
        exempt = of_events(unindexed_fields())
        report = pack.judge([*runs, exempt])
        assert report.rules == ["firestore-ttl"]
        assert "processed_events" in report.messages("firestore-ttl")[0]
        assert pack.judge([*runs, exempt, of_events(ttl_field())]).rules == []

    def test_database_of_somebody_else_is_left_to_them(self, pack: Pack) -> None:
        assert pack.judge([SERVICE]).rules == []

    def test_fields_of_an_existing_database_are_judged(self, pack: Pack) -> None:
        assert pack.judge([SERVICE, unindexed_fields()]).rules == ["firestore-ttl"]

    def test_other_store_needs_no_field(self, pack: Pack) -> None:
        path = "template.containers.0.envs.0.value"
        for store in ("sqlite:///runs.db", "spanner://acme/i/d", ""):
            assert pack.judge([SERVICE.set(path, store), database()]).rules == []

    def test_default_database(self, pack: Pack) -> None:
        path = "template.containers.0.envs.0.value"
        service = SERVICE.set(path, "firestore://acme/(default)")
        fields = [unindexed_fields().drop("database"), ttl_field().drop("database")]
        assert pack.judge([service, *fields]).rules == []
        assert pack.judge([service, fields[0]]).rules == ["firestore-ttl"]

    def test_collections_of_others_come_from_the_settings(self, pack: Pack) -> None:
        config = {"firestore-ttl": {"collections": ["locks"]}}
        assert pack.judge([database()], config).rules == ["firestore-ttl"]
        field = ttl_field().set("collection", "locks")
        assert pack.judge([database(), field], config).rules == []


class TestIndexes:
    def test_fields_exempt_by_name(self, pack: Pack) -> None:
        names = ("lease_expires", "schedule_time", "event_time", "started_at", "finished_at")
        fields = [
            Declared(field.type, name, field.properties)
            for name in names
            for field in [unindexed_fields().set("field", name)]
        ]
        own = ttl_field().set("indexConfig", {})
        assert pack.judge([SERVICE, database(), own, *fields]).rules == []
        report = pack.judge([SERVICE, database(), own, *fields[1:]])
        assert report.rules == ["firestore-timestamps-unindexed"]

    def test_whole_database_exempt(self, pack: Pack) -> None:
        default = unindexed_fields().set("collection", "__default__")
        assert pack.judge([SERVICE, database(), ttl_field(), default]).rules == []

    def test_own_index_wins_over_the_exemption(self, pack: Pack) -> None:
        indexed = unindexed_fields().set("field", "started_at").set("indexConfig", ASCENDING)
        indexed = Declared(indexed.type, "indexed", indexed.properties)
        report = pack.judge([SERVICE, database(), ttl_field(), unindexed_fields(), indexed])
        assert [name for _, name, _ in report.violations] == ["indexed"]


class TestRetention:
    """The last retry starts after 1080 s at the latest, and its lease is 360 s."""

    @pytest.mark.parametrize(("seconds", "passes"), [("1441", True), ("1440", False), ("x", False)])
    def test_border(self, pack: Pack, seconds: str, passes: bool) -> None:
        service = once_service("ONCE_LEASE_SECONDS", "ONCE_RETENTION_SECONDS")
        service = service.set("template.containers.0.envs.1.value", seconds)
        broken = pack.judge([service, timed_job()]).rules
        assert broken == ([] if passes else ["firestore-retention"])

    def test_counted_retries_count_with_their_attempts(self, pack: Pack) -> None:
        service = once_service("ONCE_LEASE_SECONDS", "ONCE_RETENTION_SECONDS")
        service = service.set("template.containers.0.envs.1.value", "2000")
        counted = timed_job().set("retryConfig.retryCount", 5)  # 5 attempts of 300 s, and waits
        assert pack.judge([service, timed_job()]).rules == []
        assert pack.judge([service, counted]).rules == []
        longer = counted.set("retryConfig.minBackoffDuration", "60s")
        assert pack.judge([service, longer]).rules == ["firestore-retention"]

    def test_retention_that_is_not_set_comes_from_the_settings(self, pack: Pack) -> None:
        program = [once_service("ONCE_LEASE_SECONDS"), timed_job()]
        config = {"firestore-retention": {"retentionSeconds": 600}}
        assert pack.judge(program).rules == []
        assert pack.judge(program, config).rules == ["firestore-retention"]


class TestNarrowRoles:
    @pytest.mark.parametrize(
        ("expression", "narrow"),
        [
            ('resource.name == "projects/acme/databases/runs"', True),
            ("resource.name=='projects/acme/databases/runs'", True),
            ('resource.name == "projects/acme"', False),
            ('resource.type == "firestore.googleapis.com/Database"', False),
            ('resource.name == "projects/acme/databases/runs" || true', False),
            ("true", False),
        ],
    )
    def test_expression(self, pack: Pack, expression: str, narrow: bool) -> None:
        changed = datastore_grant().set("condition.expression", expression)
        broken = pack.judge([changed]).rules
        assert broken == ([] if narrow else ["firestore-narrow-roles"])

    def test_every_role_of_datastore(self, pack: Pack) -> None:
        for role in ("owner", "viewer", "indexAdmin"):
            wide = datastore_grant().drop("condition").set("role", f"roles/datastore.{role}")
            assert pack.judge([wide]).rules == ["firestore-narrow-roles"]

    def test_missing_condition_is_named_although_the_member_is_not_known(self, pack: Pack) -> None:
        wide = datastore_grant().drop("condition").set("member", NOT_YET)
        assert pack.judge([wide]).rules == ["firestore-narrow-roles"]
