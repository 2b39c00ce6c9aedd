"""The borders of the rules about Cloud Scheduler."""

from datetime import timedelta
from itertools import islice

import pytest
from rules.protocol import Retries

from .analyzer import Declared, Pack, Reference
from .cases.compliant import (
    CALLER,
    NOT_YET,
    URL,
    function,
    function_v1,
    job,
    once_service,
    service,
    service_v1,
    timed_job,
)

GOOGLE = "https://workflowexecutions.googleapis.com/v1/projects/p/locations/l/workflows/w"


def app_engine_job() -> Declared:
    """Give a compliant job of the other kind."""
    headers = job().properties["httpTarget"]["headers"]
    target = {"relativeUri": "/run", "headers": headers}
    return job().drop("httpTarget").set("appEngineHttpTarget", target)


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * *",
        "*/15 6-20 * * MON-FRI",
        "0 0 1,15 * *",
        "59 23 31 12 7",
        "0 2 * JAN,jul sun",
        "5-55/10 0 * * *",
        "0  2 * * *",
    ],
)
def test_unix_cron_is_accepted(pack: Pack, schedule: str) -> None:
    assert pack.judge([job().set("schedule", schedule)]).rules == []


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "@daily",
        "0 2 * *",
        "0 0 2 * * *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 32 * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "0 0 L * *",
        "0 0 * * MON#1",
        "*/0 * * * *",
        "30-10 * * * *",
        "0 0 * FOO *",
        "1,,2 * * * *",
        "every monday of month 09:00",
    ],
)
def test_other_schedules_are_refused(pack: Pack, schedule: str) -> None:
    assert pack.judge([job().set("schedule", schedule)]).rules == ["scheduler-unix-cron"]


@pytest.mark.parametrize("zone", ["Etc/UTC", "utc", "UTC", "America/Argentina/Ushuaia"])
def test_iana_zone_is_accepted(pack: Pack, zone: str) -> None:
    assert pack.judge([job().set("timeZone", zone)]).rules == []


@pytest.mark.parametrize("zone", ["", "CEST", "Europe/Zuerich", "UTC+1", "europe/zurich"])
def test_other_zones_are_refused(pack: Pack, zone: str) -> None:
    assert pack.judge([job().set("timeZone", zone)]).rules == ["scheduler-time-zone"]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("15s", True),
        ("1800s", True),
        ("14.9s", False),
        ("1800.1s", False),
        ("0s", False),
        ("5m", False),
        ("300", False),
        ("-300s", False),
    ],
)
def test_attempt_deadline_of_http(pack: Pack, text: str, accepted: bool) -> None:
    broken = pack.judge([job().set("attemptDeadline", text)]).rules
    assert broken == ([] if accepted else ["scheduler-attempt-deadline"])


@pytest.mark.parametrize(
    ("text", "accepted"), [("0s", True), ("86415s", True), ("86416s", False), ("14s", False)]
)
def test_attempt_deadline_of_app_engine(pack: Pack, text: str, accepted: bool) -> None:
    broken = pack.judge([app_engine_job().set("attemptDeadline", text)]).rules
    assert broken == ([] if accepted else ["scheduler-attempt-deadline"])


@pytest.mark.parametrize(
    ("audience", "accepted"),
    [
        (URL, True),
        ("my-custom-audience", True),
        ("32555940559.apps.googleusercontent.com", True),
        (f"{URL}/", False),
        (f"{URL}?job=nightly", False),
        (f"{URL}#x", False),
        ("", False),
    ],
)
def test_audience(pack: Pack, audience: str, accepted: bool) -> None:
    broken = pack.judge([job().set("httpTarget.oidcToken.audience", audience)]).rules
    assert broken == ([] if accepted else ["scheduler-oidc-audience"])


@pytest.mark.parametrize(
    "header",
    [
        "Host",
        "user-agent",
        "Content-Length",
        "AUTHORIZATION",
        "X-CloudScheduler",
        "X-CloudScheduler-ScheduleTime",
        "x-google-anything",
        "X-AppEngine-QueueName",
    ],
)
def test_reserved_header_is_refused_in_any_case(pack: Pack, header: str) -> None:
    report = pack.judge([job().set(f"httpTarget.headers.{header}", NOT_YET)])
    assert report.rules == ["scheduler-reserved-headers"]


def test_headers_of_other_names_are_accepted(pack: Pack) -> None:
    headers = {"Content-Type": "application/json", "X-Scheduler-Function": "report", "X-Host": "a"}
    changed = job()
    for name, value in headers.items():
        changed = changed.set(f"httpTarget.headers.{name}", value)
    assert pack.judge([changed]).rules == []


def test_identity_headers_are_found_in_any_case(pack: Pack) -> None:
    headers = {"x-scheduler-project": "acme", "X-SCHEDULER-REGION": "europe-west6"}
    assert pack.judge([job().set("httpTarget.headers", headers)]).rules == []


def test_empty_identity_header_is_missing(pack: Pack) -> None:
    report = pack.judge([job().set("httpTarget.headers.X-Scheduler-Project", "")])
    assert report.rules == ["scheduler-identity-headers"]


def test_other_identity_headers_can_be_required(pack: Pack) -> None:
    config = {"scheduler-identity-headers": {"headers": ["X-Tenant"]}}
    report = pack.judge([job()], config)
    assert report.messages("scheduler-identity-headers") == ["the header X-Tenant is missing."]


def test_app_engine_job_is_judged_by_its_own_headers(pack: Pack) -> None:
    assert pack.judge([app_engine_job()]).rules == []
    without = app_engine_job().drop("appEngineHttpTarget.headers")
    assert pack.judge([without]).rules == ["scheduler-identity-headers"]
    agent = app_engine_job().set("appEngineHttpTarget.headers.User-Agent", "acme")
    assert pack.judge([agent]).rules == []


def test_pubsub_job_needs_no_http_settings(pack: Pack) -> None:
    target = {"topicName": "projects/acme/topics/ticks", "data": "dGljaw=="}
    assert pack.judge([job().drop("httpTarget").set("pubsubTarget", target)]).rules == []


@pytest.mark.parametrize(
    ("url", "starts"),
    [
        (f"{GOOGLE}/executions", True),
        (GOOGLE, False),
        ("https://run.googleapis.com/v2/projects/p/locations/l/jobs/j:run", True),
        ("https://europe-west6-run.googleapis.com/apis/run/v1/namespaces/p/jobs/j:run", True),
        ("https://cloudbuild.googleapis.com/v1/projects/p/locations/l/triggers/t:run", True),
        ("https://cloudbuild.googleapis.com/v1/projects/p/builds", True),
        ("https://dataflow.googleapis.com/v1b3/projects/p/locations/l/templates:launch", True),
        ("https://batch.googleapis.com/v1/projects/p/locations/l/jobs", True),
        ("https://storage.googleapis.com/storage/v1/b", False),
        ("https://secretmanager.googleapis.com/v1/projects/p/secrets/s:run", False),
    ],
)
def test_direct_start(pack: Pack, url: str, starts: bool) -> None:
    direct = (
        job()
        .set("httpTarget.uri", url)
        .drop("httpTarget.oidcToken")
        .set("httpTarget.oauthToken", {"serviceAccountEmail": CALLER})
    )
    assert pack.judge([direct]).rules == (["scheduler-direct-start"] if starts else [])


def test_wrong_token_of_a_direct_start_is_one_violation(pack: Pack) -> None:
    account = {"serviceAccountEmail": CALLER}
    direct = job().set("httpTarget.uri", f"{GOOGLE}/executions").drop("httpTarget.headers")
    without = direct.drop("httpTarget.oidcToken")
    assert pack.judge([without]).rules == ["scheduler-token"]
    both = direct.set("httpTarget.oauthToken", account)
    assert pack.judge([both]).rules == ["scheduler-token-kind"]


def test_oauth_token_must_not_leave_google(pack: Pack) -> None:
    for url in (URL, "https://googleapis.com.example.org/", "https://notgoogleapis.com/"):
        leaking = (
            job()
            .set("httpTarget.uri", url)
            .drop("httpTarget.oidcToken")
            .set("httpTarget.oauthToken", {"serviceAccountEmail": CALLER})
        )
        assert pack.judge([leaking]).rules == ["scheduler-token-kind"]


def test_two_tokens_are_refused_although_the_url_is_not_known(pack: Pack) -> None:
    both = (
        job()
        .set("httpTarget.uri", NOT_YET)
        .set("httpTarget.oauthToken", {"serviceAccountEmail": CALLER})
    )
    assert "scheduler-token-kind" in pack.judge([both]).rules


STRANGER = "https://hooks.example.com/nightly"


class TestTokenForWhom:
    def without_token(self, url: object) -> Declared:
        return job().set("httpTarget.uri", url).drop("httpTarget.oidcToken")

    @pytest.mark.parametrize(
        "url",
        [
            "https://handler-x4mp7q-oa.a.run.app/run",
            "https://HANDLER-X4MP7Q-oa.a.RUN.APP./run",
            "https://europe-west6-acme.cloudfunctions.net/report",
            "https://acme.ew.r.appspot.com/tasks",
            "https://storage.googleapis.com/storage/v1/b",
            "https://jobs-7tx.ew.gateway.dev/run",
            NOT_YET,
        ],
    )
    def test_google_cloud_and_unknown_urls_get_one(self, pack: Pack, url: object) -> None:
        assert "scheduler-token" in pack.judge([self.without_token(url)]).rules

    @pytest.mark.parametrize("url", [STRANGER, "https://run.app.example.com", "https://notrun.app"])
    def test_a_stranger_gets_none(self, pack: Pack, url: str) -> None:
        plain = self.without_token(url).drop("httpTarget.headers")
        report = pack.judge([plain])
        assert report.rules == []
        assert not report.cannot_run

    def test_own_domain_gets_one(self, pack: Pack) -> None:
        config = {"scheduler-token": {"ownHosts": ["*.Example.com"]}}
        assert pack.judge([self.without_token(STRANGER)], config).rules == ["scheduler-token"]
        other = self.without_token("https://example.org/")
        assert pack.judge([other], config).rules == []


class TestWhoNeedsIdentityHeaders:
    RULE = "scheduler-identity-headers"
    PLAIN = job().drop("httpTarget.headers").set("attemptDeadline", "300s")

    @pytest.mark.parametrize("url", [URL, Reference("handler", "uri")])
    @pytest.mark.parametrize("variable", ["ONCE_STORE", "ONCE_LEASE_SECONDS"])
    def test_a_job_of_a_handler(self, pack: Pack, url: object, variable: str) -> None:
        plain = self.PLAIN.set("httpTarget.uri", url)
        assert self.RULE in pack.judge([once_service(variable), plain]).rules

    @pytest.mark.parametrize("url", [URL, Reference("handler", "uri")])
    def test_not_a_job_of_another_service(self, pack: Pack, url: object) -> None:
        for target in (service(), service_v1()):
            report = pack.judge([target, self.PLAIN.set("httpTarget.uri", url)])
            assert self.RULE not in report.rules
            assert self.RULE not in report.cannot_run

    def test_not_a_job_of_another_function(self, pack: Pack) -> None:
        plain = self.PLAIN.set("httpTarget.uri", Reference("upload", "url"))
        for target, variables in (
            (function(), "serviceConfig.environmentVariables"),
            (function_v1(), "environmentVariables"),
        ):
            report = pack.judge([target, plain])
            assert self.RULE not in report.rules
            assert self.RULE not in report.cannot_run
            handler = target.set(f"{variables}.ONCE_STORE", "firestore://acme/runs")
            assert self.RULE in pack.judge([handler, plain]).rules

    def test_a_job_of_a_service_elsewhere(self, pack: Pack) -> None:
        for url in (URL, NOT_YET):
            report = pack.judge([service("site"), self.PLAIN.set("httpTarget.uri", url)])
            assert self.RULE in report.rules

    def test_a_job_with_a_token_for_an_own_domain(self, pack: Pack) -> None:
        assert pack.judge([self.PLAIN.set("httpTarget.uri", STRANGER)]).rules == [self.RULE]

    def test_a_job_of_two_services_of_which_one_is_a_handler(self, pack: Pack) -> None:
        plain = self.PLAIN.set("httpTarget.uri", Reference("handler", "uri")).set(
            "httpTarget.oidcToken.audience", Reference("other", "uri")
        )
        assert self.RULE in pack.judge([once_service("ONCE_STORE"), service("other"), plain]).rules

    def test_unknown_environment_cannot_be_judged(self, pack: Pack) -> None:
        unknown = service().set("template.containers.0.envs", NOT_YET)
        report = pack.judge([unknown, self.PLAIN])
        assert self.RULE not in report.rules
        assert self.RULE in report.cannot_run

    def test_allowed_job(self, pack: Pack) -> None:
        config = {self.RULE: {"allow": {"nightly": "calls the shop of another stack"}}}
        assert pack.judge([self.PLAIN], config).rules == []
        assert pack.judge([self.PLAIN.set("name", "other")], config).rules == [self.RULE]


class TestTargetOfAJob:
    """A job and its service are joined by the URL, or by what the URL was made from."""

    def deadline_is_compared(self, pack: Pack, *program: Declared) -> bool:
        report = pack.judge(program)
        assert not report.cannot_run & {"scheduler-deadline-covers-timeout"}
        return "scheduler-deadline-covers-timeout" in report.rules

    def test_by_the_url_with_the_project_number(self, pack: Pack) -> None:
        assert self.deadline_is_compared(pack, service(), job())
        for other in (URL.replace("handler", "other"), URL.replace("west6", "west1")):
            assert not self.deadline_is_compared(
                pack, service(), job().set("httpTarget.uri", other)
            )

    def test_by_the_url_with_a_path(self, pack: Pack) -> None:
        assert self.deadline_is_compared(pack, service(), job().set("httpTarget.uri", f"{URL}/a"))

    def test_by_the_url_that_the_service_got(self, pack: Pack) -> None:
        url = "https://handler-x4mp7q-oa.a.run.app"
        made = service().set("uri", url)
        assert self.deadline_is_compared(pack, made, job().set("httpTarget.uri", f"{url}/run"))

    def test_not_by_any_url_that_a_service_got(self, pack: Pack) -> None:
        made = service().set("uri", "https://handler-x4mp7q-oa.a.run.app")
        elsewhere = job().set("httpTarget.uri", "https://jobs.acme.example/run")
        assert not self.deadline_is_compared(pack, made, elsewhere)

    def test_by_the_service_that_an_unknown_url_comes_from(self, pack: Pack) -> None:
        unknown = job().set("httpTarget.uri", Reference("handler", "uri"))
        report = pack.judge([service(), unknown])
        assert "scheduler-deadline-covers-timeout" in report.rules

    def test_an_unknown_url_of_two_services_cannot_be_judged(self, pack: Pack) -> None:
        other = service("other")
        unknown = (
            job()
            .set("httpTarget.uri", Reference("handler", "uri"))
            .set("httpTarget.oidcToken.audience", Reference("other", "uri"))
        )
        report = pack.judge([service(), other, unknown])
        assert "scheduler-deadline-covers-timeout" in report.cannot_run

    def test_a_service_of_the_first_version(self, pack: Pack) -> None:
        long = service_v1().set("template.spec.timeoutSeconds", 900)
        assert self.deadline_is_compared(pack, long, job().set("attemptDeadline", "600s"))
        assert not self.deadline_is_compared(pack, long, job().set("attemptDeadline", "900s"))


class TestOneMistakeIsOneViolation:
    def test_raised_timeout_is_named_by_the_lease_alone(self, pack: Pack) -> None:
        raised = once_service("ONCE_LEASE_SECONDS", "ONCE_STORE").set("template.timeout", "1800s")
        assert pack.judge([raised, timed_job()]).rules == ["cloud-run-lease"]

    def test_lease_as_long_as_the_timeout_leaves_the_job_to_its_own_rules(self, pack: Pack) -> None:
        equal = once_service("ONCE_LEASE_SECONDS").set("template.containers.0.envs.0.value", "300")
        short = timed_job().set("attemptDeadline", "180s")
        assert pack.judge([equal, short]).rules == ["scheduler-deadline-covers-timeout"]

    def test_raised_timeout_and_lease_are_named_by_the_job(self, pack: Pack) -> None:
        raised = (
            once_service("ONCE_LEASE_SECONDS")
            .set("template.timeout", "1800s")
            .set("template.containers.0.envs.0.value", "1860")
        )
        broken = ["scheduler-deadline-covers-timeout", "scheduler-retry-after-lease"]
        assert pack.judge([raised, timed_job()]).rules == broken


class TestRetryAfterLease:
    """With a timeout of 300 s, a lease of 360 s and waits of up to 60 s, 720 s are needed."""

    @pytest.mark.parametrize(
        ("retries", "passes"),
        [
            ({"maxRetryDuration": "720s", "maxBackoffDuration": "60s"}, True),
            ({"maxRetryDuration": "719s", "maxBackoffDuration": "60s"}, False),
            ({"maxRetryDuration": "720s"}, False),  # the wait at its end is 320 s
            ({"maxRetryDuration": "980s"}, True),
            ({}, False),
            ({"retryCount": 5}, False),  # 5 + 10 + 20 + 40 + 80 s
            ({"retryCount": 5, "minBackoffDuration": "72s", "maxDoublings": 0}, True),
            ({"retryCount": 5, "minBackoffDuration": "20s"}, True),  # 20 + 40 + ... + 320 s
            ({"retryCount": 5, "minBackoffDuration": "1s", "maxBackoffDuration": "1s"}, False),
            ({"retryCount": 5, "minBackoffDuration": "0s"}, False),
        ],
    )
    def test_window_or_count(self, pack: Pack, retries: dict[str, object], passes: bool) -> None:
        program = [once_service("ONCE_LEASE_SECONDS"), timed_job().set("retryConfig", retries)]
        assert pack.judge(program).rules == ([] if passes else ["scheduler-retry-after-lease"])

    def test_violation_names_the_window_that_works(self, pack: Pack) -> None:
        short = timed_job().set("retryConfig.maxRetryDuration", "300s")
        report = pack.judge([once_service("ONCE_LEASE_SECONDS"), short])
        (message,) = report.messages("scheduler-retry-after-lease")
        assert 'max_retry_duration="720s"' in message
        fixed = short.set("retryConfig.maxRetryDuration", "720s")
        assert pack.judge([once_service("ONCE_LEASE_SECONDS"), fixed]).rules == []

    def test_lease_of_others_comes_from_the_settings(self, pack: Pack) -> None:
        elsewhere = job().set("httpTarget.uri", "https://jobs.acme.example/run")
        assert pack.judge([elsewhere]).rules == []
        config = {"scheduler-retry-after-lease": {"leaseSeconds": 600}}
        assert pack.judge([elsewhere], config).rules == ["scheduler-retry-after-lease"]
        enough = elsewhere.set("retryConfig", {"maxRetryDuration": "1200s"})
        assert pack.judge([enough], config).rules == []

    def test_own_lease_wins_over_the_settings(self, pack: Pack) -> None:
        config = {"scheduler-retry-after-lease": {"leaseSeconds": 7200}}
        assert pack.judge([once_service("ONCE_LEASE_SECONDS"), timed_job()], config).rules == []

    def test_broken_job_is_named_although_another_is_not_known(self, pack: Pack) -> None:
        unknown = timed_job("other").set("retryConfig.maxRetryDuration", NOT_YET)
        program = [once_service("ONCE_LEASE_SECONDS"), unknown, timed_job().drop("retryConfig")]
        report = pack.judge(program)
        assert [name for _, name, _ in report.violations] == ["nightly"]
        assert report.cannot_run >= {"scheduler-retry-after-lease"}


def test_waits_are_those_of_the_reference() -> None:
    """The example of Google's own page on retries: 10 s, 300 s and 3 doublings."""
    waits = Retries(
        min_backoff=timedelta(seconds=10), max_backoff=timedelta(seconds=300), doublings=3
    ).waits()
    found = [wait.total_seconds() for wait in islice(waits, 8)]
    assert found == [10, 20, 40, 80, 160, 240, 300, 300]


def test_wait_that_ends_with_the_lease_is_the_one_that_counts() -> None:
    """10 + 20 + 40 + 80 s: a lease of exactly that ends with the fourth wait."""
    retries = Retries(min_backoff=timedelta(seconds=10))
    assert retries.after_lease(timedelta(seconds=150)) == (4, timedelta(seconds=80))
    assert retries.after_lease(timedelta(seconds=151)) == (5, timedelta(seconds=160))
