"""The borders of the rules about Cloud Run."""

from typing import Any

import pytest
from rules import schema

from .analyzer import Declared, Pack
from .cases.compliant import (
    IMAGE,
    MEMBER,
    NOT_YET,
    function,
    function_v1,
    grant,
    once_service,
    run_job,
    service,
    service_v1,
)

WORKER_POOL = service().drop("ingress").drop("name")
WORKER_POOL = Declared(schema.RUN_WORKER_POOL, "workers", WORKER_POOL.properties)


def test_every_compliant_resource_passes(pack: Pack) -> None:
    for resource in (service_v1(), run_job(), WORKER_POOL, function(), function_v1()):
        report = pack.judge([resource])
        assert not report.violations, resource.type
        assert not report.cannot_run, resource.type


@pytest.mark.parametrize("type", schema.RUN_GRANTS)
@pytest.mark.parametrize("member", ["allUsers", "allAuthenticatedUsers"])
class TestPublicAccess:
    def test_in_any_kind_of_grant(self, pack: Pack, type: str, member: str) -> None:
        public = grant(type)
        if "policyData" in public.properties:
            text = public.properties["policyData"].replace(MEMBER, member)
            public = public.set("policyData", text)
        elif "members" in public.properties:
            public = public.set("members", [NOT_YET, MEMBER, member])
        else:
            public = public.set("member", member)
        assert pack.judge([grant(type)]).rules == []
        assert pack.judge([public]).rules == ["cloud-run-no-public-access"]


class TestAllowedByName:
    RULE = "cloud-run-no-public-access"
    CONFIG = {RULE: {"allow": {"website": "for everybody", "docs-*": "for everybody"}}}

    @pytest.mark.parametrize("type", schema.RUN_GRANTS)
    def test_named_target_may_be_public(self, pack: Pack, type: str) -> None:
        full = "projects/acme/locations/europe-west6/services/website"
        for name, broken in (
            ("website", []),
            (full, []),
            ("docs-a1b2c3d", []),
            ("handler", [self.RULE]),
            ("website2", [self.RULE]),
        ):
            public = grant(type, **{schema.CALLABLES[type]: name})
            if "policyData" in public.properties:
                text = public.properties["policyData"].replace(MEMBER, "allUsers")
                public = public.set("policyData", text)
            elif "members" in public.properties:
                public = public.set("members", ["allUsers"])
            else:
                public = public.set("member", "allUsers")
            assert pack.judge([public], self.CONFIG).rules == broken

    def test_unknown_name_of_a_public_target_cannot_be_judged(self, pack: Pack) -> None:
        public = grant(schema.RUN_GRANTS[0], name=NOT_YET).set("member", "allUsers")
        report = pack.judge([public], self.CONFIG)
        assert report.rules == []
        assert report.cannot_run == {self.RULE}
        assert pack.judge([public]).rules == [self.RULE]

    @pytest.mark.parametrize(
        ("resource", "path", "open"),
        [
            (service(), "ingress", "INGRESS_TRAFFIC_ALL"),
            (service_v1(), "metadata.annotations", {"run.googleapis.com/ingress": "all"}),
            (function(), "serviceConfig.ingressSettings", "ALLOW_ALL"),
            (function_v1(), "ingressSettings", "ALLOW_ALL"),
        ],
    )
    def test_named_service_may_be_open(
        self, pack: Pack, resource: Declared, path: str, open: Any
    ) -> None:
        config = {"cloud-run-ingress": {"allow": {"website": "for everybody"}}}
        opened = resource.set(path, open)
        assert pack.judge([opened.set("name", "website")], config).rules == []
        assert pack.judge([opened.set("name", "other")], config).rules == ["cloud-run-ingress"]
        assert "cloud-run-ingress" in pack.judge([opened.set("name", NOT_YET)], config).cannot_run


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (service_v1(), "template.spec.serviceAccountName"),
        (run_job(), "template.template.serviceAccount"),
        (WORKER_POOL, "template.serviceAccount"),
        (function(), "serviceConfig.serviceAccountEmail"),
        (function_v1(), "serviceAccountEmail"),
    ],
)
def test_account_is_asked_of_all_that_runs(pack: Pack, resource: Declared, path: str) -> None:
    assert pack.judge([resource.drop(path)]).rules == ["cloud-run-own-account"]


@pytest.mark.parametrize(
    ("resource", "path", "restricted", "open"),
    [
        (
            service(),
            "ingress",
            "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
            "INGRESS_TRAFFIC_UNSPECIFIED",
        ),
        (
            service_v1(),
            "metadata.annotations",
            {"run.googleapis.com/ingress": "internal-and-cloud-load-balancing"},
            {"run.googleapis.com/ingress": "all"},
        ),
        (function(), "serviceConfig.ingressSettings", "ALLOW_INTERNAL_AND_GCLB", "ALLOW_ALL"),
        (function_v1(), "ingressSettings", "ALLOW_INTERNAL_AND_GCLB", "ALLOW_ALL"),
    ],
)
def test_ingress(pack: Pack, resource: Declared, path: str, restricted: Any, open: Any) -> None:
    assert pack.judge([resource.set(path, restricted)]).rules == []
    assert pack.judge([resource.set(path, open)]).rules == ["cloud-run-ingress"]
    assert pack.judge([resource.drop(path)]).rules == ["cloud-run-ingress"]


def test_invoker_check_of_the_first_version(pack: Pack) -> None:
    name = "run.googleapis.com/invoker-iam-disabled"
    annotations = {"run.googleapis.com/ingress": "internal"}
    for value, broken in (("true", ["cloud-run-invoker-check"]), ("false", [])):
        changed = service_v1().set("metadata.annotations", {**annotations, name: value})
        assert pack.judge([changed]).rules == broken


@pytest.mark.parametrize(
    "image",
    ["gcr.io/acme/handler", "gcr.io/acme/handler:v1", "gcr.io/acme/handler@sha256:1234", ""],
)
def test_image_without_a_digest(pack: Pack, image: str) -> None:
    report = pack.judge([service().set("template.containers.0.image", image)])
    assert report.rules == ["cloud-run-image-digest"]


def test_container_deployed_from_source_needs_no_digest(pack: Pack) -> None:
    source = {"cloudStorageSource": {"bucket": "acme-sources", "object": "handler.tar.gz"}}
    container = {"image": "scratch", "sourceCode": source}
    assert pack.judge([service().set("template.containers", [container])]).rules == []


def test_second_container_is_judged_too(pack: Pack) -> None:
    containers = [{"image": IMAGE}, {"image": "gcr.io/acme/sidecar:latest"}]
    report = pack.judge([service().set("template.containers", containers)])
    assert report.rules == ["cloud-run-image-digest"]


SECRET_NAMES = [
    "API_KEY",
    "apikey",
    "STRIPE_SECRET",
    "DB_PASSWORD",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
]
HARMLESS_NAMES = [
    "PUBLIC_KEY",
    "TOKEN_URL",
    "KEYBOARD",
    "MONKEY",
    "PASSWORD_MIN_LENGTH",
    "SECRETARY",
]
SECRET_VALUES = [
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    '{"type": "service_account", "private_key": "x"}',
    "AIza" + "a" * 35,
    "ghp_" + "a" * 36,
    "postgres://app:hunter2@db/orders",
    "redis://:hunter2@cache:6379",
    "AKIA" + "A" * 16,
]
HARMLESS_VALUES = [
    "360",
    "firestore://acme/runs",
    "https://acme.example:8443/a",
    "user@acme.example",
]


def with_variable(resource: Declared, name: str, value: Any) -> Declared:
    if resource.type == schema.FUNCTION:
        return resource.set(f"serviceConfig.environmentVariables.{name}", value)
    return resource.set("template.containers.0.envs", [{"name": name, "value": value}])


@pytest.mark.parametrize("resource", [service(), function()], ids=["service", "function"])
class TestPlainSecrets:
    @pytest.mark.parametrize("name", SECRET_NAMES)
    def test_secret_name(self, pack: Pack, resource: Declared, name: str) -> None:
        for value in ("hunter2", NOT_YET):
            report = pack.judge([with_variable(resource, name, value)])
            assert report.rules == ["cloud-run-no-plain-secrets"]

    @pytest.mark.parametrize("name", HARMLESS_NAMES)
    def test_harmless_name(self, pack: Pack, resource: Declared, name: str) -> None:
        for value in ("hunter2", NOT_YET):
            report = pack.judge([with_variable(resource, name, value)])
            assert report.rules == []
            assert not report.cannot_run

    @pytest.mark.parametrize("value", SECRET_VALUES)
    def test_secret_value(self, pack: Pack, resource: Declared, value: str) -> None:
        report = pack.judge([with_variable(resource, "SETTING", value)])
        assert report.rules == ["cloud-run-no-plain-secrets"]
        assert value not in report.violations[0][2]

    @pytest.mark.parametrize("value", HARMLESS_VALUES)
    def test_harmless_value(self, pack: Pack, resource: Declared, value: str) -> None:
        assert pack.judge([with_variable(resource, "SETTING", value)]).rules == []

    def test_allowed_name(self, pack: Pack, resource: Declared) -> None:
        config = {"cloud-run-no-plain-secrets": {"allowed": ["CACHE_KEY"]}}
        assert pack.judge([with_variable(resource, "CACHE_KEY", "a")], config).rules == []


def test_secrets_of_job_and_pool(pack: Pack) -> None:
    envs = [{"name": "API_KEY", "value": "a"}]
    for resource, path in (
        (run_job(), "template.template.containers.0.envs"),
        (WORKER_POOL, "template.containers.0.envs"),
        (service_v1(), "template.spec.containers.0.envs"),
    ):
        assert pack.judge([resource.set(path, envs)]).rules == ["cloud-run-no-plain-secrets"]


def test_lease_of_events_is_compared_too(pack: Pack) -> None:
    envs = [
        {"name": "ONCE_LEASE_SECONDS", "value": "360"},
        {"name": "ONCE_EVENT_LEASE_SECONDS", "value": "299"},
    ]
    report = pack.judge([once_service().set("template.containers.0.envs", envs)])
    assert report.messages("cloud-run-lease") == [
        "the timeout is 300s, but ONCE_EVENT_LEASE_SECONDS is 299s."
    ]


@pytest.mark.parametrize(
    ("lease", "passes"),
    [
        ("300", True),
        ("299", False),
        ("0", False),
        ("-1", False),
        ("6m", False),
        ("nan", False),
        ("1e300", False),
    ],
)
def test_lease_at_its_border(pack: Pack, lease: str, passes: bool) -> None:
    changed = once_service("ONCE_LEASE_SECONDS").set("template.containers.0.envs.0.value", lease)
    assert pack.judge([changed]).rules == ([] if passes else ["cloud-run-lease"])


def test_lease_of_the_first_version(pack: Pack) -> None:
    envs = [{"name": "ONCE_LEASE_SECONDS", "value": "360"}]
    leased = service_v1().set("template.spec.containers.0.envs", envs)
    assert pack.judge([leased]).rules == []
    longer = leased.set("template.spec.timeoutSeconds", 361)
    assert pack.judge([longer]).rules == ["cloud-run-lease"]
