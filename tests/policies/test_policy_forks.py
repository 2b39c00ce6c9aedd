"""Ten ways in which a fork goes wrong: each is named by one rule, whose fix works when followed.

A fork is an example stack with a few lines at the top of its program that change one resource on
its way to the engine, as an edit in `infra/` would.
"""

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.engine import IMAGE, REPOSITORY, Engine, Result, Stack, Violation
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

    repair: Callable[[str], str] = lambda message: "pass"
    """Gives the lines that replace the mistake, from what the rule said."""

    config: dict[str, Any] = field(default_factory=dict)
    """Stack configuration of the mistake, where it is one of configuration."""

    repaired: dict[str, Any] = field(default_factory=dict)
    """Stack configuration of the repair."""


def job(line: str) -> str:
    """Return an edit of one job."""
    return f'if kind == "Job" and name == "nightly-report":\n    {line}'


def ttl_field(line: str) -> str:
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
        service('props["template"].timeout = "600s"'),
        "`timeout` of the service in the stack configuration",
        repaired={"services": {"handler": {"timeout": "10m"}}},
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
        ttl_field('props["ttl_config"] = None'),
        'Add a firestore.Field for the collection with field="expire_at" and ttl_config={}',
        lambda message: ttl_field('props["ttl_config"] = gcp.firestore.FieldTtlConfigArgs()'),
    ),
    "indexes the TTL field": Fork(
        "firestore-timestamps-unindexed",
        ttl_field(
            'props["index_config"] = gcp.firestore.FieldIndexConfigArgs('
            'indexes=[gcp.firestore.FieldIndexConfigIndexArgs(order="ASCENDING")])'
        ),
        "give no indexes to the timestamp fields",
        lambda message: ttl_field('props["index_config"] = None'),
    ),
    "drops a dead-letter grant": Fork(
        "pubsub-dead-letter-grants",
        SUBSCRIBER,
        "roles/pubsub.subscriber on the subscription",
        lambda message: SUBSCRIBER.replace("viewer", "subscriber"),
    ),
    "puts a key into the environment": Fork(
        "cloud-run-no-plain-secrets",
        "pass",
        "`secrets` on the service",
        config={"services": {"handler": {"env": {"STRIPE_API_KEY": "rk_51"}}}},
        repaired={"services": {"handler": {"secrets": {"STRIPE_API_KEY": "stripe"}}}},
    ),
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Return the example stack with events, whose program the tests edit."""
    config = {"image": IMAGE, "events": [{"name": "orders", "pubsub": {}}]}
    return Engine(tmp_path_factory.mktemp("fork")).example("dev", config)


@pytest.fixture(scope="module")
def said(stack: Stack) -> dict[str, Violation]:
    """Return what is said of each fork, by one rule alone."""
    return {name: the_violation(stack, fork) for name, fork in FORKS.items()}


def the_violation(stack: Stack, fork: Fork) -> Violation:
    settings = stack.settings
    write(stack, fork.mistake)
    stack.configure(fork.config)
    result = preview(stack)
    stack.configure({name: settings.get(name) for name in fork.config})
    assert len({found.policy for found in result.violations}) == 1
    assert result.ok == (result.violations[0].level == "advisory")
    return result.violations[0]


def test_there_are_ten() -> None:
    assert len({fork.rule for fork in FORKS.values()}) == len(FORKS) == 10


@pytest.mark.parametrize("name", FORKS)
def test_one_rule_names_the_mistake(said: dict[str, Violation], name: str) -> None:
    assert said[name].policy == FORKS[name].rule
    assert FORKS[name].follows in said[name].message


@pytest.mark.parametrize("in_configuration", [False, True], ids=["in infra", "in the stack"])
def test_fixes_work_when_followed(
    stack: Stack, said: dict[str, Violation], in_configuration: bool
) -> None:
    """All fixes of a kind at once: a fix that does not work would leave its violation."""
    followed = {
        name: fork for name, fork in FORKS.items() if bool(fork.repaired) is in_configuration
    }
    write(stack, "\n".join(fork.repair(said[name].message) for name, fork in followed.items()))
    stack.configure(merged(fork.repaired for fork in followed.values()))
    assert preview(stack).raise_for_status().violations == []


def merged(settings: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Join configurations, one level deep: two forks may both set something of one service."""
    services: dict[str, dict[str, Any]] = {}
    result: dict[str, Any] = {}
    for one in settings:
        result |= one
        for name, service in one.get("services", {}).items():
            services[name] = {**services.get(name, {}), **service}
    return {**result, "services": services} if services else result


def write(stack: Stack, lines: str) -> None:
    """Put an edit at the top of the stack's program."""
    program = (REPOSITORY / "infra" / "__main__.py").read_text()
    text = EDITED.format(edit=textwrap.indent(lines, "    "))
    (stack.folder / "infra" / "__main__.py").write_text(text + program)


def preview(stack: Stack) -> Result:
    result = stack.preview(policies=PACK, policy_config=PACK / "dev.json")
    assert CANNOT_RUN not in result.text
    return result
