"""Cloud Scheduler: the account that it calls with, and one job per entry of the configuration."""

import base64
from collections.abc import Mapping, Sequence

import pulumi
from pulumi_gcp import cloudscheduler

from infra import contract
from infra.account import make_account
from infra.component import Component
from infra.model import SCHEDULER, AppEngine, Job, StackConfig
from infra.service import RunService, as_json, seconds


class Scheduler(Component):
    """The jobs, and who they are to the services that they call."""

    def __init__(
        self,
        config: StackConfig,
        services: Mapping[str, RunService],
        apis: Sequence[pulumi.Resource],
    ) -> None:
        super().__init__("Scheduler", SCHEDULER, config, apis)
        account = self.account = make_account(self, SCHEDULER, "Cloud Scheduler")
        called = sorted({job.service for job in config.jobs if job.service})
        may_call = {name: services[name].invoker(SCHEDULER, account) for name in called}
        self.jobs = [
            self._job(job, [account.resource, *([may_call[job.service]] if job.service else [])])
            for job in config.jobs
        ]
        self.register_outputs({})

    def _job(self, job: Job, depends_on: Sequence[pulumi.Resource]) -> cloudscheduler.Job:
        retry = job.retry
        return cloudscheduler.Job(
            job.name,
            project=self.config.project,
            region=self.config.scheduler_region,
            name=self.config.called(job.name),
            description=f"{job.function}, once per run",
            schedule=job.schedule.expression,
            time_zone=job.schedule.zone,
            paused=job.paused,
            attempt_deadline=seconds(job.timing.attempt_deadline),
            retry_config=cloudscheduler.JobRetryConfigArgs(
                retry_count=retry.count,
                max_retry_duration=seconds(retry.max_duration),
                min_backoff_duration=seconds(retry.min_backoff),
                max_backoff_duration=seconds(retry.max_backoff),
                max_doublings=retry.max_doublings,
            ),
            http_target=self._http_target(job, job.service) if job.service else None,
            app_engine_http_target=(
                self._app_engine_target(job, job.app_engine) if job.app_engine else None
            ),
            opts=self.options(*depends_on),
        )

    def _http_target(self, job: Job, service: str) -> cloudscheduler.JobHttpTargetArgs:
        url = self.config.service_url(service)
        return cloudscheduler.JobHttpTargetArgs(
            uri=f"{url}/",
            http_method="POST",
            headers=self._headers(job),
            body=_body(job),
            oidc_token=cloudscheduler.JobHttpTargetOidcTokenArgs(
                service_account_email=self.account.email, audience=url
            ),
        )

    def _app_engine_target(
        self, job: Job, target: AppEngine
    ) -> cloudscheduler.JobAppEngineHttpTargetArgs:
        routing = cloudscheduler.JobAppEngineHttpTargetAppEngineRoutingArgs
        return cloudscheduler.JobAppEngineHttpTargetArgs(
            relative_uri=target.relative_uri,
            http_method="POST",
            headers=self._headers(job),
            body=_body(job),
            app_engine_routing=routing(service=target.service) if target.service else None,
        )

    def _headers(self, job: Job) -> Mapping[str, str]:
        return {
            **job.headers,
            **({} if job.body is None else {"Content-Type": "application/json"}),
            contract.PROJECT_HEADER: self.config.project,
            contract.REGION_HEADER: self.config.scheduler_region,
            contract.FUNCTION_HEADER: job.function,
        }


def _body(job: Job) -> str | None:
    """Return the job's body as Cloud Scheduler wants it: any JSON value, base64-encoded."""
    return None if job.body is None else base64.b64encode(as_json(job.body).encode()).decode()
