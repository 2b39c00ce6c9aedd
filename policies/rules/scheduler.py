"""Rules for Cloud Scheduler jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib import resources
from urllib.parse import urlsplit

from . import protocol, schema
from .reading import Resource, Stack, duration, known_first, seconds
from .rule import ADVISORY, ALLOW, Knob, is_allowed, resource_rule, stack_rule, texts
from .stack import (
    covers_its_timeout,
    hangs_up_first,
    job_deadline,
    job_retries,
    job_service,
    leases,
    request_timeout,
    runs_no_handler,
)

JOB = (schema.SCHEDULER_JOB,)

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_CRON_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_CRON_PART = re.compile(
    r"(?:(?P<all>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[1-9]\d*))?"
)

_GOOGLE_API = re.compile(r"(?:.+\.)?googleapis\.com")
_ON_GOOGLE_CLOUD = re.compile(
    r".+\.(?:run\.app|cloudfunctions\.net|appspot\.com|gateway\.dev|cloud\.goog)"
)
"""Hosts that Google Cloud gives to services, functions, apps and gateways."""

_STARTS = (
    ("workflowexecutions", re.compile(r"/executions$")),
    ("run", re.compile(r":run$")),
    ("cloudbuild", re.compile(r":run$|/builds$")),
    ("dataflow", re.compile(r":launch$|/jobs$")),
    ("dataproc", re.compile(r"/jobs:submit$|:instantiate$")),
    ("batch", re.compile(r"/jobs$")),
)
"""Methods that start an operation, by the API's host name; from Google's discovery documents."""

_RESERVED_HEADER = re.compile(
    r"host|user-agent|content-length|authorization|x-cloudscheduler.*|x-google-.*|x-appengine-.*",
    re.IGNORECASE,
)


@resource_rule(
    "scheduler-unix-cron",
    types=JOB,
    title="A job's schedule is five unix-cron fields",
    why="The identity of a run is its slot, cut to the minute. Only a unix-cron job sends a"
    " schedule time that stays the same over all retries.",
    fix='Write five fields, such as schedule="*/15 6-20 * * MON-FRI".',
)
def unix_cron(job: Resource) -> Iterator[str]:
    schedule = job.get("schedule", "")
    fields = schedule.split()
    if len(fields) != len(_CRON_FIELDS):
        yield f"schedule {schedule!r} has {len(fields)} fields, not five."
        return
    for text, (name, low, high, names) in zip(fields, _CRON_FIELDS, strict=True):
        if not all(_is_cron_part(part, low, high, names) for part in text.split(",")):
            yield f"schedule {schedule!r}: {text!r} is no {name} ({low} to {high})."


@resource_rule(
    "scheduler-time-zone",
    types=JOB,
    title="A job's time zone is a name of the IANA database",
    why="An abbreviation such as CEST, or a misspelt city, is refused only by `up`, or means"
    " another hour than it says.",
    fix='Write a name such as time_zone="Europe/Zurich" or "Etc/UTC".',
    unknown="The preview says that the rule could not run; `up` checks it. A time zone that is not"
    " set is Cloud Scheduler's own default, UTC, and passes.",
)
def time_zone(job: Resource) -> Iterator[str]:
    zone = job.get("timeZone")
    if zone is not None and zone not in _time_zones():
        yield f"time zone {zone!r} is not in the IANA database."


@resource_rule(
    "scheduler-https",
    types=JOB,
    title="A job calls its target over HTTPS",
    why="Over plain HTTP everybody on the way reads the token and can use it for an hour.",
    fix="Write the URL with https://.",
)
def https(job: Resource) -> Iterator[str]:
    if job.has("httpTarget") and urlsplit(uri := job.get("httpTarget.uri", "")).scheme != "https":
        yield f"the target {uri!r} is not an https:// URL."


@resource_rule(
    "scheduler-token",
    types=JOB,
    title="A job shows its target who calls",
    why="A call without a token reaches only what anybody on the internet may call too. A host that"
    " is neither Google's nor named in `ownHosts` is somebody else's: no token is asked for there,"
    " because a Google token must not go to a stranger.",
    fix="Set http_target.oidc_token with a service account of the job's own (for a Google API:"
    " http_target.oauth_token).",
    unknown="A token that is not known yet is there, and passes: only its absence is a violation."
    " A URL that is not known yet is taken for that of an own service.",
    knobs={
        "ownHosts": texts(
            "Domains of your own in front of your services, such as"
            " *.acme.example. Hosts of Google Cloud need no mention."
        )
    },
)
def token(job: Resource) -> Iterator[str]:
    tokens = ("httpTarget.oidcToken", "httpTarget.oauthToken")
    if not job.has("httpTarget") or any(job.has(path) for path in tokens):
        return
    if not _is_elsewhere(job) or _is_named(_host(job), job.setting("ownHosts")):
        yield "the HTTP target gets no token."


@resource_rule(
    "scheduler-token-kind",
    types=JOB,
    title="OIDC is for own services, OAuth for Google's APIs",
    why="A Google API refuses an OIDC token on every run. An OAuth token opens Google's APIs to"
    " whoever receives it, so it must not leave Google.",
    fix="For a service of your own use oidc_token. For a workflow, a Cloud Run job or a build"
    " trigger let a service start it once with the run's token (in this template: `start:`"
    " on the job); a direct call needs oauth_token.",
)
def token_kind(job: Resource) -> Iterator[str]:
    has_oidc, has_oauth = job.has("httpTarget.oidcToken"), job.has("httpTarget.oauthToken")
    if has_oidc and has_oauth:
        yield "the HTTP target has both an OIDC and an OAuth token."
    elif has_oidc and _is_google_api(uri := job.get("httpTarget.uri", "")):
        yield f"{uri} is a Google API and takes no OIDC token."
    elif has_oauth and not _is_google_api(uri := job.get("httpTarget.uri", "")):
        yield f"{uri} is no Google API and must not get an OAuth token."


@resource_rule(
    "scheduler-oidc-audience",
    types=JOB,
    title="An OIDC token names its audience, without a path",
    why="Without an audience the token is made for the full URL. A service accepts its own URL"
    " only, so the job breaks as soon as its URL has a path or a query.",
    fix="Set oidc_token.audience to the service's URL, such as"
    ' "https://NAME-NUMBER.REGION.run.app".',
)
def oidc_audience(job: Resource) -> Iterator[str]:
    if not job.has("httpTarget.oidcToken") or _calls_google_api(job):
        return
    audience = job.get("httpTarget.oidcToken.audience")
    if not audience:
        yield "the OIDC token has no audience."
    elif any(urlsplit(audience)[2:]) and urlsplit(audience).scheme:
        yield f"the audience {audience!r} has a path."


@stack_rule(
    "scheduler-identity-headers",
    title="A job tells its handler which project and region it belongs to",
    why="The handler makes a run's identity from project, region, job and slot, and Cloud Scheduler"
    " sends only the last two. Two jobs of one name would be the same run. Left out are Google's"
    " APIs, a host outside Google Cloud that gets no token, and a service or function of this"
    " stack whose environment has neither ONCE_STORE nor ONCE_LEASE_SECONDS: it runs no handler.",
    fix="Put the header into http_target.headers (app_engine_http_target.headers) of every job that"
    " calls a handler. A job that calls something else of yours, in another stack for one, can be"
    " named with its reason in the setting `allow`.",
    unknown="A header whose value is not known yet is there, and passes. A URL that is not known"
    " yet is that of the service or function that it was made from; without one, of a handler."
    " Where the whole map is not known, the preview says that the rule could not run.",
    knobs={
        **ALLOW,
        "headers": texts("Headers that a job must send.", protocol.IDENTITY_HEADERS),
    },
)
def identity_headers(stack: Stack) -> Iterator[tuple[Resource, str]]:
    def check(job: Resource) -> Iterator[tuple[Resource, str]]:
        for target in _targets(job):
            sent = {name.lower(): value for name, value in job.map(f"{target}.headers").items()}
            headers = job.setting("headers")
            missing = [name for name in headers if sent.get(name.lower()) in (None, "")]
            if not missing or is_allowed(job) or (target == "httpTarget" and needs_none(job)):
                continue
            for header in missing:
                yield job, f"the header {header} is missing."

    def needs_none(job: Resource) -> bool:
        to_a_stranger = _is_elsewhere(job) and not job.has("httpTarget.oidcToken")
        return to_a_stranger or runs_no_handler(stack, job)

    yield from known_first(check, stack.of_type(*JOB))


@resource_rule(
    "scheduler-reserved-headers",
    types=JOB,
    title="A job sets no header that Cloud Scheduler sets itself",
    why="Cloud Scheduler ignores or replaces them, so the program says one thing and the handler"
    " gets another. An Authorization header would put a credential into the state.",
    fix="Remove the header; send your own under a name of your own.",
    unknown="Names are judged, values are not needed. Where the whole map is not known yet, the"
    " preview says that the rule could not run.",
)
def reserved_headers(job: Resource) -> Iterator[str]:
    for target in ("httpTarget", "appEngineHttpTarget"):
        for header in job.map(f"{target}.headers") if job.has(target) else ():
            own_agent = target == "appEngineHttpTarget" and header.lower() == "user-agent"
            if _RESERVED_HEADER.fullmatch(header) and not own_agent:
                yield f"the header {header} is reserved."


@resource_rule(
    "scheduler-attempt-deadline",
    types=JOB,
    title="The attempt deadline is one that Cloud Scheduler accepts",
    why="Beyond its limits (15 s to 30 min; to 24 h 15 s for App Engine) `up` fails half way.",
    fix='Write seconds within the limits, such as attempt_deadline="300s". What takes longer'
    " than 30 min must be started and not waited for.",
    unknown="The preview says that the rule could not run; `up` checks it. An absent deadline is"
    " Cloud Scheduler's default, 3 min, and passes.",
)
def attempt_deadline(job: Resource) -> Iterator[str]:
    on_app_engine = job.has("appEngineHttpTarget")
    if not (on_app_engine or job.has("httpTarget")):
        return
    text = job.get("attemptDeadline")
    if text is None:
        return
    deadline = duration(text)
    most = protocol.MAX_APP_ENGINE_DEADLINE if on_app_engine else protocol.MAX_ATTEMPT_DEADLINE
    if deadline is None:
        yield f'attempt deadline {text!r} is not a number of seconds such as "300s".'
    elif on_app_engine and not deadline:
        return  # App Engine's own default
    elif not protocol.MIN_ATTEMPT_DEADLINE <= deadline <= most:
        yield f"attempt deadline {text} is not within 15s and {seconds(most)}."


@stack_rule(
    "scheduler-deadline-covers-timeout",
    title="Cloud Scheduler waits as long as the service may work",
    why="When Cloud Scheduler hangs up first, it calls the attempt failed while the service"
    " works on, and every long run is retried for nothing.",
    fix="Set the job's attempt_deadline to the service's timeout (in this template both follow from"
    " the service's `timeout`).",
)
def deadline_covers_timeout(stack: Stack) -> Iterator[tuple[Resource, str]]:
    def check(job: Resource) -> Iterator[tuple[Resource, str]]:
        service = job_service(stack, job)
        return hangs_up_first(job, service, partial(job_deadline, job), "attempt deadline")

    yield from known_first(check, stack.of_type(*JOB))


@stack_rule(
    "scheduler-retry-after-lease",
    title="A retry surely starts after the lease of a crashed attempt",
    why="A crashed attempt holds its run until the lease ends; until then every retry is"
    " refused. If none comes later, the run is lost.",
    fix="Lengthen retry_config.max_retry_duration to at least what the violation says, or shorten"
    " max_backoff_duration (in this template: remove the job's `retry`, and both are derived).",
    knobs={
        "leaseSeconds": Knob(
            0,
            {
                "type": "number",
                "description": "Lease of targets that do not declare one in ONCE_LEASE_SECONDS; 0:"
                " they are left out.",
            },
        )
    },
)
def retry_after_lease(stack: Stack) -> Iterator[tuple[Resource, str]]:
    elsewhere = timedelta(seconds=stack.setting("leaseSeconds"))

    def check(job: Resource) -> Iterator[tuple[Resource, str]]:
        service = job_service(stack, job)
        attempt, lease = job_deadline(job), elsewhere
        if service is not None:
            if not covers_its_timeout(service):
                return
            attempt = max(attempt, request_timeout(service))
            lease = leases(service).get(protocol.LEASE_VARIABLE, elsewhere)
        if not lease:
            return
        retries = job_retries(job)
        if not retries.outlast(attempt, lease):
            needed = retries.duration_needed(attempt, lease)
            yield (
                job,
                f"retries end {seconds(retries.last_start(attempt))} after the first attempt began;"
                f" an attempt of up to {seconds(attempt)} and a lease of {seconds(lease)} need"
                f' max_retry_duration="{seconds(needed)}" at least.',
            )

    yield from known_first(check, [job for job in stack.of_type(*JOB) if _targets(job)])


@resource_rule(
    "scheduler-direct-start",
    types=JOB,
    level=ADVISORY,
    title="A job does not start work of a Google API directly",
    why="These APIs ignore Cloud Scheduler's headers, so each retry and each repeated delivery"
    " starts another workflow, job or build.",
    fix="Let a deduplicating service start it with the run's token (in this template: `start:`"
    " on the job). Keep the direct call only where a second start does no harm.",
)
def direct_start(job: Resource) -> Iterator[str]:
    if not job.has("httpTarget.oauthToken") or job.has("httpTarget.oidcToken"):
        return
    url = urlsplit(job.get("httpTarget.uri", ""))
    host = (url.hostname or "").removesuffix(".googleapis.com")
    for api, method in _STARTS:
        if (host == api or host.endswith((f"-{api}", f".{api}"))) and method.search(url.path):
            yield f"{url.hostname}{url.path} starts an operation on every call."


def _is_cron_part(text: str, low: int, high: int, names: Mapping[str, int]) -> bool:
    found = _CRON_PART.fullmatch(text)
    if not found:
        return False
    if found["all"]:
        return True
    first = _cron_number(found["first"], names)
    last = first if found["last"] is None else _cron_number(found["last"], names)
    return first is not None and last is not None and low <= first <= last <= high


def _cron_number(text: str, names: Mapping[str, int]) -> int | None:
    return int(text) if text.isdecimal() else names.get(text.upper())


@cache
def _time_zones() -> frozenset[str]:
    zones = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
    return frozenset((*zones, "utc"))  # the API's own word for UTC


def _is_google_api(uri: str) -> bool:
    return bool(_GOOGLE_API.fullmatch(urlsplit(uri).hostname or ""))


def _host(job: Resource) -> str:
    """Give the host of the target, empty where it is not known yet or not there."""
    uri = job.peek("httpTarget.uri")
    return ((urlsplit(uri).hostname or "") if isinstance(uri, str) else "").rstrip(".")


def _is_elsewhere(job: Resource) -> bool:
    """Tell whether the target is known to be at none of Google's hosts."""
    host = _host(job)
    return bool(host) and not (_GOOGLE_API.fullmatch(host) or _ON_GOOGLE_CLOUD.fullmatch(host))


def _is_named(host: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(host, pattern.lower()) for pattern in patterns)


def _calls_google_api(job: Resource) -> bool:
    """Tell whether the target is known to be a Google API."""
    uri = job.peek("httpTarget.uri")
    return isinstance(uri, str) and _is_google_api(uri)


def _targets(job: Resource) -> list[str]:
    """Give the job's targets that a handler of ours can stand behind."""
    targets = ["appEngineHttpTarget"] if job.has("appEngineHttpTarget") else []
    if job.has("httpTarget") and not _calls_google_api(job):
        targets.append("httpTarget")
    return targets
