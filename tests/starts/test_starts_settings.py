"""What ONCE_STARTS and ONCE_API_ENDPOINTS may say, and how the process says what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from once.run import Run
from once.service import Service
from once.settings import load

from tests.starts.conftest import TARGETS
from tests.support.handler import MAIN, Handler
from tests.support.lab import Lab

WORKFLOW = "projects/p/locations/l/workflows/w"
JOB = "projects/p/locations/l/jobs/j"
TRIGGER = "projects/p/locations/l/triggers/t"


def environment(starts: object = None, endpoints: object = None) -> dict[str, str]:
    found = {"ONCE_STORE": "sqlite:///unused.db"}
    if starts is not None:
        found["ONCE_STARTS"] = starts if isinstance(starts, str) else json.dumps(starts)
    if endpoints is not None:
        found["ONCE_API_ENDPOINTS"] = json.dumps(endpoints)
    return found


def test_every_kind_of_target_makes_a_function() -> None:
    starts = {target.function: target.entry for target in TARGETS}

    assert load(environment(starts)).starts.keys() == starts.keys()


def test_nothing_but_the_name_is_needed() -> None:
    starts = {
        "w": {"workflow": {"name": WORKFLOW}},
        "j": {"cloudRunJob": {"name": JOB}},
        "t": {"buildTrigger": {"name": TRIGGER, "branch": None}},
    }
    assert load(environment(starts)).starts.keys() == {"w", "j", "t"}


WRONG: dict[str, tuple[Any, str]] = {
    "no-json": ("{", "ONCE_STARTS is not JSON"),
    "no-object": ([], "ONCE_STARTS is not a JSON object"),
    "key-twice": ('{"a": {}, "a": {}}', "ONCE_STARTS has a key twice"),
    "too-large": ('{"a": {"workflow": {"argument": 1e999}}}', "ONCE_STARTS has 1e999"),
    "not-a-number": ('{"a": {"workflow": {"argument": NaN}}}', "ONCE_STARTS has NaN"),
    "no-kind": ({"a": {}}, '"a" must be an object with one of buildTrigger'),
    "two-kinds": (
        {"a": {"workflow": {"name": WORKFLOW}, "cloudRunJob": {"name": JOB}}},
        '"a" must be an object with one of',
    ),
    "unknown-kind": ({"a": {"function": {}}}, '"a" must be an object with one of'),
    "kind-is-no-object": ({"a": {"workflow": "w"}}, '"a".workflow must be an object'),
    "unknown-key": (
        {"a": {"workflow": {"name": WORKFLOW, "arguments": {}}}},
        '"a".workflow has unknown keys arguments: use argument, name',
    ),
    "no-name": ({"a": {"workflow": {}}}, '"a".workflow.name'),
    "short-name": ({"a": {"workflow": {"name": "w"}}}, "projects/PROJECT/locations/LOCATION"),
    "name-of-another-kind": ({"a": {"workflow": {"name": JOB}}}, '"a".workflow.name'),
    "name-with-a-query": ({"a": {"workflow": {"name": f"{WORKFLOW}?x"}}}, '"a".workflow.name'),
    "argument-is-no-object": (
        {"a": {"workflow": {"name": WORKFLOW, "argument": [1]}}},
        '"a".workflow.argument must be an object',
    ),
    "argument-with-our-key": (
        {"a": {"workflow": {"name": WORKFLOW, "argument": {"idempotency_token": 1}}}},
        '"a".workflow.argument.idempotency_token is where the run\'s own token goes',
    ),
    "env-with-our-key": (
        {"a": {"cloudRunJob": {"name": JOB, "env": {"IDEMPOTENCY_TOKEN": ""}}}},
        '"a".cloudRunJob.env.IDEMPOTENCY_TOKEN is where',
    ),
    "env-is-no-text": (
        {"a": {"cloudRunJob": {"name": JOB, "env": {"N": 1}}}},
        '"a".cloudRunJob.env must be an object of texts',
    ),
    "args-are-no-texts": (
        {"a": {"cloudRunJob": {"name": JOB, "args": [1]}}},
        '"a".cloudRunJob.args must be a list of texts',
    ),
    "substitutions-with-our-key": (
        {"a": {"buildTrigger": {"name": TRIGGER, "substitutions": {"_IDEMPOTENCY_TOKEN": ""}}}},
        '"a".buildTrigger.substitutions._IDEMPOTENCY_TOKEN is where',
    ),
    "branch-and-tag": (
        {"a": {"buildTrigger": {"name": TRIGGER, "branch": "main", "tag": "v1"}}},
        '"a".buildTrigger has a branch and a tag',
    ),
}


@pytest.mark.parametrize(("starts", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_start_is_named_in_one_line(starts: object, problem: str) -> None:
    with pytest.raises(SystemExit) as stop:
        load(environment(starts))

    message = str(stop.value)
    assert message.startswith("ONCE_STARTS ")
    assert problem in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("endpoints", "problem"),
    [
        ([], "is not a JSON object"),
        ({"storage": "https://storage.googleapis.com"}, "names 'storage'"),
        ({"run": "run.googleapis.com"}, "must be a base URL"),
        ({"run": "https://"}, "must be a base URL"),
        ({"run": "http://127.0.0.1:abc"}, "must be a base URL"),
        ({"run": "http://127.0.0.1:99999"}, "must be a base URL"),
        ({"run": "https://a b"}, "must be a base URL"),
        ({"run": "http://[::1"}, "must be a base URL"),
        ({"run": "http://evil.com\\@127.0.0.1"}, "must be a base URL"),
        ({"run": 1}, "must be a base URL"),
        ({"run": "ftp://127.0.0.1"}, "must be a base URL"),
        ({"run": "http://run.googleapis.com"}, "has no TLS"),
        ({"run": "http://10.0.0.1:8080"}, "has no TLS"),
        ({"run": "http://127.0.0.1.example.com"}, "has no TLS"),
    ],
)
def test_wrong_endpoint_is_named_in_one_line(endpoints: object, problem: str) -> None:
    with pytest.raises(SystemExit) as stop:
        load(environment(endpoints=endpoints))

    assert str(stop.value).startswith("ONCE_API_ENDPOINTS ")
    assert problem in str(stop.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://localhost:1/run/", "http://[::1]:1", "https://eu.example"]
)
def test_endpoint_with_tls_or_on_loopback_is_taken(url: str) -> None:
    load(environment(endpoints={"run": url}))


def test_name_of_a_function_is_refused() -> None:
    settings = load(environment({"report": {"workflow": {"name": WORKFLOW}}}))

    def report(run: Run) -> None: ...

    with pytest.raises(SystemExit, match="ONCE_STARTS names 'report', which is a function too"):
        Service(settings, jobs={"report": report})


def test_wrong_start_stops_the_process_with_one_line(lab: Lab) -> None:
    env = {**lab.backend.env(), "ONCE_STARTS": '{"nightly-report": {"workflow": {"name": "w"}}}'}
    handler = Handler(MAIN, lab.folder, env)

    assert handler.wait_until_ended() != 0

    (line,) = [each for each in handler.output().splitlines() if "ONCE_STARTS" in each]
    assert line.startswith('ONCE_STARTS "nightly-report".workflow.name')
