"""What the protocol relies on, of every store."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from once.identity import Key
from once.stores import Record, Store, StoreUnavailable, Version, open_store

from tests.support.deliveries import Delivery
from tests.support.lab import Lab

NOW = datetime.now(UTC).replace(microsecond=123000)

RECORD = Record(
    status="in_progress",
    attempt_id="first",
    lease_seconds=360.0,
    lease_expires=NOW,
    expire_at=NOW + timedelta(days=7),
    started_at=NOW,
    about={"project": "p", "job": "j", "schedule_time": NOW, "schedule_time_raw": "raw"},
)
ENDED = replace(
    RECORD, status="completed", finished_at=NOW, result={"rows": [1, 2.5, None, "é"]}, error="e"
)


@pytest.fixture
def store(lab: Lab) -> Store:
    return lab.backend.store()


@pytest.fixture
def key() -> Key:
    return Delivery().key


def soon() -> float:
    return time.monotonic() + 10


def created(store: Store, key: Key, record: Record = RECORD) -> Version:
    version = store.create(key, record, soon())
    assert version is not None
    return version


def test_missing_record_reads_as_nothing_with_the_time_of_the_store(store: Store, key: Key) -> None:
    reading = store.read(key, soon())

    assert reading.found is None
    assert abs(reading.time - datetime.now(UTC)) < timedelta(minutes=1)
    assert reading.time.utcoffset() == timedelta(0)


def test_time_of_reads_moves_without_writes(store: Store, key: Key) -> None:
    first = store.read(key, soon()).time
    time.sleep(0.01)

    assert store.read(key, soon()).time > first


@pytest.mark.parametrize("record", [RECORD, ENDED])
def test_record_reads_as_it_was_written(record: Record, store: Store, key: Key) -> None:
    version = created(store, key, record)

    reading = store.read(key, soon())

    assert reading.found == (record, version)
    assert reading.time >= version.time


def test_create_is_refused_where_a_record_stands(store: Store, key: Key) -> None:
    version = created(store, key)

    assert store.create(key, ENDED, soon()) is None
    assert store.read(key, soon()).found == (RECORD, version)


def test_replace_writes_every_field_and_a_higher_version(store: Store, key: Key) -> None:
    first = created(store, key, ENDED)

    second = store.replace(key, RECORD, first, soon())

    assert second is not None
    assert second.number > first.number
    assert second.time >= first.time
    assert store.read(key, soon()).found == (RECORD, second)


def test_replace_is_refused_where_the_version_is_another(store: Store, key: Key) -> None:
    first = created(store, key)
    second = store.replace(key, replace(RECORD, attempt_id="second"), first, soon())

    assert store.replace(key, ENDED, first, soon()) is None
    found = store.read(key, soon()).found
    assert found is not None
    assert (found.record.attempt_id, found.version) == ("second", second)


def test_replace_is_refused_where_nothing_stands(store: Store, key: Key) -> None:
    version = created(store, key)
    assert store.delete(key, version, soon())

    assert store.replace(key, ENDED, version, soon()) is None
    assert store.read(key, soon()).found is None


def test_delete_is_refused_where_the_version_is_another(store: Store, key: Key) -> None:
    first = created(store, key)
    second = store.replace(key, replace(RECORD, attempt_id="second"), first, soon())
    assert second is not None

    assert not store.delete(key, first, soon())
    assert store.delete(key, second, soon())
    assert not store.delete(key, second, soon())
    assert store.read(key, soon()).found is None


def test_version_grows_across_deletion(store: Store, key: Key) -> None:
    versions = []
    for _ in range(5):
        versions.append(created(store, key))
        assert store.delete(key, versions[-1], soon())

    numbers = [version.number for version in versions]
    assert numbers == sorted(set(numbers))


def test_version_grows_across_processes_that_open_the_store_anew(lab: Lab, key: Key) -> None:
    first = created(lab.backend.store(), key)
    assert lab.backend.store().delete(key, first, soon())

    assert created(lab.backend.store(), key).number > first.number


def test_of_creates_at_once_one_is_applied(lab: Lab, key: Key) -> None:
    stores = [lab.backend.store() for _ in range(4)]

    def create(number: int) -> Version | None:
        record = replace(RECORD, attempt_id=str(number))
        return stores[number % 4].create(key, record, soon())

    with ThreadPoolExecutor(16) as pool:
        versions = [version for version in pool.map(create, range(16)) if version]

    assert len(versions) == 1


def test_of_replaces_at_once_one_is_applied(lab: Lab, key: Key) -> None:
    stores = [lab.backend.store() for _ in range(4)]
    base = created(stores[0], key)

    def take_over(number: int) -> Version | None:
        record = replace(RECORD, attempt_id=str(number))
        return stores[number % 4].replace(key, record, base, soon())

    with ThreadPoolExecutor(16) as pool:
        versions = [version for version in pool.map(take_over, range(16)) if version]

    assert len(versions) == 1


def test_records_of_different_keys_and_kinds_do_not_meet(store: Store) -> None:
    delivery = Delivery()
    created(store, delivery.key)

    assert store.read(delivery.forced_key, soon()).found is None
    assert store.read(Key("event", delivery.key.parts), soon()).found is None
    created(store, Key("event", delivery.key.parts))


def test_record_written_by_hand_with_little_in_it_can_be_read(
    lab: Lab, store: Store, key: Key
) -> None:
    lab.backend.put(key, {"status": "in_progress", "attempt_id": "by-hand", "note": "mine"})

    found = store.read(key, soon()).found

    assert found is not None
    assert found.record == Record("in_progress", "by-hand", about={"note": "mine"})
    assert store.replace(key, RECORD, found.version, soon()) is not None


@pytest.mark.parametrize(
    "result",
    [
        None,
        True,
        0,
        -(2**63),
        1.5,
        "",
        "text with a \x00 and an é",
        [],
        {},
        {"a": {}, "b": [], "c": [{"d": [1]}]},
        {"a.b": 1, "`": 2, "a/b": 3, "~*[]": 4, " ": 5},
        "x" * 8000,
    ],
)
def test_result_reads_as_it_was_written(result: object, store: Store, key: Key) -> None:
    """Also through `replace`, which takes field paths in Firestore's client."""
    version = created(store, key)

    assert store.replace(key, replace(ENDED, result=result), version, soon()) is not None

    found = store.read(key, soon()).found
    assert found is not None
    assert found.record.result == result


def test_call_without_any_time_left_is_not_made(store: Store, key: Key) -> None:
    with pytest.raises(StoreUnavailable):
        store.create(key, RECORD, time.monotonic())

    assert store.read(key, soon()).found is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/x",
        "firestore://p",
        "firestore:///d",
        "firestore://p/d/e",
        "firestore://a project/d",
        "firestore://user:key@p/d",
        "firestore://p/d ",
        "firestore://p/D_B",
    ],
)
def test_url_that_is_no_store_is_refused_with_the_forms_that_are(url: str) -> None:
    with pytest.raises(ValueError, match="firestore://PROJECT/DATABASE or sqlite:///PATH"):
        open_store(url)


def test_sqlite_file_that_was_emptied_is_set_up_again(tmp_path: Path) -> None:
    store, path = open_store(f"sqlite:///{tmp_path}/runs.db"), tmp_path / "runs.db"
    assert store.create(Key("run", ("a",)), RECORD, soon()) is not None
    for each in tmp_path.iterdir():
        each.write_bytes(b"")
    assert path.stat().st_size == 0

    assert store.create(Key("run", ("a",)), RECORD, soon()) is not None


def test_sqlite_keeps_a_young_claim_whatever_its_record_says(tmp_path: Path) -> None:
    url, key = f"sqlite:///{tmp_path}/runs.db", Key("run", ("a",))
    ago = datetime.now(UTC) - timedelta(days=3)
    assert open_store(url).create(key, replace(RECORD, expire_at=ago), soon()) is not None

    assert open_store(url).read(key, soon()).found is not None


@pytest.mark.parametrize("value", ["soon", 12345, True, [], {}])
def test_time_that_is_none_is_read_as_missing(lab: Lab, value: object) -> None:
    """On both stores alike, and not as trouble with the store."""
    key = Delivery().key
    lab.backend.put(key, {"status": "completed", "attempt_id": "a", "expire_at": value})

    found = lab.backend.store().read(key, soon()).found

    assert found is not None
    assert found.record.expire_at is None


def test_store_says_where_its_records_stand(tmp_path: Path) -> None:
    assert str(open_store("sqlite:///a/b.db")) == "SQLite file a/b.db"
    assert str(open_store("firestore://p/d")) == "Firestore projects/p/databases/d"
