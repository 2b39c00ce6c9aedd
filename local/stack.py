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

SAMPLES = Path(__file__).parent / "samples"
"""What is published for an event: the file called like it, or else an empty object."""

_SERVICE = "gcp:cloudrunv2/service:Service"
_INVOKER = "gcp:cloudrunv2/serviceIamMember:ServiceIamMember"
_JOB = "gcp:cloudscheduler/job:Job"
_SUBSCRIPTION = "gcp:pubsub/subscription:Subscription"
_TRIGGER = "gcp:eventarc/trigger:Trigger"

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
class Push:
    """A Pub/Sub push subscription.

    Attributes
    ----------
    label
        Logical name, as in the stack's configuration.
    name, topic, dead_letter_topic
        Full names.
    service
        Logical name of the service that it pushes to.
    deadline
        How long an answer may take.
    """

    label: str
    name: str
    topic: str
    service: str
    path: str
    dead_letter_topic: str | None
    max_attempts: int
    min_backoff: timedelta
    max_backoff: timedelta
    deadline: timedelta


@dataclass(frozen=True)
class Trigger:
    """An Eventarc trigger.

    Attributes
    ----------
    label
        Logical name, as in the stack's configuration.
    attributes
        Of the CloudEvents that it takes, `type` among them.
    service
        Logical name of the service that it calls.
    deadline
        How long an answer may take.
    """

    label: str
    attributes: Mapping[str, str]
    service: str
    path: str
    deadline: timedelta


@dataclass(frozen=True)
class Stack:
    """The part of a stack that is played here.

    Attributes
    ----------
    notes
        What to know about it, one line each: the program's warnings, and what is not played.
    """

    name: str
    services: Mapping[str, Service]
    jobs: tuple[Job, ...]
    pushes: tuple[Push, ...]
    triggers: tuple[Trigger, ...]
    notes: tuple[str, ...]


def load(root: Path, name: str) -> Stack:
    """Evaluate the program of the project in the folder `root` for the stack `name`.

    A stack that starts no Google API is played with the worked example, which does; one without
    events with those that there are samples of.

    Raises
    ------
    infra.config.ConfigError
        If its configuration cannot be used.
    WiringError
        If there is no such stack, or its resources do not fit together.
    """
    if not (root / f"Pulumi.{name}.yaml").exists():
        stacks = sorted(file.name.split(".")[1] for file in root.glob("Pulumi.*.yaml"))
        raise WiringError(
            f"there is no stack {name!r}, since there is no file Pulumi.{name}.yaml; "
            f"known: {', '.join(stacks) or 'none'}"
        )
    config = read_stack(root, name)
    changes: dict[str, object] = {}
    notes = list(config.warnings)
    if not config.starts:
        changes["examples"] = True
        notes.append("no job of this stack starts a Google API, so that of examples/ is played too")
    if not config.events and (events := _sample_events(root / "handler" / "events.py")):
        changes["events"] = events
        notes.append("this stack has no events, so those of local/samples/ are played too")
    config = read_stack(root, name, changes)
    resources = evaluate(lambda: build(config), project=config.name, stack=name)
    return read(resources, name, notes)


def _sample_events(handlers: Path) -> list[dict[str, object]]:
    """Return an event for each sample whose handler is still among the user's own."""
    code = handlers.read_text() if handlers.exists() else ""
    names = [sample.stem for sample in sorted(SAMPLES.glob("*.json"))]
    return [{"name": name, "pubsub": {}} for name in names if f'subscription="{name}"' in code]


def read(resources: Sequence[Resource], name: str, notes: Sequence[str] = ()) -> Stack:
    """Read a stack off its resources.

    Parameters
    ----------
    resources
        What its program declares.
    name
        The stack's name.
    notes
        What is known already to be worth a line.

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
    calls = _Calls(services, invokers, problems)
    jobs, pushes, triggers, left_out = [], [], [], []
    for resource in resources:
        inputs = resource.inputs
        if resource.type == _JOB and inputs.get("paused"):
            left_out.append(f"job {resource.name} is paused")
        elif resource.type == _JOB and "httpTarget" not in inputs:
            left_out.append(f"job {resource.name} calls App Engine, which is not played here")
        elif resource.type == _JOB:
            target = inputs["httpTarget"]
            if service := calls.to(f"job {resource.name}", target["uri"], target.get("oidcToken")):
                jobs.append(_job(resource, target, service))
        elif resource.type == _SUBSCRIPTION and "pushConfig" in inputs:
            target = inputs["pushConfig"]
            who = f"subscription {resource.name}"
            if service := calls.to(who, target["pushEndpoint"], target.get("oidcToken")):
                pushes.append(_push(resource, service))
        elif resource.type == _TRIGGER:
            called = inputs["destination"]["cloudRunService"]
            # The trigger names the service and not its URL, which is the token's audience, too.
            url = f"https://{called['service']}-0.{called['region']}.run.app"
            token = {"serviceAccountEmail": inputs["serviceAccount"], "audience": url}
            if service := calls.to(f"trigger {resource.name}", url, token):
                triggers.append(_trigger(resource, service))
    if problems:
        raise WiringError("\n".join(problems))
    used = {job.service for job in jobs} | {push.service for push in pushes}
    used |= {trigger.service for trigger in triggers}
    return Stack(
        name,
        {service.name: service for service in services if service.name in used},
        tuple(jobs),
        tuple(pushes),
        tuple(triggers),
        (*notes, *left_out),
    )


@dataclass(frozen=True)
class _Calls:
    """Checks who calls what, as Cloud Run would."""

    services: Sequence[Service]
    invokers: set[tuple[str, str, str]]
    problems: list[str]

    def to(self, who: str, uri: str, token: Mapping[str, str] | None) -> Service | None:
        """Return the service that answers at a URL; what is wrong with the call is noted."""
        url = urlsplit(uri)
        match = _RUN_APP.fullmatch(url.netloc)
        found = (match["name"], match["region"]) if match else None
        for service in self.services:
            if (service.full_name, service.region) == found:
                base = f"{url.scheme}://{url.netloc}"
                self.problems.extend(self._refusals(who, service, base, token))
                return service
        self.problems.append(f"{who} calls {uri}, where no service answers")
        return None

    def _refusals(
        self, who: str, service: Service, url: str, token: Mapping[str, str] | None
    ) -> Iterator[str]:
        """Yield why Cloud Run would not let a call through."""
        if token is None:
            yield f"{who} sends no OIDC token: Cloud Run would answer 403"
            return
        account = token["serviceAccountEmail"]
        member = (service.full_name, service.region, f"serviceAccount:{account}")
        if member not in self.invokers:
            yield (
                f"{who} calls service {service.name} as {account}, which may not invoke it: "
                "Cloud Run would answer 403"
            )
        if token.get("audience") != url:
            yield (
                f"{who} has the OIDC audience {token.get('audience')!r}, which is not its "
                "service's URL: Cloud Run would answer 401"
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


def _push(resource: Resource, service: Service) -> Push:
    inputs = resource.inputs
    dead_letters = inputs.get("deadLetterPolicy", {})
    retry = inputs.get("retryPolicy", {})
    return Push(
        label=resource.name,
        name=f"projects/{inputs['project']}/subscriptions/{inputs['name']}",
        topic=inputs["topic"],
        service=service.name,
        path=urlsplit(inputs["pushConfig"]["pushEndpoint"]).path or "/",
        dead_letter_topic=dead_letters.get("deadLetterTopic"),
        max_attempts=int(dead_letters.get("maxDeliveryAttempts", 5)),
        min_backoff=_duration(retry.get("minimumBackoff", "0s")),
        max_backoff=_duration(retry.get("maximumBackoff", "0s")),
        deadline=timedelta(seconds=inputs["ackDeadlineSeconds"]),
    )


def _trigger(resource: Resource, service: Service) -> Trigger:
    criteria = resource.inputs["matchingCriterias"]
    return Trigger(
        label=resource.name,
        attributes={each["attribute"]: each["value"] for each in criteria},
        service=service.name,
        path=resource.inputs["destination"]["cloudRunService"].get("path", "/"),
        deadline=service.timeout,
    )


def _duration(text: str) -> timedelta:
    """Read a duration as the APIs write it, for example `300s`."""
    return timedelta(seconds=float(text.removesuffix("s")))
