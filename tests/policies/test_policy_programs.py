"""Small programs through the real engine: each is stopped by exactly the rules that it breaks.

Each resource of a program is named for the rule that it breaks; the others break none.
"""

from pathlib import Path

import pytest

from tests.support.engine import Engine, Result, Violation
from tests.support.pack import CANNOT_RUN, PACK, rules

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
CONFIG = {
    "general-regions": {"allowed": ["europe-*"]},
    "general-labels": {"required": {"team": "billing"}},
}
REPAIRED = "general-labels"


@pytest.mark.parametrize("program", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_preview_is_stopped_by_exactly_the_rules_that_are_broken(
    tmp_path: Path, program: Path
) -> None:
    stack = Engine(tmp_path).program(program.read_text(), name=program.stem)
    result = stack.preview(policies=PACK, policy_config=CONFIG)
    assert not result.ok
    expected = {id: id for id in rules() if f'"{id}"' in program.read_text()}
    assert expected
    assert {found.resource: found.policy for found in broken(result)} == expected
    assert len(broken(result)) == len(expected)
    assert CANNOT_RUN not in result.text


def test_every_rule_is_broken_by_a_program() -> None:
    text = "".join(program.read_text() for program in PROGRAMS)
    assert [id for id in rules() if f'"{id}"' not in text] == [REPAIRED]


def test_missing_label_is_added(tmp_path: Path) -> None:
    source = """
        import pulumi_gcp as gcp
        gcp.pubsub.Topic("orders", name="orders", labels={"env": "test"})
    """
    stack = Engine(tmp_path).program(source)
    result = stack.up(policies=PACK, policy_config=CONFIG).raise_for_status()
    assert [one["policyName"] for one in result.remediations] == [REPAIRED]
    assert result.one("topic:Topic").inputs["labels"] == {"env": "test", "team": "billing"}
    assert not broken(result)
    assert stack.preview(policies=PACK, policy_config=CONFIG).changed == []


def test_stack_without_a_handler_is_not_stopped(tmp_path: Path) -> None:
    source = """
        import pulumi_gcp as gcp

        def service(name, ingress):
            container = gcp.cloudrunv2.ServiceTemplateContainerArgs(
                image="europe-docker.pkg.dev/a-project/images/any@sha256:" + "0" * 64
            )
            template = gcp.cloudrunv2.ServiceTemplateArgs(
                service_account="any@a-project.iam.gserviceaccount.com", containers=[container]
            )
            return gcp.cloudrunv2.Service(
                name, name=name, location="europe-west1", ingress=ingress, template=template
            )

        def job(name, **target):
            http_target = gcp.cloudscheduler.JobHttpTargetArgs(**target)
            gcp.cloudscheduler.Job(
                name, schedule="0 2 * * *", attempt_deadline="300s", http_target=http_target
            )

        shop = service("shop", "INGRESS_TRAFFIC_INTERNAL_ONLY")
        website = service("website", "INGRESS_TRAFFIC_ALL")
        gcp.cloudrunv2.ServiceIamMember(
            "everybody", name=website.name, location="europe-west1",
            role="roles/run.invoker", member="allUsers",
        )
        token = gcp.cloudscheduler.JobHttpTargetOidcTokenArgs(
            service_account_email="caller@a-project.iam.gserviceaccount.com", audience=shop.uri
        )
        job("own", uri=shop.uri, oidc_token=token)
        job("stranger", uri="https://hooks.example.com/nightly")
        gcp.pubsub.Subscription("pull", topic="projects/a-project/topics/orders")
        gcp.storage.Bucket("files", location="EU")
    """
    stack = Engine(tmp_path).program(source)
    website = {"allow": {"website": "the pages are for everybody"}}
    result = stack.preview(
        policies=PACK,
        policy_config={"cloud-run-no-public-access": website, "cloud-run-ingress": website},
    )
    assert result.raise_for_status().ok
    assert {found.resource: found.policy for found in broken(result)} == {
        "pull": "pubsub-pull-never-expires",
        "files": "general-bucket-public-access",
    }


def broken(result: Result) -> list[Violation]:
    return [found for found in result.violations if CANNOT_RUN not in found.message]
