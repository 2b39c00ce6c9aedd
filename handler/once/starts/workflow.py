"""A workflow of Workflows: the token is in the execution's argument and among its labels."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from once.starts.target import LABEL_DIGITS, Call, Json, Target, text_in

TOKEN = "idempotency_token"  # noqa: S105


@dataclass(frozen=True)
class Workflow(Target):
    """Executes a workflow's latest revision.

    Parameters
    ----------
    argument
        What the workflow's main block is given, beside the token.
    """

    api: ClassVar[str] = "workflowexecutions"
    listed: ClassVar[str] = "executions"
    starting_role: ClassVar[str] = "roles/workflows.invoker"
    looking_role: ClassVar[str] = "roles/workflows.invoker"

    argument: Json

    def start(self, token: str) -> Call:
        body = {
            "argument": json.dumps({**self.argument, TOKEN: token}),
            "labels": {TOKEN: token[:LABEL_DIGITS]},
        }
        return Call(f"v1/{self.name}/executions", {}, body)

    def started(self, answer: Json) -> str | None:
        return text_in(answer, "name")

    def look(self, since: datetime) -> Call:
        """Return the request; only the FULL view has labels, so `fields` takes the rest away."""
        query: dict[str, str | int] = {
            "view": "FULL",
            "pageSize": 100,  # the most that the FULL view gives
            "filter": f'createTime>="{since:%Y-%m-%dT%H:%M:%SZ}"',
            "fields": "executions(name,createTime,labels),nextPageToken",
        }
        return Call(f"v1/{self.name}/executions", query)

    def carries(self, operation: Json, token: str) -> bool:
        return text_in(operation, "labels", TOKEN) == token[:LABEL_DIGITS]
