"""The borders of the rules about grants and accounts."""

import json

import pytest
from rules import schema

from .analyzer import Declared, Pack
from .cases.compliant import (
    MEMBER,
    NOT_YET,
    function,
    grant,
    job,
    run_job,
    service,
    subscription,
    trigger,
)

COMPUTE = "123456789012-compute@developer.gserviceaccount.com"
APP_ENGINE = "acme@appspot.gserviceaccount.com"


def with_role(type: str, role: str, member: str = MEMBER) -> Declared:
    if type.endswith("Policy"):
        bindings = [{"role": role, "members": [member]}]
        return grant(type).set("policyData", json.dumps({"bindings": bindings}))
    holder = grant(type).set("role", role)
    if type.endswith("Binding"):
        return holder.set("members", [NOT_YET, member])
    return holder.set("member", member)


@pytest.mark.parametrize("type", schema.GRANTS)
class TestEveryKindOfGrant:
    def test_basic_role(self, pack: Pack, type: str) -> None:
        for role in ("roles/owner", "roles/editor", "roles/viewer"):
            assert "iam-no-basic-roles" in pack.judge([with_role(type, role)]).rules

    def test_default_account(self, pack: Pack, type: str) -> None:
        for account in (COMPUTE, APP_ENGINE):
            made = with_role(type, "roles/run.invoker", f"serviceAccount:{account}")
            assert "iam-no-default-accounts" in pack.judge([made]).rules

    def test_own_account_and_narrow_role(self, pack: Pack, type: str) -> None:
        broken = pack.judge([grant(type)]).rules
        wide = type in schema.WIDE_GRANTS and not type.endswith("Member")
        assert broken == (["iam-no-authoritative-grants"] if wide else [])


@pytest.mark.parametrize("type", schema.WIDE_GRANTS)
def test_impersonation_on_everything(pack: Pack, type: str) -> None:
    for role in ("serviceAccountUser", "serviceAccountTokenCreator", "workloadIdentityUser"):
        report = pack.judge([with_role(type, f"roles/iam.{role}")])
        assert "iam-no-wide-impersonation" in report.rules


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (job(), "httpTarget.oidcToken.serviceAccountEmail"),
        (service(), "template.serviceAccount"),
        (run_job(), "template.template.serviceAccount"),
        (function(), "serviceConfig.serviceAccountEmail"),
        (function(), "eventTrigger.serviceAccountEmail"),
        (subscription(), "pushConfig.oidcToken.serviceAccountEmail"),
        (trigger(), "serviceAccount"),
    ],
)
def test_default_account_wherever_it_is_used(pack: Pack, resource: Declared, path: str) -> None:
    report = pack.judge([resource.set(path, COMPUTE)])
    assert "iam-no-default-accounts" in report.rules
    assert not {"cloud-run-own-account", "eventarc-own-account"} & set(report.rules)


def test_known_default_account_is_named_although_another_is_not_known(pack: Pack) -> None:
    mixed = (
        function()
        .set("eventTrigger.serviceAccountEmail", NOT_YET)
        .set("serviceConfig.serviceAccountEmail", COMPUTE)
    )
    report = pack.judge([mixed])
    assert report.rules == ["iam-no-default-accounts"]
    assert report.cannot_run == {"iam-no-default-accounts"}


@pytest.mark.parametrize(
    "member",
    [
        "serviceAccount:compute@acme.iam.gserviceaccount.com",
        "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com",
        "group:ops@acme.example",
        "user:someone@developer.gserviceaccount.com.example",
    ],
)
def test_other_accounts_are_accepted(pack: Pack, member: str) -> None:
    made = with_role(schema.RUN_GRANTS[0], "roles/run.invoker", member)
    assert pack.judge([made]).rules == []
