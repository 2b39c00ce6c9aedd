"""The stack configuration: every key of `Pulumi.<stack>.yaml`, typed, checked, all errors at once.

`load` takes plain data, so the same rules hold for the Pulumi program, for the tests and for the
stack on this machine. It knows nothing of Pulumi.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta

from infra import example, timing, values
from infra.keys.events import EventReader
from infra.keys.jobs import JobReader
from infra.keys.services import ServiceReader
from infra.keys.starts import StartReader
from infra.model import PROXY, PROXY_TIMING, Database, Job, Service, StackConfig
from infra.reading import (
    Problem,
    Problems,
    Section,
    duration,
    flag,
    listed,
    one_of,
    written,
)

__all__ = ["ConfigError", "StackConfig", "load"]

DEFAULT_NAME = "scheduled-once"
DEFAULT_RETENTION = timedelta(days=7)
DEFAULT_ZONE = "Etc/UTC"


class ConfigError(Exception):
    """The configuration cannot be used.

    Attributes
    ----------
    problems
        Everything that is wrong, each with its path.
    """

    def __init__(self, problems: Collection[Problem]) -> None:
        self.problems = tuple(problems)
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        super().__init__(
            f"the stack configuration has {count}:\n"
            + "\n".join(f"  - {problem}" for problem in self.problems)
        )


def load(
    raw: Mapping[str, object],
    *,
    project: str | None,
    region: str | None,
    secret_keys: Collection[str] = (),
) -> StackConfig:
    """Check a stack configuration and give it types.

    Parameters
    ----------
    raw
        The top-level keys, without a prefix, as plain data.
    project, region
        The values of `gcp:project` and `gcp:region`.
    secret_keys
        Top-level keys that hold a secret anywhere inside.

    Raises
    ------
    ConfigError
        If anything is wrong, with everything that is.
    """
    return _Loader(raw, project, region, secret_keys).load()


class _Loader:
    def __init__(
        self,
        raw: Mapping[str, object],
        project: str | None,
        region: str | None,
        secret_keys: Collection[str],
    ) -> None:
        self.problems = Problems()
        self.warnings: list[str] = []
        self.top = Section(raw, "", self.problems)
        provider = Section({"gcp:project": project, "gcp:region": region}, "", self.problems)
        self.project = provider.need(
            "gcp:project", values.project, "", "pulumi config set gcp:project PROJECT_ID"
        )
        self.region = provider.need(
            "gcp:region", values.region, "", "pulumi config set gcp:region europe-west1"
        )
        for path in sorted({*secret_keys, *_secrets(raw)}):
            self.problems.add(
                path,
                "holds a secret, which would reach the program as plain text: keep it in Secret "
                "Manager and name it under services.NAME.secrets",
            )

    def load(self) -> StackConfig:
        top = self.top
        name = top.get("name", values.stack_name, DEFAULT_NAME)
        number = top.need(
            "projectNumber",
            values.project_number,
            "",
            "gcloud projects describe PROJECT_ID --format='value(projectNumber)'",
        )
        names = ServiceReader(self.problems, name, self.project, number)
        services = names.read(top)
        starts = StartReader(self.project, self.region)
        zone = top.get("timeZone", values.zone, DEFAULT_ZONE)
        job_reader = JobReader(self.problems, services, starts, zone)
        jobs = job_reader.read(top)
        events = EventReader(self.problems, services, self.project, self.region).read(top)
        examples = top.get("examples", flag, False)
        if examples:
            services, jobs = self._with_example(names, services, jobs)
        if any(job.start for job in jobs):
            services = {**services, PROXY: Service(PROXY, PROXY_TIMING)}
        unprotected = top.strings("unprotected")
        for index, service in enumerate(unprotected):
            if service not in services:
                self.problems.add(
                    f"unprotected[{index}]",
                    f"is no service of this stack; there is {listed(services)}",
                    service,
                )
        config = StackConfig(
            project=self.project,
            region=self.region,
            project_number=number,
            name=name,
            production=top.get("environment", one_of("dev", "prod"), "dev") == "prod",
            database=self._database(name),
            retention=top.get("retention", duration, DEFAULT_RETENTION),
            scheduler_region=top.get("schedulerRegion", values.region, self.region),
            labels=top.entries("labels", values.label_key, values.label_value),
            alert_channels=self._alerts(),
            image=top.get("image", values.image, None),
            services=services,
            unprotected=unprotected,
            jobs=jobs,
            events=events,
            examples=examples,
            warnings=(*job_reader.warnings, *self.warnings),
        )
        top.finish()
        if len(config.labels) > values.MAX_LABELS:
            self.problems.add(
                "labels", f"are too many: at most {values.MAX_LABELS}", len(config.labels)
            )
        self._check_retention(config)
        if self.problems.found:
            raise ConfigError(self.problems.found)
        return config

    def _with_example(
        self, names: ServiceReader, services: Mapping[str, Service], jobs: tuple[Job, ...]
    ) -> tuple[Mapping[str, Service], tuple[Job, ...]]:
        taken = {f"services.{key}" for key in services} | {f"jobs: {job.name}" for job in jobs}
        own = {f"services.{example.BOOKING}", f"services.{example.WORKFLOW}"}
        for path in sorted(taken & {*own, f"jobs: {example.NAME}"}):
            self.problems.add(
                path, "is a name of the worked example: choose another, or no examples"
            )
        names.check_lengths("examples", example.WORKFLOW)
        prefix, place = names.prefix, f"projects/{self.project}/locations/{self.region}"
        job = example.job(
            f"{place}/workflows/{prefix}-{example.NAME}",
            f"https://{prefix}-{example.BOOKING}-{names.number}.{self.region}.run.app",
        )
        return {**services, example.BOOKING: example.service()}, (*jobs, job)

    def _database(self, name: str) -> Database:
        section = self.top.section("database") or Section({}, "database", self.problems)
        create = section.get("create", flag, True)
        database = Database(
            name=section.get("name", values.database, name),
            location=section.get("location", values.database_location, self.region),
            create=create,
            manage_fields=section.get("manageFields", flag, create),
        )
        section.finish()
        if not create and "manageFields" not in section.raw:
            self.warnings.append(
                "database.create: false leaves the database as it is, so its records stay for ever "
                "and their timestamps are indexed: set database.manageFields: true, or false after "
                "the two commands of docs/deploying.md"
            )
        if create and database.name == "(default)":
            self.problems.add(
                section.at("name"), "exists once per project: choose a name, or set create: false"
            )
        if create and not database.manage_fields:
            self.problems.add(
                section.at("manageFields"),
                "is needed for a new database: nothing else sets its TTL",
            )
        return database

    def _alerts(self) -> tuple[str, ...] | None:
        alerts = self.top.section("alerts")
        if alerts is None:
            return None
        channels = alerts.strings("channels", values.channel)
        alerts.finish()
        return channels

    def _check_retention(self, config: StackConfig) -> None:
        needs = [(timing.needed_retention(job.timing, job.retry), job.name) for job in config.jobs]
        needed, job = max(needs, default=(timedelta(), ""))
        if config.retention <= needed:
            self.top.refuse(
                "retention",
                f"is over before the last retry of {job}: more than {written(needed)} is needed, "
                f"and {written(DEFAULT_RETENTION)} is the default",
            )
        # A record is kept from its claim, which no event meets before it was published.
        kept, event = max(
            ((event.source.retention, event.name) for event in config.events),
            default=(timedelta(), ""),
        )
        if config.retention < kept:
            self.top.refuse(
                "retention",
                f"is over while {event} can still be delivered again, and would take effect again: "
                f"at least {written(kept)} is needed, as long as Pub/Sub keeps its messages",
            )


def _secrets(raw: object, path: str = "") -> Iterator[str]:
    """Yield the paths of encrypted values, as they stand in a stack's file."""
    if isinstance(raw, Mapping):
        if set(raw) == {"secure"}:
            yield path
            return
        for key, value in raw.items():
            yield from _secrets(value, f"{path}.{key}" if path else str(key))
    elif isinstance(raw, list):
        for index, value in enumerate(raw):
            yield from _secrets(value, f"{path}[{index}]")
