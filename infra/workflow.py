"""The workflow of the worked example, and its account."""

from collections.abc import Sequence

import pulumi
from pulumi_gcp import serviceaccount, workflows

from infra import example
from infra.component import Component
from infra.model import StackConfig
from infra.service import RunService


class ExampleWorkflow(Component):
    """A workflow that may call the guarded function, and nothing else."""

    def __init__(
        self, config: StackConfig, booking: RunService, apis: Sequence[pulumi.Resource]
    ) -> None:
        super().__init__("ExampleWorkflow", example.NAME, config, apis)
        email = config.account_email(example.WORKFLOW)
        account = serviceaccount.Account(
            example.WORKFLOW,
            project=config.project,
            account_id=config.called(example.WORKFLOW),
            display_name=f"{config.called(example.WORKFLOW)} (Workflows)",
            opts=self.options(),
        )
        may_call = booking.invoker(example.WORKFLOW, f"serviceAccount:{email}", account)
        workflows.Workflow(
            example.NAME,
            project=config.project,
            region=config.region,
            name=config.called(example.NAME),
            description="The worked example: book an order once",
            labels=config.labels or None,
            service_account=f"projects/{config.project}/serviceAccounts/{email}",
            source_contents=example.SOURCE.read_text(),
            deletion_protection=False,
            opts=self.options(account, may_call),
        )
        self.register_outputs({})
