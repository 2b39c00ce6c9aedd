"""The pipeline's preview: what passes, what stops it, and what the comment says."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.engine import IMAGE, REPOSITORY, Engine, Stack

RULE = """
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy

def rule(args, report):
    if args.resource_type == "gcp:cloudrunv2/service:Service":
        {check}

PolicyPack("pack", policies=[
    ResourceValidationPolicy("a-rule", "A rule", rule, EnforcementLevel.MANDATORY),
])
"""


@dataclass(frozen=True)
class Run:
    code: int
    output: str
    report: str


def run_preview(stack: Stack) -> Run:
    report = stack.folder / "preview.md"
    environment = {**stack.engine.environment(), "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        [sys.executable, "-m", "tools.preview", stack.name, "--report", str(report)],
        cwd=stack.folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    return Run(run.returncode, run.stdout + run.stderr, report.read_text())


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """The example stack dev beside a copy of the policy pack."""
    stack = Engine(tmp_path).example("dev", {"image": IMAGE})
    pack = stack.folder / "policies"
    ignored = shutil.ignore_patterns(".venv", "tests", "__pycache__")
    shutil.copytree(REPOSITORY / "policies", pack, ignore=ignored)
    (pack / ".venv").symlink_to(REPOSITORY / "policies" / ".venv", target_is_directory=True)
    return stack


def with_rule(stack: Stack, check: str) -> Stack:
    (stack.folder / "policies" / "__main__.py").write_text(RULE.format(check=check))
    (stack.folder / "policies" / "dev.json").write_text("{}")
    return stack


def test_example_stack_may_be_deployed(stack: Stack) -> None:
    run = run_preview(stack)

    assert run.code == 0, run.output
    assert run.report.startswith("### Preview of `dev`: may be deployed")
    assert "nightly-report" in run.report


def test_broken_policy_stops_it(stack: Stack) -> None:
    run = run_preview(with_rule(stack, 'report("no services")'))

    assert run.code != 0
    assert "may not be deployed" in run.report
    assert "no services" in run.report


def test_policy_that_cannot_be_evaluated_stops_it(stack: Stack) -> None:
    # Nobody knows the digest of an image that is not built yet.
    stack.configure({"image": None})
    run = run_preview(with_rule(stack, '"x" in args.props["template"]["containers"][0]["image"]'))

    assert run.code != 0
    assert "can't run policy" in run.output
    assert "could not be evaluated" in run.report


def test_failed_preview_is_reported(stack: Stack) -> None:
    stack.configure({"retention": "1m"})
    run = run_preview(stack)

    assert run.code != 0
    assert "retention" in run.report
