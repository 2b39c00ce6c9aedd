"""The key `services`, and which of them a job or an event means."""

from collections.abc import Mapping
from difflib import get_close_matches

from infra import values
from infra.model import (
    DEFAULT_TIMING,
    EVENTARC,
    EVENTS,
    PROXY,
    SCHEDULER,
    Grant,
    Secret,
    Service,
    Vpc,
)
from infra.reading import (
    Problems,
    Section,
    listed,
    one_of,
    text,
    whole,
)
from infra.timing import Timing

DEFAULT_SERVICE = "handler"
RESERVED_SERVICES = (PROXY, SCHEDULER, EVENTS, EVENTARC)

GRANT_KINDS = {
    "bucket": values.bucket,
    "topic": values.topic,
    "queue": values.queue,
    "dataset": values.dataset,
}
"""The resources on which `services.NAME.roles` can name a role."""

_ACCOUNT_ID = range(6, 31)


class ServiceReader:
    """Reads the services of a stack.

    Parameters
    ----------
    problems
        Where to note what is wrong.
    prefix, project, number
        The stack's name, its project and that one's number, which names are made of.
    """

    def __init__(self, problems: Problems, prefix: str, project: str, number: str) -> None:
        self.problems = problems
        self.prefix = prefix
        self.project = project
        self.number = number

    def read(self, top: Section) -> Mapping[str, Service]:
        """Read `services`; without it there is one, with every default."""
        services = {}
        for key, section in top.named("services", "write NAME: {timeout: 5m}"):
            services[key] = self._service(key, section)
        services = services or {DEFAULT_SERVICE: Service(DEFAULT_SERVICE)}
        for key in services:
            path = f"services.{key}"
            if key in RESERVED_SERVICES:
                self.problems.add(path, "is a name that the program needs itself; choose another")
            self.problems.check(path, key, values.service_name)
            self.check_lengths(path, key)
        return services

    def check_lengths(self, path: str, name: str) -> None:
        """Check that an account can be called like the stack and `name`.

        A service and its host then can, too: 30 characters, a dash and the 19 digits that the
        number of a project may have stay below Cloud Run's 49 and the host's 63.
        """
        full = f"{self.prefix}-{name}"
        if len(full) not in _ACCOUNT_ID:
            self.problems.add(
                path,
                f"makes the service account id {full}, of {len(full)} characters; "
                f"6 to 30 are allowed, so choose a {'shorter' if len(full) > 6 else 'longer'} "
                "name for the stack or the service",
            )

    def _service(self, key: str, section: Section) -> Service:
        default = Service(key)
        env = section.entries("env", values.variable, values.variable_value)
        service = Service(
            name=key,
            timing=Timing(section.get("timeout", values.timeout, DEFAULT_TIMING.timeout)),
            cpu=section.get("cpu", values.cpu, default.cpu),
            memory=section.get("memory", values.memory, default.memory),
            concurrency=section.get("concurrency", whole(1, 1000), default.concurrency),
            min_instances=section.get("minInstances", whole(0, 1000), default.min_instances),
            max_instances=section.get("maxInstances", whole(1, 1000), default.max_instances),
            ingress=section.get(
                "ingress", one_of("internal", "load-balancer", "all"), default.ingress
            ),
            env=env,
            secrets=self._service_secrets(section, env),
            roles=self._roles(section),
            vpc=self._vpc(section),
        )
        if service.min_instances > service.max_instances:
            self.problems.add(
                section.at("minInstances"),
                f"is more than maxInstances, which is {service.max_instances}",
                service.min_instances,
            )
        if float(service.cpu) < 1 and service.concurrency > 1:
            self.problems.add(
                section.at("concurrency"),
                "is more than a share of one CPU may serve: cpu of at least 1, or concurrency 1",
                service.concurrency,
            )
        least, most = values.memory_range(service.cpu)
        amount = values.mebibytes(service.memory)
        if not values.mebibytes(least) <= amount <= values.mebibytes(most):
            self.problems.add(
                section.at("memory"),
                f"is not what Cloud Run takes with cpu {service.cpu}: {least} to {most}",
                service.memory,
            )
        section.finish()
        return service

    def _service_secrets(self, section: Section, env: Mapping[str, str]) -> Mapping[str, Secret]:
        secrets = {}
        for variable, value in section.entries("secrets", values.variable, values.secret).items():
            if variable in env:
                self.problems.add(
                    f"{section.at('secrets')}.{variable}",
                    "is set under env too; remove one of them",
                )
            name, _, version = value.partition(":")
            secrets[variable] = Secret(self._short(name, "secrets"), version or "latest")
        return secrets

    def _short(self, name: str, collection: str) -> str:
        """Return the id of what is in the stack's project, and the full name of anything else."""
        for own in (self.project, self.number):
            name = name.removeprefix(f"projects/{own}/{collection}/")
        return name

    def _roles(self, section: Section) -> tuple[Grant, ...]:
        given: list[Grant] = []
        for entry in section.each("roles", "write {role: roles/storage.objectUser, bucket: B}"):
            role = entry.need("role", values.role, "", "for example roles/storage.objectUser")
            named = [(kind, entry.get(kind, check, "")) for kind, check in GRANT_KINDS.items()]
            found = [(kind, resource) for kind, resource in named if resource]
            entry.finish()
            if len(entry.given(GRANT_KINDS)) != 1:
                self.problems.add(
                    entry.path, f"names no single resource: give one of {listed(GRANT_KINDS)}"
                )
                continue
            for kind, resource in found:
                grant = Grant(role, kind, self._short(resource, "topics"))
                if grant in given:
                    self.problems.add(entry.path, "is given twice; remove one of them")
                given.append(grant)
        return tuple(given)

    def _vpc(self, section: Section) -> Vpc | None:
        vpc = section.section("vpc")
        if vpc is None:
            return None
        found = Vpc(
            network=vpc.need("network", text, "", "the name of a VPC network"),
            subnetwork=vpc.get("subnetwork", text, None),
            tags=vpc.strings("tags"),
            all_traffic=vpc.get("egress", one_of("private", "all"), "private") == "all",
        )
        vpc.finish()
        return found


def chosen_service(section: Section, services: Mapping[str, Service]) -> str:
    """Return the service that a job or an event names, or the one that it need not name."""
    wanted = section.get("service", text, None)
    if wanted is None:
        if len(services) > 1 and DEFAULT_SERVICE not in services:
            section.problems.add(section.at("service"), f"is missing: one of {listed(services)}")
        return DEFAULT_SERVICE if DEFAULT_SERVICE in services else next(iter(services))
    if wanted not in services:
        near = get_close_matches(wanted, services, 1)
        hint = f"did you mean {near[0]}?" if near else f"there is {listed(services)}"
        section.problems.add(section.at("service"), f"is not under services; {hint}", wanted)
        return next(iter(services))
    return wanted
