"""Ten ways in which a fork goes wrong: each is named by one rule, whose fix works when followed.

A fork is an example stack with a few lines at the top of its program that change one resource on
its way to the engine, as an edit in `infra/` would.
"""

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine import IMAGE, Engine, Result, Stack, Violation
from tests.support.pack import CANNOT_RUN, PACK

EDITED = """
import pulumi
import pulumi_gcp as gcp

def edit(args):
    kind, props, name = args.type_.rpartition(":")[2], args.props, args.name
{edit}
    return pulumi.ResourceTransformationResult(props, args.opts)

pulumi.runtime.register_stack_transformation(edit)
"""

WORKFLOW = "projects/a-project/locations/europe-west1/workflows/report"


@dataclass(frozen=True)
class Fork:
    """One mistake, the rule that names it, and what the rule's fix says to do."""

    rule: str
    mistake: str
    """Lines that change `props` of a resource of a `kind` with a `name`."""

    follows: str
    """Words of the rule's fix that the repair follows."""

    repair: Callable[[str], str] = lambda message: ""
    """Gives the lines that replace the mistake, from what the rule said."""

    config: dict[str, Any] | None = None
    """Stack configuration of the mistake, where it is one of configuration."""

    repaired: dict[str, Any] | None = None
    """Stack configuration of the repair."""


def job(line: str) -> str:
    """Return an edit of one job."""
    return f'if kind == "Job" and name == "nightly-report":\n    {line}'


def field(line: str) -> str:
    """Return an edit of the field that runs expire by."""
    return f'if kind == "Field" and props["field"] == "expire_at":\n    {line}'


def service(line: str) -> str:
    """Return an edit of the service."""
    return f'if kind == "Service" and "template" in props:\n    {line}'


def needed_window(message: str) -> str:
    (window,) = re.findall(r'max_retry_duration="(\d+s)"', message)
    return job(f'props["retry_config"].max_retry_duration = "{window}"')


HEADERS = 'props["http_target"].headers'
INVOKER = "scheduled-once-scheduler@a-project.iam.gserviceaccount.com"
DIRECT = f'props["http_target"].uri = "https://workflowexecutions.googleapis.com/v1/{WORKFLOW}/executions"'
SUBSCRIBER = 'if kind == "SubscriptionIAMMember":\n    props["role"] = "roles/pubsub.viewer"'

FORKS = {
    "drops the header": Fork(
        "scheduler-identity-headers",
        job(f'{HEADERS} = {{"X-Scheduler-Project": "a-project"}}'),
        "Put the header into http_target.headers",
        lambda message: job(
            f'{HEADERS} = {{"X-Scheduler-Project": "a-project",'
            f' "{re.findall("header (.*) is missing", message)[0]}": "europe-west1"}}'
        ),
    ),
    "shortens the retries": Fork(
        "scheduler-retry-after-lease",
        job('props["retry_config"].max_retry_duration = "300s"'),
        "Lengthen retry_config.max_retry_duration to at least what the violation says",
        needed_window,
    ),
    "raises the timeout only": Fork(
        "cloud-run-lease",
        service('props["template"].timeout = "1500s"'),
        "`timeout` of the service in the stack configuration",
        repaired={"services": {"handler": {"timeout": "25m"}}},
    ),
    "makes the service public": Fork(
        "cloud-run-no-public-access",
        'if kind == "ServiceIamMember":\n    props["member"] = "allUsers"',
        "Grant roles/run.invoker to the one service account that calls",
        lambda message: (
            f'if kind == "ServiceIamMember":\n    props["member"] = "serviceAccount:{INVOKER}"'
        ),
    ),
    "uses the default account": Fork(
        "cloud-run-own-account",
        service('props["template"].service_account = None'),
        "Set service_account to an account that this service alone uses",
        lambda message: service(
            'props["template"].service_account ='
            ' "scheduled-once-handler@a-project.iam.gserviceaccount.com"'
        ),
    ),
    "calls Workflows directly with OIDC": Fork(
        "scheduler-token-kind",
        job(DIRECT),
        "`start:` on the job",
        repaired={
            "jobs": [
                {
                    "name": "nightly-report",
                    "schedule": "0 3 * * *",
                    "start": {"workflow": {"name": WORKFLOW}},
                }
            ]
        },
    ),
    "removes the TTL field": Fork(
        "firestore-ttl",
        field('props["ttl_config"] = None'),
        'Add a firestore.Field for the collection with field="expire_at" and ttl_config={}',
        lambda message: field('props["ttl_config"] = gcp.firestore.FieldTtlConfigArgs()'),
    ),
    "indexes the TTL field": Fork(
        "firestore-timestamps-unindexed",
        field(
            'props["index_config"] = gcp.firestore.FieldIndexConfigArgs('
            'indexes=[gcp.firestore.FieldIndexConfigIndexArgs(order="ASCENDING")])'
        ),
        "give no indexes to the timestamp fields",
        lambda message: field('props["index_config"] = None'),
    ),
    "drops a dead-letter grant": Fork(
        "pubsub-dead-letter-grants",
        SUBSCRIBER,
        "roles/pubsub.subscriber on the subscription",
        lambda message: SUBSCRIBER.replace("viewer", "subscriber"),
        config={"events": [{"name": "orders", "pubsub": {}}]},
    ),
    "puts a key into the environment": Fork(
        "cloud-run-no-plain-secrets",
        "pass",
        "`secrets` on the service",
        config={"services": {"handler": {"env": {"STRIPE_API_KEY": "rk_51"}}}},
        repaired={"services": {"handler": {"secrets": {"STRIPE_API_KEY": "stripe"}}}},
    ),
}


@pytest.mark.parametrize("fork", FORKS.values(), ids=list(FORKS))
def test_one_rule_names_the_mistake_and_its_fix_works(tmp_path: Path, fork: Fork) -> None:
    stack = Engine(tmp_path).example("dev", {"image": IMAGE, **(fork.config or {})})
    program = (stack.folder / "infra" / "__main__.py").read_text()

    write(stack, program, fork.mistake)
    wrong = preview(stack)
    (found,) = named(wrong)
    assert found.policy == fork.rule
    assert wrong.ok == (found.level == "advisory")
    assert fork.follows in found.message

    write(stack, program, fork.repair(found.message))
    stack.configure(fork.repaired or {})
    right = preview(stack)
    assert right.raise_for_status().violations == []


def write(stack: Stack, program: str, lines: str) -> None:
    text = EDITED.format(edit=textwrap.indent(lines or "pass", "    "))
    (stack.folder / "infra" / "__main__.py").write_text(text + program)


def preview(stack: Stack) -> Result:
    return stack.preview(policies=PACK, policy_config=PACK / "dev.json")


def named(result: Result) -> list[Violation]:
    assert CANNOT_RUN not in result.text
    return list({found.policy: found for found in result.violations}.values())


def test_there_are_ten() -> None:
    assert len({fork.rule for fork in FORKS.values()}) == len(FORKS) == 10
