"""The key `jobs`."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import combinations

from infra import timing, values
from infra.cron import Schedule
from infra.keys.services import chosen_service
from infra.keys.starts import StartReader
from infra.model import DEFAULT_TIMING, PROXY, PROXY_TIMING, AppEngine, Job, Service, Start
from infra.reading import (
    Problems,
    Section,
    duration,
    flag,
    json_value,
    listed,
    matching,
    text,
    whole,
    written,
)
from infra.timing import Retry, Timing


class JobReader:
    """Reads the jobs of a stack.

    Parameters
    ----------
    problems
        Where to note what is wrong.
    services
        Those that a job can name.
    starts
        Reads `start`.
    zone
        The time zone of a job that has none.

    Attributes
    ----------
    warnings
        What would work but is unwise.
    """

    def __init__(
        self, problems: Problems, services: Mapping[str, Service], starts: StartReader, zone: str
    ) -> None:
        self.problems = problems
        self.services = services
        self.starts = starts
        self.zone = zone
        self.warnings: list[str] = []

    def read(self, top: Section) -> tuple[Job, ...]:
        """Read `jobs`."""
        jobs: list[Job] = []
        for section in top.each("jobs", "write {name: ..., schedule: ...}"):
            job = self._job(section)
            if job.name and any(job.name == other.name for other in jobs):
                self.problems.add(section.at("name"), "names two jobs", job.name)
            jobs.append(job)
        return tuple(jobs)

    def _job(self, section: Section) -> Job:
        name = section.need("name", values.identifier, "", "what the job is called")
        expression = section.need(
            "schedule", values.expression, "", 'five unix-cron fields, for example "0 6 * * *"'
        )
        zone = section.get("timeZone", values.zone, self.zone)
        start = self.starts.read(section)
        app_engine, app_engine_timeout = self._app_engine(section)
        service = self._target(section, start, app_engine)
        function = section.get("function", values.identifier, name)
        if start and function != name:
            self.problems.add(section.at("function"), "has no use next to start", function)
        if service == PROXY:
            timing = PROXY_TIMING
        elif service:
            timing = self.services[service].timing
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
        self, section: Section, start: Start | None, app_engine: AppEngine | None
    ) -> str | None:
        named = [*section.given(["service"]), *section.mappings(["start", "appEngine"])]
        if len(named) > 1:
            self.problems.add(section.path, f"has more than one target: {listed(named)}")
        if named in ([], ["service"]):
            return chosen_service(section, self.services)
        section.get("service", text, None)
        return None if app_engine and not start else PROXY

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

    def _headers(self, section: Section) -> Mapping[str, str]:
        headers = section.entries("headers", values.header, values.header_value)
        for name, other in combinations(headers, 2):
            if name.lower() == other.lower():
                path = f"{section.at('headers')}.{other}"
                self.problems.add(path, f"is the same header as {name}: remove one of them")
        return headers

    def _body(self, section: Section, start: Start | None) -> object:
        body = section.get("body", json_value, section.raw.get("body"))
        if start and body is not None:
            self.problems.add(section.at("body"), "has no use next to start: give it an argument")
        return body

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
            override.refuse(
                "minBackoff", f"is longer than maxBackoff, which is {written(retry.max_backoff)}"
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
        elif job.service == PROXY:
            cure = "the proxy's timeout is fixed, so a crash can cost the next run"
        elif job.service is None:
            cure = f"an appEngine.timeout of {written(fitting)} would fit"
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
