"""The stand-ins refuse what Google's discovery documents do not allow, and answer within them."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from local.apis import Apis
from tests.starts.conftest import PLACE, TARGETS

EXECUTIONS = f"v1/{TARGETS[0].name}/executions"
RUN = f"v2/{TARGETS[1].name}:run"
JOB_EXECUTIONS = f"v2/{TARGETS[1].name}/executions"
TRIGGER = f"v1/{TARGETS[2].name}:run"
BUILDS = f"v1/{PLACE}/builds"


def call(
    apis: Apis, api: str, path: str, query: dict[str, Any] | None = None, body: object = None
) -> tuple[int, Any]:
    base = urlsplit(apis.endpoints[api])
    connection = http.client.HTTPConnection(base.netloc, timeout=10)
    try:
        url = f"{base.path}/{path}?{urlencode(query or {})}".rstrip("?")
        connection.request(
            "GET" if body is None else "POST", url, None if body is None else json.dumps(body)
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def override(**fields: object) -> dict[str, Any]:
    return {"overrides": {"containerOverrides": [fields]}}


@pytest.mark.parametrize(
    ("api", "path", "body", "problem"),
    [
        ("workflowexecutions", EXECUTIONS, {"arguments": "{}"}, "unknown name 'arguments'"),
        ("workflowexecutions", EXECUTIONS, {"argument": {}}, "argument: needs string"),
        ("workflowexecutions", EXECUTIONS, {"argument": "{"}, "argument must be JSON"),
        ("workflowexecutions", EXECUTIONS, {"labels": {"a": 1}}, "labels.a: needs string"),
        ("workflowexecutions", EXECUTIONS, {"labels": {"Token": ""}}, "label Token"),
        ("workflowexecutions", EXECUTIONS, {"labels": {"a": "b" * 64}}, "is not allowed"),
        ("workflowexecutions", EXECUTIONS, {"name": "mine"}, "name: is output only"),
        ("workflowexecutions", EXECUTIONS, {"callLogLevel": "ALL"}, "is none of"),
        ("run", RUN, override(environment=[]), "unknown name 'environment'"),
        ("run", RUN, override(env={"A": "b"}), "env: needs array"),
        ("run", RUN, override(env=[{"name": "A", "value": 1}]), "value: needs string"),
        ("run", RUN, override(args="a"), "args: needs array"),
        ("cloudbuild", TRIGGER, {"source": {"substitutions": {"_A": 1}}}, "needs string"),
        ("cloudbuild", TRIGGER, {"source": {"substitutions": {"A": ""}}}, "is not allowed"),
        ("cloudbuild", TRIGGER, {"source": {"branch": "main"}}, "unknown name 'branch'"),
        ("cloudbuild", TRIGGER, [], "needs object"),
    ],
)
def test_start_that_the_document_does_not_allow_is_refused(
    api: str, path: str, body: object, problem: str, apis: Apis
) -> None:
    before = len(apis.started())

    status, answer = call(apis, api, path, body=body)

    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert problem in answer["error"]["message"]
    assert len(apis.started()) == before


@pytest.mark.parametrize(
    ("api", "path", "query", "problem"),
    [
        ("workflowexecutions", EXECUTIONS, {"view": "ALL"}, "is none of"),
        ("workflowexecutions", EXECUTIONS, {"pageSize": "many"}, "needs integer"),
        ("workflowexecutions", EXECUTIONS, {"labels": "a"}, "no query parameter 'labels'"),
        ("workflowexecutions", EXECUTIONS, {"fields": "executions(label)"}, "'label' is not"),
        ("workflowexecutions", EXECUTIONS, {"fields": "executions(name"}, "not closed"),
        ("run", JOB_EXECUTIONS, {"filter": "a"}, "no query parameter 'filter'"),
        ("run", JOB_EXECUTIONS, {"showDeleted": "yes"}, "needs boolean"),
        ("cloudbuild", BUILDS, {"fields": "builds/tag"}, "'tag' is not"),
    ],
)
def test_list_that_the_document_does_not_allow_is_refused(
    api: str, path: str, query: dict[str, Any], problem: str, apis: Apis
) -> None:
    status, answer = call(apis, api, path, query)

    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert problem in answer["error"]["message"]


@pytest.mark.parametrize(
    ("api", "path"),
    [
        ("workflowexecutions", f"v1/{PLACE}/executions"),
        ("workflowexecutions", f"v2/{TARGETS[0].name}/executions"),
        ("run", f"v2/{TARGETS[1].name}:start"),
        ("cloudbuild", f"v1/{PLACE}/triggers:run"),
    ],
)
def test_path_that_no_method_has_is_not_found(api: str, path: str, apis: Apis) -> None:
    assert call(apis, api, path, body={})[0] == 404


def test_view_without_labels_is_the_default(apis: Apis) -> None:
    _, started = call(apis, "workflowexecutions", EXECUTIONS, body={"labels": {"a": "b"}})

    (basic,) = call(apis, "workflowexecutions", EXECUTIONS, {"pageSize": 1})[1]["executions"]
    query = {"pageSize": 1, "view": "FULL"}
    (full,) = call(apis, "workflowexecutions", EXECUTIONS, query)[1]["executions"]

    assert basic["name"] == full["name"] == started["name"]
    assert "labels" not in basic
    assert full["labels"] == {"a": "b"}
