"""The borders of the rules about every kind of resource."""

import json

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE
from rules import schema

from .analyzer import PACK, Declared, Pack
from .cases.compliant import NOT_YET, bucket, database, function, function_v1, job, trigger

PROD = json.loads((PACK / "prod.json").read_text(encoding="utf-8"))
EUROPE = {"general-regions": PROD["general-regions"]}
TEAM = {"general-labels": {"required": {"team": "unknown", "env": "dev"}}}


class TestRegions:
    @pytest.mark.parametrize(
        "place", ["europe-west6", "EUROPE-WEST1", "eur3", "EU", "eu", "europe"]
    )
    def test_allowed(self, pack: Pack, place: str) -> None:
        assert pack.judge([bucket().set("location", place)], EUROPE).rules == []

    @pytest.mark.parametrize("place", ["us-central1", "US", "eur4", "northamerica-europe-1"])
    def test_refused(self, pack: Pack, place: str) -> None:
        report = pack.judge([bucket().set("location", place)], EUROPE)
        assert report.rules == ["general-regions"]

    def test_region_of_the_provider_counts_where_none_is_set(self, pack: Pack) -> None:
        own = job()
        for region, broken in (("us-central1", ["general-regions"]), ("europe-west6", [])):
            placed = Declared(own.type, own.name, own.properties, {"region": region})
            assert pack.judge([placed], EUROPE).rules == broken

    @pytest.mark.parametrize(
        ("resource", "path"),
        [
            (database(), "locationId"),
            (trigger(), "location"),
            (function(), "location"),
            (function_v1(), "region"),
            (job(), "region"),
        ],
    )
    def test_every_kind_of_place(self, pack: Pack, resource: Declared, path: str) -> None:
        report = pack.judge([resource.set(path, "us-central1")], EUROPE)
        assert report.rules == ["general-regions"]


class TestLabels:
    def test_missing_labels_are_added(self, pack: Pack) -> None:
        repaired = pack.remediate(bucket().set("labels", {"team": "billing"}), TEAM)
        assert repaired is not None
        labels = {name: repaired["labels"][name] for name in ("team", "env")}
        assert labels == {"team": "billing", "env": "dev"}
        assert repaired["publicAccessPrevention"] == "enforced"

    def test_labels_are_made_where_there_are_none(self, pack: Pack) -> None:
        repaired = pack.remediate(bucket(), TEAM)
        assert repaired is not None
        assert repaired["labels"] == {"team": "unknown", "env": "dev"}

    def test_empty_label_is_filled(self, pack: Pack) -> None:
        repaired = pack.remediate(bucket().set("labels", {"team": "", "env": "x"}), TEAM)
        assert repaired is not None
        assert repaired["labels"]["team"] == "unknown"

    def test_complete_labels_are_left_alone(self, pack: Pack) -> None:
        complete = bucket().set("labels", {"team": "billing", "env": "prod"})
        assert pack.remediate(complete, TEAM) is None

    def test_other_types_are_left_alone(self, pack: Pack) -> None:
        assert pack.remediate(job(), TEAM) is None

    def test_unknown_labels_are_left_alone(self, pack: Pack) -> None:
        assert pack.remediate(bucket().set("labels", NOT_YET), TEAM) is None

    def test_unknown_value_and_secrets_survive_the_repair(self, pack: Pack) -> None:
        secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
        hidden = {**secret, "value": "acme-uploads"}
        repaired = pack.remediate(bucket().set("location", NOT_YET).set("name", hidden), TEAM)
        assert repaired is not None
        assert repaired["location"] == UNKNOWN_STRING_VALUE
        assert {**repaired["name"], "__defaults": []} == {**hidden, "__defaults": []}


@pytest.mark.parametrize(
    ("type", "properties"),
    [
        (schema.BUCKET_GRANTS[1], {"role": "roles/viewer-x", "members": [NOT_YET, "allUsers"]}),
        (schema.BUCKET_GRANTS[2], {"policyData": '{"bindings": [{"members": ["allUsers"]}]}'}),
        (schema.BUCKET_GRANTS[3], {"role": "roles/x", "member": "allAuthenticatedUsers"}),
        (schema.BUCKET_ACL, {"roleEntities": ["OWNER:user-a@acme.example", "READER:allUsers"]}),
        (schema.BUCKET_ACL, {"predefinedAcl": "publicRead"}),
        (schema.OBJECT_ACL, {"predefinedAcl": "authenticatedRead"}),
        (schema.DEFAULT_OBJECT_ACL, {"roleEntities": ["READER:allAuthenticatedUsers"]}),
        (schema.BUCKET_ACCESS, {"entity": "allUsers"}),
        (schema.OBJECT_ACCESS, {"entity": "allUsers"}),
        (schema.DEFAULT_OBJECT_ACCESS, {"entity": "allUsers"}),
    ],
)
def test_public_bucket(pack: Pack, type: str, properties: dict[str, object]) -> None:
    report = pack.judge([Declared(type, "public", properties)])
    assert report.rules == ["general-bucket-public-grants"]
