"""What a stack deploys, read off the resources of its program, as far as it can be played here."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infra import contract
from infra.cron import Schedule
from infra.program import build
from infra.stackfile import read_stack
from infra.timing import Retry
from local.evaluate import Resource, evaluate

_SERVICE = "gcp:cloudrunv2/service:Service"
_INVOKER = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
_JOB = "gcp:cloudscheduler/job:Job"

# https://NAME-PROJECTNUMBER.REGION.run.app, the deterministic URL of a Cloud Run service.
_RUN_APP = re.compile(r"(?P<name>[a-z0-9-]+)-\d+\.(?P<region>[a-z0-9-]+)\.run\.app")


class WiringError(Exception):
    """The resources do not fit together: deployed, calls would fail. One line for each."""


@dataclass(frozen=True)
class Service:
    """One Cloud Run service.

    Attributes
    ----------
    name
        Logical name, as in the stack's configuration.
    full_name
        Cloud Run's name.
    timeout, lease
        The request timeout, and how long a claim holds.
    env
        The handler's environment.
    secrets
        Variables whose values only Secret Manager has.
    starts
        What it starts: from a function's name to the full name of a workflow, job or trigger.
    """

    name: str
    full_name: str
    region: str
    timeout: timedelta
    lease: timedelta
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    starts: Mapping[str, str]


@dataclass(frozen=True)
class Job:
    """One Cloud Scheduler job, as the API would hold it.

    Attributes
    ----------
    label
        Logical name, as in the stack's configuration.
    name
        Cloud Scheduler's name.
    service
        Logical name of the service that it calls.
    starts
        Full name of what that service starts for it, if it does.
    """

    label: str
    name: str
    schedule: Schedule
    service: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    attempt_deadline: timedelta
    retry: Retry
    starts: str | None


@dataclass(frozen=True)
class Stack:
    """The part of a stack that is played here.

    Attributes
    ----------
    warnings
        What the program itself warns of.
    left_out
        One line for each job that is not played, with the reason.
    """

    name: str
    services: Mapping[str, Service]
    jobs: tuple[Job, ...]
    warnings: tuple[str, ...]
    left_out: tuple[str, ...]


def load(root: Path, name: str) -> Stack:
    """Evaluate the program of the project in the folder `root` for the stack `name`.

    Raises
    ------
    FileNotFoundError
        If the stack has no file.
    infra.config.ConfigError
        If its configuration cannot be used.
    WiringError
        If its resources do not fit together.
    """
    config = read_stack(root, name)
    resources = evaluate(lambda: build(config), project=config.name, stack=name)
    return read(resources, name, config.warnings)


def read(resources: Sequence[Resource], name: str, warnings: tuple[str, ...] = ()) -> Stack:
    """Read a stack off its resources.

    Raises
    ------
    WiringError
        If they do not fit together.
    """
    problems: list[str] = []
    services = [_service(each, problems) for each in resources if each.type == _SERVICE]
    invokers = {
        (each.inputs["name"], each.inputs["location"], each.inputs["member"])
        for each in resources
        if each.type == _INVOKER and each.inputs["role"] == "roles/run.invoker"
    }
    jobs, left_out = [], []
    for resource in resources:
        if resource.type != _JOB:
            continue
        target = resource.inputs.get("httpTarget")
        if resource.inputs.get("paused"):
            left_out.append(f"{resource.name} is paused")
        elif target is None:
            left_out.append(f"{resource.name} calls App Engine, which is not played here")
        elif service := _called(resource, target, services, problems):
            problems += _refusals(resource, target, service, invokers)
            jobs.append(_job(resource, target, service))
    if problems:
        raise WiringError("\n".join(problems))
    called = {job.service for job in jobs}
    return Stack(
        name,
        {service.name: service for service in services if service.name in called},
        tuple(jobs),
        warnings,
        tuple(left_out),
    )


def _service(resource: Resource, problems: list[str]) -> Service:
    template = resource.inputs["template"]
    (container,) = template["containers"]
    variables = container.get("envs", [])
    env = {each["name"]: each["value"] for each in variables if "value" in each}
    lease = env.get(contract.LEASE_SECONDS, "")
    if not lease.isdigit():
        problems.append(f"service {resource.name} has no {contract.LEASE_SECONDS}: {lease!r}")
        lease = "0"
    return Service(
        name=resource.name,
        full_name=resource.inputs["name"],
        region=resource.inputs["location"],
        timeout=_duration(template["timeout"]),
        lease=timedelta(seconds=int(lease)),
        env=env,
        secrets=tuple(each["name"] for each in variables if "value" not in each),
        starts=_starts(env.get(contract.STARTS, "{}")),
    )


def _starts(setting: str) -> dict[str, str]:
    """Return the targets of the setting, whose entries are of the form {KIND: {"name": ...}}."""
    starts = json.loads(setting)
    return {name: target["name"] for name, entry in starts.items() for target in entry.values()}


def _called(
    resource: Resource,
    target: Mapping[str, Any],
    services: Sequence[Service],
    problems: list[str],
) -> Service | None:
    match = _RUN_APP.fullmatch(urlsplit(target["uri"]).netloc)
    for service in services:
        if match and (match["name"], match["region"]) == (service.full_name, service.region):
            return service
    problems.append(f"job {resource.name} calls {target['uri']}, where no service answers")
    return None


def _refusals(
    resource: Resource,
    target: Mapping[str, Any],
    service: Service,
    invokers: set[tuple[str, str, str]],
) -> Iterator[str]:
    """Yield why Cloud Run would not let a job's call through."""
    token = target.get("oidcToken")
    if token is None:
        yield f"job {resource.name} sends no OIDC token: Cloud Run would answer 403"
        return
    account = token["serviceAccountEmail"]
    if (service.full_name, service.region, f"serviceAccount:{account}") not in invokers:
        yield (
            f"job {resource.name} calls service {service.name} as {account}, "
            "which may not invoke it: Cloud Run would answer 403"
        )
    url = urlsplit(target["uri"])
    if token.get("audience") != f"{url.scheme}://{url.netloc}":
        yield (
            f"job {resource.name} has the OIDC audience {token.get('audience')!r}, "
            f"which is not its service's URL: Cloud Run would answer 401"
        )


def _job(resource: Resource, target: Mapping[str, Any], service: Service) -> Job:
    retry = resource.inputs["retryConfig"]
    headers = target.get("headers", {})
    return Job(
        label=resource.name,
        name=resource.inputs["name"],
        schedule=Schedule(resource.inputs["schedule"], resource.inputs["timeZone"]),
        service=service.name,
        path=urlsplit(target["uri"]).path or "/",
        headers=headers,
        body=base64.b64decode(target.get("body", "")),
        attempt_deadline=_duration(resource.inputs["attemptDeadline"]),
        retry=Retry(
            max_duration=_duration(retry["maxRetryDuration"]),
            count=int(retry["retryCount"]),
            min_backoff=_duration(retry["minBackoffDuration"]),
            max_backoff=_duration(retry["maxBackoffDuration"]),
            max_doublings=int(retry["maxDoublings"]),
        ),
        starts=service.starts.get(headers.get(contract.FUNCTION_HEADER, "")),
    )


def _duration(text: str) -> timedelta:
    """Read a duration as the APIs write it, for example `300s`."""
    return timedelta(seconds=float(text.removesuffix("s")))
