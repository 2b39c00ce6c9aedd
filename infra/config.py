"""The stack configuration: every key of `Pulumi.<stack>.yaml`, typed, checked, all errors at once.

`load` takes plain data, so the same rules hold for the Pulumi program, for the tests and for the
stack on this machine. It knows nothing of Pulumi.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from difflib import get_close_matches

from infra import example, timing, values
from infra.cron import Schedule
from infra.model import (
    DEFAULT_TIMING,
    EVENTARC,
    EVENTS,
    PROXY,
    PROXY_TIMING,
    SCHEDULER,
    AppEngine,
    BuildTrigger,
    CloudRunJob,
    Database,
    Event,
    EventarcSource,
    Grant,
    Job,
    PubSubSource,
    Secret,
    Service,
    StackConfig,
    Start,
    Vpc,
    Workflow,
)
from infra.reading import (
    NO_ENTRIES,
    NO_STRINGS,
    Problem,
    Problems,
    Section,
    duration,
    flag,
    listed,
    mapping,
    matching,
    one_of,
    string_map,
    strings,
    text,
    whole,
    written,
)
from infra.timing import Retry, Timing

__all__ = ["ConfigError", "StackConfig", "load"]

DEFAULT_NAME = "scheduled-once"
DEFAULT_SERVICE = "handler"
DEFAULT_RETENTION = timedelta(days=7)
DEFAULT_ZONE = "Etc/UTC"

DEFAULT_MAX_ATTEMPTS = 10
RESERVED_SERVICES = (PROXY, SCHEDULER, EVENTS, EVENTARC)

TOKEN_KEYS = {
    "argument": "idempotency_token",
    "env": "IDEMPOTENCY_TOKEN",
    "substitutions": "_IDEMPOTENCY_TOKEN",
}
"""Where the proxy puts a run's token; a user's key of that name would be lost."""


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


GRANT_KINDS = ("bucket", "topic", "queue", "dataset")
"""The resources on which `services.NAME.roles` can name a role."""

_CLOUD_RUN_NAME = 49
_ACCOUNT_ID = range(6, 31)


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
            matching(r"[1-9]\d{5,18}", "is no project number: digits only"),
            "",
            "gcloud projects describe PROJECT_ID --format='value(projectNumber)'",
        )
        self.zone = top.get("timeZone", values.zone, DEFAULT_ZONE)
        services = self._services(name, number)
        jobs = self._jobs(services)
        examples = top.get("examples", flag, False)
        if examples:
            services, jobs = self._with_example(name, number, services, jobs)
        if any(job.start for job in jobs):
            services = {**services, PROXY: Service(PROXY, PROXY_TIMING)}
        config = StackConfig(
            project=self.project,
            region=self.region,
            project_number=number,
            name=name,
            production=top.get("environment", one_of("dev", "prod"), "dev") == "prod",
            database=self._database(name),
            retention=top.get("retention", duration, DEFAULT_RETENTION),
            scheduler_region=top.get("schedulerRegion", values.region, self.region),
            labels=self._labels(),
            alert_channels=self._alerts(),
            image=top.get("image", values.image, None),
            services=services,
            jobs=jobs,
            events=self._events(services),
            examples=examples,
            warnings=tuple(self.warnings),
        )
        top.finish()
        self._check_retention(config)
        if self.problems.found:
            raise ConfigError(self.problems.found)
        return config

    # Services

    def _services(self, name: str, number: str) -> Mapping[str, Service]:
        services = {}
        for key, section in self.top.named("services", "write NAME: {timeout: 5m}"):
            services[key] = self._service(key, section)
        services = services or {DEFAULT_SERVICE: Service(DEFAULT_SERVICE)}
        for key in services:
            path = f"services.{key}"
            if key in RESERVED_SERVICES:
                self.problems.add(path, "is a name that the program needs itself; choose another")
            self.problems.check(path, key, values.service_name)
            self._check_lengths(path, f"{name}-{key}", number)
        return services

    def _check_lengths(self, path: str, full: str, number: str) -> None:
        if len(full) not in _ACCOUNT_ID:
            self.problems.add(
                path,
                f"makes the service account id {full}, of {len(full)} characters; "
                f"6 to 30 are allowed, so choose a {'shorter' if len(full) > 6 else 'longer'} "
                "name for the stack or the service",
            )
        if len(full) > _CLOUD_RUN_NAME or len(f"{full}-{number}") > 63:
            self.problems.add(path, f"makes the host name {full}-{number}: longer than 63")

    def _service(self, key: str, section: Section) -> Service:
        default = Service(key)
        env = section.get("env", string_map, NO_ENTRIES)
        for variable in env:
            path = f"{section.at('env')}.{variable}"
            self.problems.check(path, variable, values.variable)
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
            roles=tuple(self._roles(section)),
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
        section.finish()
        return service

    def _service_secrets(self, section: Section, env: Mapping[str, str]) -> Mapping[str, Secret]:
        secrets = {}
        for variable, value in section.get("secrets", string_map, NO_ENTRIES).items():
            path = f"{section.at('secrets')}.{variable}"
            self.problems.check(path, variable, values.variable)
            if variable in env:
                self.problems.add(path, "is set under env too; remove one of them")
            name, _, version = value.partition(":")
            self.problems.check(path, value, values.secret)
            secrets[variable] = Secret(name, version or "latest")
        return secrets

    def _roles(self, section: Section) -> Iterator[Grant]:
        for entry in section.each("roles", "write {role: roles/storage.objectUser, bucket: B}"):
            role = entry.need("role", values.role, "", "for example roles/storage.objectUser")
            named = [(kind, entry.get(kind, text, "")) for kind in GRANT_KINDS]
            found = [(kind, resource) for kind, resource in named if resource]
            entry.finish()
            if len(found) == 1:
                yield Grant(role, *found[0])
            else:
                self.problems.add(
                    entry.path, f"names no single resource: give one of {listed(GRANT_KINDS)}"
                )

    def _vpc(self, section: Section) -> Vpc | None:
        vpc = section.section("vpc")
        if vpc is None:
            return None
        found = Vpc(
            network=vpc.need("network", text, "", "the name of a VPC network"),
            subnetwork=vpc.get("subnetwork", text, None),
            tags=vpc.get("tags", strings, NO_STRINGS),
            all_traffic=vpc.get("egress", one_of("private", "all"), "private") == "all",
        )
        vpc.finish()
        return found

    # Jobs

    def _jobs(self, services: Mapping[str, Service]) -> tuple[Job, ...]:
        jobs: list[Job] = []
        for section in self.top.each("jobs", "write {name: ..., schedule: ...}"):
            job = self._job(section, services)
            if job.name and any(job.name == other.name for other in jobs):
                self.problems.add(section.at("name"), "names two jobs", job.name)
            jobs.append(job)
        return tuple(jobs)

    def _job(self, section: Section, services: Mapping[str, Service]) -> Job:
        name = section.need("name", values.identifier, "", "what the job is called")
        expression = section.need(
            "schedule", values.expression, "", 'five unix-cron fields, for example "0 6 * * *"'
        )
        zone = section.get("timeZone", values.zone, self.zone)
        start = self._start(section)
        app_engine, app_engine_timeout = self._app_engine(section)
        service = self._target(section, services, start, app_engine)
        function = section.get("function", values.identifier, name)
        if start and function != name:
            self.problems.add(section.at("function"), "has no use next to start", function)
        if start:
            timing = PROXY_TIMING
        elif service:
            timing = services[service].timing
        else:
            timing = Timing(app_engine_timeout)
        schedule = Schedule(expression, zone)
        job = Job(
            name=name,
            schedule=schedule,
            function=function,
            timing=timing,
            retry=self._retry(section, timing),
            service=service,
            start=start,
            app_engine=app_engine,
            body=self._body(section, start),
            headers=self._headers(section),
            paused=section.get("paused", flag, False),
        )
        section.finish()
        if expression:
            self._warn_of_short_period(section, job)
        return job

    def _target(
        self,
        section: Section,
        services: Mapping[str, Service],
        start: Start | None,
        app_engine: AppEngine | None,
    ) -> str | None:
        wanted = section.get("service", text, None)
        others = [key for key in ("start", "appEngine") if section.raw.get(key)]
        if len(others) + (wanted is not None) > 1:
            found = listed([*others, *["service"] * (wanted is not None)])
            self.problems.add(section.path, f"has more than one target: {found}")
        if start:
            return PROXY
        if app_engine or others:
            return None
        return self._known_service(section, wanted, services)

    def _known_service(
        self, section: Section, wanted: str | None, services: Mapping[str, Service]
    ) -> str:
        if wanted is None:
            if len(services) > 1 and DEFAULT_SERVICE not in services:
                self.problems.add(section.at("service"), f"is missing: one of {listed(services)}")
            return DEFAULT_SERVICE if DEFAULT_SERVICE in services else next(iter(services))
        if wanted not in services:
            near = get_close_matches(wanted, services, 1)
            hint = f"did you mean {near[0]}?" if near else f"there is {listed(services)}"
            self.problems.add(section.at("service"), f"is not under services; {hint}", wanted)
            return next(iter(services))
        return wanted

    def _app_engine(self, section: Section) -> tuple[AppEngine | None, timedelta]:
        target = section.section("appEngine")
        if target is None:
            return None, DEFAULT_TIMING.timeout
        found = AppEngine(
            service=target.get("service", values.identifier, None),
            relative_uri=target.get(
                "relativeUri",
                matching(r"/[^\s]{0,2082}", "is no path: it starts with / and has no space"),
                "/",
            ),
        )
        timeout = target.get("timeout", values.timeout, DEFAULT_TIMING.timeout)
        target.finish()
        return found, timeout

    def _body(self, section: Section, start: Start | None) -> object:
        body = section.get("body", lambda value: value, None)
        if start and body is not None:
            self.problems.add(section.at("body"), "has no use next to start: give it an argument")
        return body

    def _headers(self, section: Section) -> Mapping[str, str]:
        headers = section.get("headers", string_map, NO_ENTRIES)
        for header, value in headers.items():
            path = f"{section.at('headers')}.{header}"
            self.problems.check(path, header, values.header)
            self.problems.check(path, value, values.header_value)
        return headers

    def _retry(self, section: Section, timing_: Timing) -> Retry:
        default = timing.default_retry(timing_)
        override = section.section("retry")
        if override is None:
            return default
        retry = Retry(
            count=override.get("count", whole(0, timing.MAX_RETRY_COUNT), default.count),
            max_duration=override.get("maxDuration", duration, default.max_duration),
            min_backoff=override.get("minBackoff", values.positive, default.min_backoff),
            max_backoff=override.get("maxBackoff", values.positive, default.max_backoff),
            max_doublings=override.get("maxDoublings", whole(0, 16), default.max_doublings),
        )
        override.finish()
        if retry.min_backoff > retry.max_backoff:
            self.problems.add(
                override.at("minBackoff"),
                f"is longer than maxBackoff, which is {written(retry.max_backoff)}",
                written(retry.min_backoff),
            )
        elif not retry.outlasts_lease(timing_):
            needed = retry.needed_duration(timing_)
            self.problems.add(
                override.path,
                "starts no retry after the lease of a crashed attempt "
                f"({written(timing_.lease)}), so its run would be lost: maxDuration of at least "
                f"{written(needed)} would work; a job that must not be repeated raises Fatal",
                dict(override.raw),
            )
        return retry

    def _warn_of_short_period(self, section: Section, job: Job) -> None:
        period = job.schedule.shortest_period()
        if period > job.timing.lease:
            return
        fitting = timing.fitting_timeout(period)
        if fitting is None:
            cure = "no timeout is short enough, so a crash can cost the next run"
        elif job.service == PROXY or job.service is None:
            cure = f"a timeout of {written(fitting)} would fit"
        else:
            cure = (
                f"a timeout of {written(fitting)} would fit: set it for {job.service}, or move "
                "the job to a service of its own"
            )
        self.warnings.append(
            f"{section.at('schedule')}: {job.name} runs every {written(period)}, but a crashed "
            f"attempt holds its lease for {written(job.timing.lease)}, and Cloud Scheduler may "
            f"skip runs that fall into the retries of another; {cure}"
        )

    # Starting Google APIs

    def _start(self, section: Section) -> Start | None:
        start = section.section("start")
        if start is None:
            return None
        kinds: Mapping[str, Callable[[Section], Start]] = {
            "workflow": self._workflow,
            "cloudRunJob": self._cloud_run_job,
            "buildTrigger": self._build_trigger,
        }
        targets = {key: start.section(key) for key in kinds}
        start.finish()
        found = [(kinds[key], target) for key, target in targets.items() if target is not None]
        if len(found) != 1:
            self.problems.add(start.path, f"names no single target: one of {listed(kinds)}")
            return None
        read, target = found[0]
        result = read(target)
        target.finish()
        return result

    def _full_name(self, target: Section, collection: str) -> str:
        name = target.need("name", text, "", f"the {collection[:-1]}'s name")
        location = target.get("location", values.location, self.region)
        if "/" not in name:
            return f"projects/{self.project}/locations/{location}/{collection}/{name}"
        full = matching(
            rf"projects/[^/]+/locations/[^/]+/{collection}/[^/]+",
            f"is no full name: projects/P/locations/L/{collection}/N",
        )
        self.problems.check(target.at("name"), name, full)
        if "location" in target.raw:
            self.problems.add(target.at("location"), "stands in the full name already", location)
        return name

    def _refuse_token(self, target: Section, key: str, given: Collection[str]) -> None:
        token = TOKEN_KEYS[key]
        if token in given:
            self.problems.add(
                f"{target.at(key)}.{token}", "is where the run's own token goes; use another name"
            )

    def _workflow(self, target: Section) -> Workflow:
        argument = target.get("argument", mapping, None) or {}
        self._refuse_token(target, "argument", argument)
        return Workflow(self._full_name(target, "workflows"), argument)

    def _cloud_run_job(self, target: Section) -> CloudRunJob:
        env = target.get("env", string_map, NO_ENTRIES)
        self._refuse_token(target, "env", env)
        return CloudRunJob(
            self._full_name(target, "jobs"), target.get("args", strings, NO_STRINGS), env
        )

    def _build_trigger(self, target: Section) -> BuildTrigger:
        substitutions = target.get("substitutions", string_map, NO_ENTRIES)
        self._refuse_token(target, "substitutions", substitutions)
        for key in substitutions:
            self.problems.check(f"{target.at('substitutions')}.{key}", key, values.substitution)
        branch, tag = target.get("branch", text, None), target.get("tag", text, None)
        if branch and tag:
            self.problems.add(target.path, "has a branch and a tag; give one")
        account = target.get("serviceAccount", values.service_account, None)
        name = self._full_name(target, "triggers")
        return BuildTrigger(name, branch, tag, substitutions, account)

    def _with_example(
        self, name: str, number: str, services: Mapping[str, Service], jobs: tuple[Job, ...]
    ) -> tuple[Mapping[str, Service], tuple[Job, ...]]:
        taken = {f"services.{key}" for key in services} | {f"jobs: {job.name}" for job in jobs}
        for path in taken & {f"services.{example.BOOKING}", f"jobs: {example.NAME}"}:
            self.problems.add(
                path, "is a name of the worked example: choose another, or no examples"
            )
        self._check_lengths("examples", f"{name}-{example.WORKFLOW}", number)
        job = example.job(
            f"projects/{self.project}/locations/{self.region}/workflows/{name}-{example.NAME}",
            f"https://{name}-{example.BOOKING}-{number}.{self.region}.run.app",
        )
        return {**services, example.BOOKING: example.service()}, (*jobs, job)

    # Events

    def _events(self, services: Mapping[str, Service]) -> tuple[Event, ...]:
        events: list[Event] = []
        for section in self.top.each("events", "write {name: ..., pubsub: {topic: ...}}"):
            event = self._event(section, services)
            if event is None:
                continue
            if event.name and any(event.name == other.name for other in events):
                self.problems.add(section.at("name"), "names two events", event.name)
            events.append(event)
        return tuple(events)

    def _event(self, section: Section, services: Mapping[str, Service]) -> Event | None:
        name = section.need("name", values.event_name, "", "what the handler calls it")
        service = self._known_service(section, section.get("service", text, None), services)
        timing_ = services[service].timing
        if timing_.timeout > timing.MAX_ACK_DEADLINE:
            self.problems.add(
                f"services.{service}.timeout",
                f"is longer than Pub/Sub waits for an answer: {written(timing.MAX_ACK_DEADLINE)} "
                f"at most, or move {name} to a service of its own",
                written(timing_.timeout),
            )
        pubsub, eventarc = section.section("pubsub"), section.section("eventarc")
        max_age = section.get("maxAge", values.positive, None)
        max_attempts = section.get("maxAttempts", whole(1, 100), None)
        section.finish()
        source: PubSubSource | EventarcSource
        if pubsub is not None and eventarc is None:
            source = self._pubsub(pubsub, timing_)
            max_backoff = source.max_backoff
        elif eventarc is not None and pubsub is None:
            source = self._eventarc(eventarc)
            max_backoff = timing.MAX_EVENT_BACKOFF
        else:
            self.problems.add(section.path, "names no single source: one of pubsub, eventarc")
            return None
        needed = timing.event_lifetime(timing_, max_backoff)
        if max_age is not None and max_age < needed:
            self._too_short(section.at("maxAge"), max_age, "dropped", needed)
        if max_attempts is not None:
            self._check_attempts(section, max_attempts, source, timing_)
        return Event(name, service, timing_, source, max_age, max_attempts)

    def _check_attempts(
        self,
        section: Section,
        max_attempts: int,
        source: PubSubSource | EventarcSource,
        timing_: Timing,
    ) -> None:
        """Check the handler's own limit: only dead letters make Pub/Sub tell the attempt."""
        if not isinstance(source, PubSubSource) or source.max_attempts is None:
            reason = "has no effect: only a subscription with dead letters tells the attempt"
        elif max_attempts > source.max_attempts:
            reason = f"is never reached: after {source.max_attempts} it is a dead letter"
        elif (max_attempts - 1) * source.min_backoff < timing_.lease:
            reason = (
                "can be used up while a crashed attempt still holds its lease "
                f"({written(timing_.lease)}) with waits of {written(source.min_backoff)}"
            )
        else:
            return
        self.problems.add(section.at("maxAttempts"), reason, max_attempts)

    def _too_short(self, path: str, given: timedelta, fate: str, needed: timedelta) -> None:
        self.problems.add(
            path,
            f"is over before a crashed attempt's lease surely is: the event would be {fate} "
            f"unseen; at least {written(needed)} would work (timeout, lease and longest wait)",
            written(given),
        )

    def _pubsub(self, source: Section, timing_: Timing) -> PubSubSource:
        topic = source.get("topic", values.topic, None)
        if topic and "/" not in topic:
            topic = f"projects/{self.project}/topics/{topic}"
        bucket = source.get("bucket", text, None)
        if topic and bucket:
            self.problems.add(source.path, "has a topic and a bucket; a bucket's topic is its own")
        max_attempts = self._max_attempts(source)
        at_once = source.get("immediate", flag, False)
        default = max(timedelta(seconds=10), timing.event_min_backoff(timing_, max_attempts or 100))
        found = PubSubSource(
            topic=topic,
            bucket=bucket,
            filter=source.get("filter", text, None),
            ordering=source.get("ordering", flag, False),
            retention=source.get("retention", values.message_retention, timedelta(days=7)),
            max_attempts=max_attempts,
            min_backoff=source.get(
                "minBackoff", values.event_backoff, timedelta() if at_once else default
            ),
            max_backoff=source.get(
                "maxBackoff",
                values.event_backoff,
                timedelta() if at_once else timing.MAX_EVENT_BACKOFF,
            ),
        )
        source.finish()
        self._check_backoffs(source, found, timing_)
        return found

    def _max_attempts(self, source: Section) -> int | None:
        if source.raw.get("deadLetter") is False:
            return source.get("deadLetter", lambda _: None, None)
        dead_letter = source.section("deadLetter") or Section({}, source.path, self.problems)
        found = dead_letter.get("maxAttempts", whole(5, 100), DEFAULT_MAX_ATTEMPTS)
        dead_letter.finish()
        return found

    def _check_backoffs(self, source: Section, found: PubSubSource, timing_: Timing) -> None:
        if found.min_backoff > found.max_backoff:
            self.problems.add(
                source.at("minBackoff"),
                f"is longer than maxBackoff, which is {written(found.max_backoff)}",
                written(found.min_backoff),
            )
            return
        if found.max_attempts is not None:
            needed = timing.event_min_backoff(timing_, found.max_attempts)
            if found.min_backoff < needed:
                self.problems.add(
                    source.at("minBackoff"),
                    f"uses up the {found.max_attempts} delivery attempts while a crashed one still "
                    f"holds its lease ({written(timing_.lease)}): at least {written(needed)} would "
                    "work, or more attempts, or deadLetter: false",
                    written(found.min_backoff),
                )
        lifetime = timing.event_lifetime(timing_, found.max_backoff)
        if found.retention < lifetime:
            self._too_short(source.at("retention"), found.retention, "lost", lifetime)

    def _eventarc(self, source: Section) -> EventarcSource:
        found = EventarcSource(
            type=source.need("type", values.event_type, "", "a CloudEvents type"),
            location=source.get("location", values.location, self.region),
            filters=source.get("filters", string_map, NO_ENTRIES),
            path_patterns=source.get("pathPatterns", string_map, NO_ENTRIES),
        )
        source.finish()
        return found

    # What is left

    def _database(self, name: str) -> Database:
        section = self.top.section("database") or Section({}, "database", self.problems)
        create = section.get("create", flag, True)
        database = Database(
            name=section.get("name", values.database, name),
            location=section.get("location", values.location, self.region),
            create=create,
            manage_fields=section.get("manageFields", flag, create),
        )
        section.finish()
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

    def _labels(self) -> Mapping[str, str]:
        labels = self.top.get("labels", string_map, NO_ENTRIES)
        for key, value in labels.items():
            path = f"labels.{key}"
            self.problems.check(path, key, values.label_key)
            self.problems.check(path, value, values.label_value)
        return labels

    def _alerts(self) -> tuple[str, ...] | None:
        alerts = self.top.section("alerts")
        if alerts is None:
            return None
        channels = alerts.get("channels", strings, NO_STRINGS)
        for index, channel in enumerate(channels):
            self.problems.check(f"{alerts.at('channels')}[{index}]", channel, values.channel)
        alerts.finish()
        return channels

    def _check_retention(self, config: StackConfig) -> None:
        needs = [(timing.needed_retention(job.timing, job.retry), job.name) for job in config.jobs]
        needed, name = max(needs, default=(timedelta(), ""))
        if config.retention <= needed:
            self.problems.add(
                "retention",
                f"is over before the last retry of {name}: more than {written(needed)} is needed "
                f"(its retry window and a lease), and {written(DEFAULT_RETENTION)} is the default",
                written(config.retention),
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
