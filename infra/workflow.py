"""The workflow of the worked example, and its account."""

from collections.abc import Sequence

import pulumi
from pulumi_gcp import workflows

from infra import example
from infra.account import make_account
from infra.component import Component
from infra.model import StackConfig
from infra.service import RunService


class ExampleWorkflow(Component):
    """A workflow that may call the guarded function, and nothing else."""

    def __init__(
        self, config: StackConfig, booking: RunService, apis: Sequence[pulumi.Resource]
    ) -> None:
        super().__init__("ExampleWorkflow", example.NAME, config, apis)
        account = make_account(self, example.WORKFLOW, "Workflows")
        may_call = booking.invoker(example.WORKFLOW, account)
        workflows.Workflow(
            example.NAME,
            project=config.project,
            region=config.region,
            name=config.called(example.NAME),
            description="The worked example: book an order once",
            labels=config.labels or None,
            service_account=account.full_name,
            source_contents=example.SOURCE.read_text(),
            deletion_protection=False,
            opts=self.options(account.resource, may_call),
        )
        self.register_outputs({})
