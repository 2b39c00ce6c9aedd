"""A preview with the policies, for people and pipelines: ``python -m tools.preview dev``.

It fails where the preview fails, where a mandatory policy is broken, and where a policy could not
be evaluated: a rule that meets an unknown value says so in an advisory line and lets everything
pass.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tools.cache import ToolError
from tools.pulumi import environment

NOT_EVALUATED = "can't run policy"
LONGEST_REPORT = 60_000
"""Characters; GitHub takes comments of 65,536."""


def preview(stack: str) -> tuple[bool, str]:
    """Preview a stack of the project in the current folder.

    Returns
    -------
    tuple of bool and str
        Whether the change may be deployed, and what Pulumi printed.
    """
    command = ["pulumi", "preview", "--stack", stack, "--diff", "--non-interactive"]
    command += ["--color", "never", "--suppress-progress"]
    command += ["--policy-pack", "policies", "--policy-pack-config", f"policies/{stack}.json"]
    run = subprocess.run(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return run.returncode == 0 and NOT_EVALUATED not in run.stdout, run.stdout


def report(stack: str, passed: bool, text: str) -> str:
    """Write a preview as a comment in Markdown."""
    if NOT_EVALUATED in text:
        verdict = "a policy could not be evaluated, so nobody knows whether it is kept"
    else:
        verdict = "may be deployed" if passed else "may not be deployed"
    if len(text) > LONGEST_REPORT:
        text = text[:LONGEST_REPORT] + "\n... (the rest stands in the log)"
    fence = "`" * 4
    return (
        f"### Preview of `{stack}`: {verdict}\n\n<details><summary>What Pulumi says</summary>\n\n"
        f"{fence}\n{text.strip()}\n{fence}\n\n</details>\n"
    )


def main() -> None:
    """Preview, print, report."""
    parser = argparse.ArgumentParser(description="A preview with the policies.")
    parser.add_argument("stack", help="dev, prod; the policies' levels are in policies/STACK.json")
    parser.add_argument("--report", type=Path, help="write a Markdown comment to this file")
    arguments = parser.parse_args()
    try:
        passed, text = preview(arguments.stack)
    except ToolError as reason:
        sys.exit(f"no Pulumi CLI: {reason}")
    print(text)
    if arguments.report:
        arguments.report.write_text(report(arguments.stack, passed, text))
    if not passed:
        why = f': "{NOT_EVALUATED}"' if NOT_EVALUATED in text else ""
        sys.exit(f"{arguments.stack} may not be deployed{why}")


if __name__ == "__main__":
    main()
