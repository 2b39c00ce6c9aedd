"""Workflows, Cloud Run jobs and Cloud Build on loopback: what the handler's starters talk to.

    with Apis() as apis:
        apis.add("projects/p/locations/l/workflows/w", play=call_my_function)
        environment = {"ONCE_API_ENDPOINTS": json.dumps(apis.endpoints)}
        apis.on_start("projects/p/locations/l/workflows/w", LOST_ANSWER)
        ...
        assert len(apis.started("projects/p/locations/l/workflows/w")) == 1

A target that was not added is a 404. Requests and answers are held to Google's discovery documents,
so a wrong field, type, path, query parameter or `fields` mask is the 400 that the API would answer.
As with the real APIs, each accepted start makes a new operation, whatever token it carries.
"""

import itertools
import json
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from local.discovery import DOCUMENTS, BadRequest, Document, Method
from tools.serving import serving

Json = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """Something that an API started.

    Parameters
    ----------
    target
        Full name of the workflow, job or trigger.
    token
        The idempotency token that came with the start, wherever the target reads it.
    request
        The start's body.
    resource
        The execution or build as the API shows it.
    created
        When it was accepted.
    """

    target: str
    token: str | None
    request: Json
    resource: Json
    created: datetime

    @property
    def name(self) -> str:
        return str(self.resource["name"])


Play = Callable[[Operation], None]
"""Does what the target would do; called once per operation, in a thread of its own."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request.

    Parameters
    ----------
    accepts
        Whether it takes effect all the same.
    status, reason
        The refusal that is answered; None: what the API really answers.
    closes
        Closes the connection in place of an answer.
    garbles
        Answers 200 with a page of HTML.
    wait
        Called before the answer, after the effect.
    """

    accepts: bool = True
    status: int | None = None
    reason: str = ""
    closes: bool = False
    garbles: bool = False
    wait: Callable[[], object] | None = None


LOST_ANSWER = Fault(closes=True)
"""Accepted, and the connection is cut before the answer."""
LOST_REQUEST = Fault(accepts=False, closes=True)
"""Not accepted, and the connection is cut."""
UNREADABLE = Fault(garbles=True)
"""Accepted, and answered with what is not JSON."""
BAD_GATEWAY = Fault(status=502)
"""Accepted, and answered with an error by something in between."""
UNAVAILABLE = Fault(accepts=False, status=503, reason="UNAVAILABLE")
TOO_MANY = Fault(accepts=False, status=429, reason="RESOURCE_EXHAUSTED")
DENIED = Fault(accepts=False, status=403, reason="PERMISSION_DENIED")
INVALID = Fault(accepts=False, status=400, reason="INVALID_ARGUMENT")
NOT_READY = Fault(accepts=False, status=400, reason="FAILED_PRECONDITION")


def slow(seconds: float) -> Fault:
    """Accept at once and answer late."""
    return Fault(wait=lambda: time.sleep(seconds))


@dataclass
class _Target:
    play: Play | None
    on_start: deque[Fault] = field(default_factory=deque)
    on_look: deque[Fault] = field(default_factory=deque)


class Apis:
    """The three APIs, on one port, with what they started in memory.

    Parameters
    ----------
    list_lag
        How long a new operation is missing from lists.
    page_size
        The most that one page of a list holds.
    accept
        Told the token of each start that `on_start` says nothing of, before the answer; it returns
        what goes wrong with that.
    port
        Where to listen; 0: a free port.
    """

    def __init__(
        self,
        *,
        list_lag: timedelta = timedelta(0),
        page_size: int = 100,
        accept: Callable[[str | None], Fault] = lambda _: Fault(),
        port: int = 0,
    ) -> None:
        self.list_lag = list_lag
        self._page_size = page_size
        self._accept = accept
        self._lock = threading.Lock()
        self._targets: dict[str, _Target] = {}
        self._operations: list[Operation] = []
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.apis = self
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(serving(self._server))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def endpoints(self) -> dict[str, str]:
        """The base URLs, as ONCE_API_ENDPOINTS takes them."""
        port = self._server.server_address[1]
        return {api: f"http://127.0.0.1:{port}/{api}" for api in DOCUMENTS}

    def add(self, name: str, play: Play | None = None) -> None:
        """Make a target that can be started, by its full name."""
        self._targets[name] = _Target(play)

    def on_start(self, name: str, *faults: Fault) -> None:
        """Let the next starts of a target go wrong, one fault each."""
        self._targets[name].on_start.extend(faults)

    def on_look(self, name: str, *faults: Fault) -> None:
        """Let the next lists of a target's operations go wrong, one fault each."""
        self._targets[name].on_look.extend(faults)

    def started(self, name: str | None = None) -> list[Operation]:
        """Return what was started, of one target or of all, the oldest first."""
        with self._lock:
            return [it for it in self._operations if name in (None, it.target)]

    # --- Requests ---------------------------------------------------------------------------------

    def answer(self, http_method: str, url: str, body: bytes) -> "tuple[int, bytes] | None":
        """Answer a request; None: close the connection instead."""
        parts = urlsplit(url)
        _, api, path = parts.path.split("/", 2)
        document = Document.of(api)
        try:
            request = document.request(http_method, path, parts.query, body)
            kind = _KINDS.get(request.method.id)
            if kind is None:
                return _error(501, "UNIMPLEMENTED", f"{request.method.id} is not played here")
            (parent,) = request.names.values()
            if kind.starts:
                answer, fault = self._start(kind, parent, request.body)
            else:
                answer, fault = self._list(kind, parent, request.query)
            return _spoilt(document, request.method, request.query, answer, fault)
        except LookupError as error:
            return _error(404, "NOT_FOUND", str(error.args[0]))
        except BadRequest as error:
            return _error(400, "INVALID_ARGUMENT", str(error))

    def _start(self, kind: "_Kind", name: str, body: Json) -> tuple[Json, Fault]:
        with self._lock:
            target = self._target(name)
            told = bool(target.on_start)
            fault = target.on_start.popleft() if told else self._accept(kind.token(body))
            if not fault.accepts:
                return {}, fault
            created = datetime.now(UTC)
            resource = kind.make(name, body, _stamp(created))
            operation = Operation(name, kind.token(body), body, resource, created)
            self._operations.append(operation)
        if target.play is not None:
            threading.Thread(target=target.play, args=(operation,), daemon=True).start()
        return kind.accepted(operation), fault

    def _list(self, kind: "_Kind", parent: str, query: Mapping[str, Any]) -> tuple[Json, Fault]:
        with self._lock:
            names = [name for name in self._targets if kind.lists(parent, name)]
            if not names and kind.field == "executions":
                self._target(parent)
            faults = (self._targets[name].on_look for name in names)
            fault = next((it.popleft() for it in faults if it), Fault())
            seen = datetime.now(UTC) - self.list_lag
            found = [it for it in self._operations if it.target in names and it.created <= seen]
        since = _created_since(query.get("filter", ""))
        resources = [kind.shown(it, query) for it in reversed(found) if it.created >= since]
        size = min(query.get("pageSize") or self._page_size, self._page_size)
        first = int(query.get("pageToken") or 0)
        answer: Json = {kind.field: resources[first : first + size]}
        if first + size < len(resources):
            answer["nextPageToken"] = str(first + size)
        return answer, fault

    def _target(self, name: str) -> _Target:
        if name not in self._targets:
            raise LookupError(f"{name} was not found")
        return self._targets[name]


def _spoilt(
    document: Document, method: Method, query: Mapping[str, Any], answer: Json, fault: Fault
) -> tuple[int, bytes] | None:
    if fault.wait is not None:
        fault.wait()
    if fault.closes:
        return None
    if fault.garbles:
        return 200, b"<html>welcome</html>"
    if fault.status is not None:
        return _error(fault.status, fault.reason, "as the stand-in was told")
    document.check(method.response, answer, written=False)
    if "fields" in query:
        answer = document.masked(method.response, answer, query["fields"])
    return 200, json.dumps(answer).encode()


def _error(status: int, reason: str, message: str) -> tuple[int, bytes]:
    """Make an error as Google's APIs do. Source: https://google.aip.dev/193."""
    error = {"code": status, "message": message, "status": reason}
    return status, json.dumps({"error": error}).encode()


def _created_since(text: str) -> datetime:
    if not text:
        return datetime.min.replace(tzinfo=UTC)
    match = re.fullmatch(r'createTime>="([^"]+)"', text)
    if match is None:
        raise BadRequest(f'this stand-in reads no filter but createTime>="...", not {text!r}')
    return datetime.fromisoformat(match[1])


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# --- The three APIs -------------------------------------------------------------------------------


class _Kind:
    """How one API starts and lists; `starts` tells which of the two a method does."""

    field = "executions"

    def __init__(self, *, starts: bool) -> None:
        self.starts = starts

    def token(self, body: Json) -> str | None:
        raise NotImplementedError

    def make(self, name: str, body: Json, created: str) -> Json:
        raise NotImplementedError

    def accepted(self, operation: Operation) -> Json:
        raise NotImplementedError

    def lists(self, parent: str, target: str) -> bool:
        return parent == target

    def shown(self, operation: Operation, query: Mapping[str, Any]) -> Json:
        return operation.resource


class _Workflows(_Kind):
    _BASIC = ("name", "startTime", "endTime", "duration", "state", "workflowRevisionId")

    def token(self, body: Json) -> str | None:
        try:
            argument = json.loads(body.get("argument", "null"))
        except ValueError:
            raise BadRequest("argument must be JSON") from None
        found = argument.get("idempotency_token") if isinstance(argument, dict) else None
        return found if isinstance(found, str) else None

    def make(self, name: str, body: Json, created: str) -> Json:
        for key, value in body.get("labels", {}).items():
            if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key) or not re.fullmatch(
                r"[a-z0-9_-]{0,63}", value
            ):
                raise BadRequest(f"label {key}={value} is not allowed")
        return {
            **body,
            "name": f"{name}/executions/{uuid.uuid4()}",
            "createTime": created,
            "startTime": created,
            "state": "ACTIVE",
            "workflowRevisionId": "000001-a1b",
        }

    def accepted(self, operation: Operation) -> Json:
        return operation.resource

    def shown(self, operation: Operation, query: Mapping[str, Any]) -> Json:
        if query.get("view") == "FULL":
            return operation.resource
        return {key: operation.resource[key] for key in self._BASIC if key in operation.resource}


class _Jobs(_Kind):
    _numbers = itertools.count(1)

    def token(self, body: Json) -> str | None:
        for override in body.get("overrides", {}).get("containerOverrides", []):
            for variable in override.get("env", []):
                if variable["name"] == "IDEMPOTENCY_TOKEN":
                    return str(variable["value"])
        return None

    def make(self, name: str, body: Json, created: str) -> Json:
        job = name.rsplit("/", 1)[1]
        container: Json = {"image": "example/image", "env": [{"name": "OWN", "value": "kept"}]}
        for override in body.get("overrides", {}).get("containerOverrides", []):
            env = {it["name"]: it for it in container["env"] + override.get("env", [])}
            container["env"] = list(env.values())
            if override.get("args"):
                container["args"] = override["args"]
        return {
            "name": f"{name}/executions/{job}-{next(self._numbers):05x}",
            "uid": str(uuid.uuid4()),
            "job": job,
            "createTime": created,
            "template": {"containers": [container]},
        }

    def accepted(self, operation: Operation) -> Json:
        kind = "type.googleapis.com/google.cloud.run.v2.Execution"
        place = operation.target.split("/jobs/")[0]
        return {
            "name": f"{place}/operations/{uuid.uuid4()}",
            "metadata": {"@type": kind, **operation.resource},
        }


class _Builds(_Kind):
    field = "builds"

    def token(self, body: Json) -> str | None:
        found = body.get("source", {}).get("substitutions", {}).get("_IDEMPOTENCY_TOKEN")
        return found if isinstance(found, str) else None

    def make(self, name: str, body: Json, created: str) -> Json:
        place, trigger = name.split("/triggers/")
        for key in body.get("source", {}).get("substitutions", {}):
            if not re.fullmatch(r"_[A-Z0-9_]+", key):
                raise BadRequest(f"substitution {key} is not allowed")
        build = str(uuid.uuid4())
        own = {"TRIGGER_NAME": trigger, "REF_NAME": body.get("source", {}).get("branchName", "")}
        return {
            "id": build,
            "name": f"{place}/builds/{build}",
            "status": "QUEUED",
            "createTime": created,
            "buildTriggerId": trigger,
            "substitutions": {**own, **body.get("source", {}).get("substitutions", {})},
        }

    def accepted(self, operation: Operation) -> Json:
        kind = "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata"
        project = operation.target.split("/")[1]
        return {
            "name": f"operations/build/{project}/{operation.resource['id']}",
            "metadata": {"@type": kind, "build": operation.resource},
        }

    def lists(self, parent: str, target: str) -> bool:
        return target.startswith(f"{parent}/triggers/")


_KINDS: Mapping[str, _Kind] = {
    "workflowexecutions.projects.locations.workflows.executions.create": _Workflows(starts=True),
    "workflowexecutions.projects.locations.workflows.executions.list": _Workflows(starts=False),
    "run.projects.locations.jobs.run": _Jobs(starts=True),
    "run.projects.locations.jobs.executions.list": _Jobs(starts=False),
    "cloudbuild.projects.locations.triggers.run": _Builds(starts=True),
    "cloudbuild.projects.locations.builds.list": _Builds(starts=False),
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    apis: Apis

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away; print the rest."""
        with suppress(ConnectionError, TimeoutError):
            raise


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "Authorization" in self.headers:
            answer: tuple[int, bytes] | None = _error(400, "", "credentials sent without TLS")
        else:
            answer = self.server.apis.answer(self.command, self.path, body)
        if answer is None:
            self.close_connection = True
            return
        status, content = answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet: what was started is what matters."""
