"""The whole stack: which components there are, what they wait for, and what the user sees."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from urllib.parse import urlencode

import pulumi

from infra import contract, example, starts, values
from infra.alerts import Alerts
from infra.apis import Apis
from infra.config import ConfigError
from infra.database import Database
from infra.events import EventSources, handler_setting
from infra.image import Image
from infra.model import PROXY, SCHEDULER, Job, PubSubSource, StackConfig
from infra.reading import Problems, written
from infra.scheduler import Scheduler
from infra.service import RunService, as_json
from infra.workflow import ExampleWorkflow

CONSOLE = "https://console.cloud.google.com"


def build(config: StackConfig) -> None:
    """Declare every resource of the stack and export its outputs.

    Parameters
    ----------
    config
        A checked configuration. Nothing else is read, so the same call works inside the engine and
        under `pulumi.runtime.set_mocks`.

    Raises
    ------
    ConfigError
        Before the first resource, where all jobs or events together do not fit in a variable.
    """
    told = {name: _told(config, name) for name in config.services}
    _check_sizes(told)
    apis = Apis(config).services
    database = Database(config, apis)
    before = [*apis, *database.ready]
    image = config.image or Image(config, apis).digest
    services = {
        name: RunService(
            config,
            settings,
            image,
            told[name],
            before,
            may_start=config.starts.values() if name == PROXY else (),
        )
        for name, settings in config.services.items()
    }
    if config.examples:
        ExampleWorkflow(config, services[example.BOOKING], apis)
    Scheduler(config, services, apis)
    if config.events:
        EventSources(config, services, apis)
    if config.alert_channels is not None:
        Alerts(config, config.alert_channels, apis)
    for name, value in _outputs(config, services).items():
        pulumi.export(name, value)


def _told(config: StackConfig, service: str) -> Mapping[str, str]:
    """Return the variables of a service that say what it starts, or which events it takes."""
    if service == PROXY:
        return {contract.STARTS: as_json(starts.as_setting(config.starts))}
    events = handler_setting(config, service)
    if not events:
        return {}
    lease = config.services[service].timing.lease
    return {
        contract.EVENTS: as_json(events),
        contract.EVENT_LEASE_SECONDS: str(int(lease.total_seconds())),
    }


def _check_sizes(told: Mapping[str, Mapping[str, str]]) -> None:
    problems = Problems()
    for service, variables in told.items():
        key, more = ("jobs", "stacks") if service == PROXY else ("events", "services")
        for variable, value in variables.items():
            try:
                values.variable_value(value)
            except ValueError as error:
                problems.add(
                    key,
                    f"as {variable} what the service {service} is told {error}, Cloud Run's limit: "
                    f"spread the {key} over more {more}",
                )
    if problems.found:
        raise ConfigError(problems.found)


def show(config: StackConfig) -> None:
    """Print what follows from the configuration: the summary, and each warning."""
    pulumi.log.info(summary(config))
    for warning in config.warnings:
        pulumi.log.warn(warning)


def summary(config: StackConfig) -> str:
    """Write the derived durations of each service, and each job with its next run."""
    lines = [
        f"{config.name} in {config.project}, {config.region}: retention {written(config.retention)}"
    ]
    for name, service in config.services.items():
        timing = service.timing
        lines.append(
            f"  {name}: timeout and attempt deadline {written(timing.timeout)}, "
            f"lease {written(timing.lease)}, retries for {written(timing.window)}, "
            f"{service.concurrency} threads"
        )
    for job in config.jobs:
        state = "paused" if job.paused else f"next {_next_runs(job)[0]}"
        lines.append(
            f"    {job.name}: {job.schedule.expression} {job.schedule.zone}, {state}, "
            f"on {job.service or 'App Engine'}"
        )
    return "\n".join(lines)


def _outputs(
    config: StackConfig, services: Mapping[str, RunService]
) -> Mapping[str, pulumi.Input[object]]:
    return {
        "services": {
            name: {
                "url": config.service_url(name),
                "urls": service.urls,
                "account": service.account.email,
            }
            for name, service in services.items()
        },
        "schedulerAccount": config.account_email(SCHEDULER),
        "database": f"projects/{config.project}/databases/{config.database.name}",
        "jobs": {job.name: _job_outputs(config, job) for job in config.jobs},
        **({"events": _event_outputs(config)} if config.events else {}),
    }


def _event_outputs(config: StackConfig) -> Mapping[str, object]:
    """Say where to publish to, and where to look for what was given up."""
    return {
        event.name: {"topic": config.topic(event), "deadLetters": config.dead_letter_topic(event)}
        for event in config.events
        if isinstance(event.source, PubSubSource)
    }


def _job_outputs(config: StackConfig, job: Job) -> Mapping[str, object]:
    name = config.called(job.name)
    return {
        "nextRuns": _next_runs(job),
        "console": f"{CONSOLE}/cloudscheduler/jobs/edit/{config.scheduler_region}/{name}?"
        + urlencode({"project": config.project}),
        "logs": f'labels.{contract.JOB_LABEL}="{name}"',
    }


def _next_runs(job: Job) -> list[str]:
    return [time.isoformat() for time in islice(job.schedule.after(datetime.now(UTC)), 3)]
