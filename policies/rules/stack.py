"""What belongs together in a stack: services and who calls them, topics and who may use them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from pulumi_policy.proxy import UnknownValueError

from . import protocol, schema
from .reading import UNKNOWN, Node, Resource, Stack, duration, seconds

_RUN_HOST = re.compile(r"(?P<name>[a-z0-9-]+)-\d+\.(?P<region>[a-z0-9-]+)\.run\.app")

_TEN_YEARS_SECONDS = 10 * 366 * 24 * 60 * 60


def variables(resource: Resource) -> Iterator[tuple[str, Node]]:
    """Give the environment variables of all containers: name, and what holds the value."""
    for container in resource.nodes(schema.CONTAINERS[resource.type]):
        for variable in container.nodes("envs"):
            yield variable.get("name", ""), variable


def variable(resource: Resource, name: str) -> Any:
    """Give the plain value of one environment variable, or None."""
    for found, holder in variables(resource):
        if found == name:
            return holder.get("value")
    return None


def length(text: object) -> timedelta:
    """Read a number of seconds, which in an environment variable is a text; zero where it is none.

    More than ten years is a slip of the pen, and none either.
    """
    try:
        seconds = float(str(text))
    except ValueError:
        return timedelta(0)
    return timedelta(seconds=seconds) if 0 < seconds < _TEN_YEARS_SECONDS else timedelta(0)


def request_timeout(service: Resource) -> timedelta:
    """Give a service's request timeout, Cloud Run's default where it sets none."""
    if service.type == schema.RUN_SERVICE_V1:
        given = service.get("template.spec.timeoutSeconds")
        return (
            protocol.DEFAULT_REQUEST_TIMEOUT if given is None else timedelta(seconds=float(given))
        )
    return duration(service.get("template.timeout", "")) or protocol.DEFAULT_REQUEST_TIMEOUT


def leases(service: Resource) -> dict[str, timedelta]:
    """Give the leases that a service declares in its environment, by the variable's name."""
    found: dict[str, timedelta] = {}
    for name in (protocol.LEASE_VARIABLE, protocol.EVENT_LEASE_VARIABLE):
        if (value := variable(service, name)) is not None:
            found[name] = length(value)
    return found


def covers_its_timeout(service: Resource) -> bool:
    """Tell whether no lease of the service is below its timeout.

    `cloud-run-lease` names the service where one is. The rules that compare others with that
    timeout leave it out, so that one mistake is one violation.
    """
    timeout = request_timeout(service)
    return all(lease >= timeout for lease in leases(service).values())


def hangs_up_first(
    caller: Resource, service: Resource | None, wait: Callable[[], timedelta], called: str
) -> Iterator[tuple[Resource, str]]:
    """Complain about a caller that waits less long than the service may work.

    Parameters
    ----------
    caller : Resource
        The job or the subscription.
    service : Resource or None
        What it calls, if that belongs to the stack.
    wait : callable
        Gives how long the caller waits; asked only where it matters.
    called : str
        What the caller's API calls that.
    """
    if service is None or not covers_its_timeout(service):
        return
    timeout, deadline = request_timeout(service), wait()
    if deadline < timeout:
        yield (
            caller,
            f"{called} {seconds(deadline)} is below the timeout {seconds(timeout)} of"
            f" {service.name}.",
        )


def services(stack: Stack) -> list[Resource]:
    """Give the Cloud Run services of the stack."""
    return stack.of_type(schema.RUN_SERVICE, schema.RUN_SERVICE_V1)


def job_service(stack: Stack, job: Resource) -> Resource | None:
    """Find the service of this stack that a job calls, as `called_service` does."""
    if not job.has("httpTarget"):
        return None
    return called_service(stack, job, "httpTarget", "httpTarget.uri")


def runs_no_handler(stack: Stack, job: Resource) -> bool:
    """Tell whether a job calls a service or function of this stack that declares no handler.

    Raises
    ------
    UnknownValueError
        The target, or its environment, is not known yet.
    """
    types = (schema.RUN_SERVICE, schema.RUN_SERVICE_V1, *schema.ENVIRONMENT_MAPS)
    targets = job.sources("httpTarget", types)
    if not targets and job.peek("httpTarget.uri") is not UNKNOWN:
        service = job_service(stack, job)
        targets = [service] if service else []
    return bool(targets) and not any(_declares_handler(target) for target in targets)


def _declares_handler(target: Resource) -> bool:
    names: Iterable[str]
    if target.type in schema.ENVIRONMENT_MAPS:
        names = target.map(schema.ENVIRONMENT_MAPS[target.type][0])
    else:
        names = (name for name, _ in variables(target))
    return any(name in (protocol.STORE_VARIABLE, protocol.LEASE_VARIABLE) for name in names)


def job_deadline(job: Resource) -> timedelta:
    """Give a job's attempt deadline, Cloud Scheduler's default where it sets none."""
    return duration(job.get("attemptDeadline", "")) or protocol.DEFAULT_ATTEMPT_DEADLINE


def job_retries(job: Resource) -> protocol.Retries:
    """Read a job's retry settings, Cloud Scheduler's defaults where it sets none."""
    default = protocol.Retries()

    def given(name: str, otherwise: timedelta) -> timedelta:
        return duration(job.get(f"retryConfig.{name}", "")) or otherwise

    return protocol.Retries(
        count=int(job.get("retryConfig.retryCount", default.count)),
        duration=given("maxRetryDuration", default.duration),
        min_backoff=given("minBackoffDuration", default.min_backoff),
        max_backoff=given("maxBackoffDuration", default.max_backoff),
        doublings=int(job.get("retryConfig.maxDoublings", default.doublings)),
    )


def called_service(stack: Stack, caller: Resource, property: str, url_path: str) -> Resource | None:
    """Find the service of this stack that a job or a subscription calls.

    Parameters
    ----------
    stack : Stack
        Where to look.
    caller : Resource
        The job or the subscription.
    property : str
        Its property that holds the target.
    url_path : str
        Where in it the URL stands.

    Returns
    -------
    Resource or None
        The service; None if the URL leads out of the stack.

    Raises
    ------
    UnknownValueError
        The URL is not known yet, and was not made from exactly one service of the stack.
    """
    try:
        url = caller.get(url_path, "")
    except UnknownValueError:
        sources = caller.sources(property, (schema.RUN_SERVICE, schema.RUN_SERVICE_V1))
        if len(sources) == 1:
            return sources[0]
        raise
    host = urlsplit(url).hostname or ""
    by_name = _RUN_HOST.fullmatch(host)
    for service in services(stack):
        if by_name and (service.get("name"), service.get("location")) == (
            by_name["name"],
            by_name["region"],
        ):
            return service
        uri = service.peek("uri") if service.type == schema.RUN_SERVICE else None
        if isinstance(uri, str) and urlsplit(uri).hostname == host:
            return service
    return None


def own_name(resource: Resource) -> str:
    """Give a resource's name on Google Cloud."""
    return str(resource.get("name", resource.name))


def names_at(resource: Resource, path: str, type: str) -> set[str]:
    """Give the short names of the resources that a property refers to.

    Where the value is not known yet, the resources that it was made from tell: their names are
    known.

    Raises
    ------
    UnknownValueError
        Neither tells.
    """
    try:
        value = resource.get(path)
        return {value.rsplit("/", 1)[-1]} if value else set()
    except UnknownValueError:
        sources = resource.sources(path.split(".")[0], (type,))
        if not sources:
            raise
        return {own_name(source) for source in sources}
