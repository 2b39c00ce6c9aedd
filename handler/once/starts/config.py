"""From ONCE_STARTS and ONCE_API_ENDPOINTS to job functions, with errors that name the entry."""

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from once.json_setting import parse_object
from once.run import Job
from once.starts import build_trigger, cloud_run_job, workflow
from once.starts.api import Api
from once.starts.build_trigger import BuildTrigger
from once.starts.cloud_run_job import CloudRunJob
from once.starts.starter import Starter
from once.starts.target import Json, Target
from once.starts.workflow import Workflow

DEFAULT_ENDPOINTS: Mapping[str, str] = {
    "workflowexecutions": "https://workflowexecutions.googleapis.com",
    "run": "https://run.googleapis.com",
    "cloudbuild": "https://cloudbuild.googleapis.com",
}


class _Form(NamedTuple):
    called: str
    fits: Callable[[Any], bool]


_TEXT = _Form("a text", lambda it: isinstance(it, str) and it != "")
_TEXTS = _Form("a list of texts", lambda it: isinstance(it, list) and _all_texts(it))
_TEXT_MAP = _Form("an object of texts", lambda it: isinstance(it, dict) and _all_texts(it.values()))
_OBJECT = _Form("an object", lambda it: isinstance(it, dict))


def _all_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)


def read_endpoints(text: str) -> dict[str, str]:
    """Read ONCE_API_ENDPOINTS over the public endpoints.

    Raises
    ------
    ValueError
        If it is wrong; the message continues a line that begins with the setting's name.
    """
    endpoints = dict(DEFAULT_ENDPOINTS)
    for api, url in parse_object(text, "base URLs").items():
        if api not in DEFAULT_ENDPOINTS:
            raise ValueError(f"names {api!r}: there are {_list(DEFAULT_ENDPOINTS)}")
        endpoints[api] = _base_url(api, url)
    return endpoints


def read_starts(text: str, endpoints: Mapping[str, str]) -> dict[str, Job]:
    """Read ONCE_STARTS into job functions by name.

    Raises
    ------
    ValueError
        If it is wrong; the message continues a line that begins with the setting's name.
    """
    entries = parse_object(text, "function names")
    jobs: dict[str, Job] = {}
    for function, entry in entries.items():
        target = _target(json.dumps(function), entry)
        jobs[function] = Starter(target, Api(endpoints[target.api]))
    return jobs


def _target(path: str, entry: object) -> Target:
    kinds: dict[str, Callable[[_Fields], Target]] = {
        "workflow": _workflow,
        "cloudRunJob": _cloud_run_job,
        "buildTrigger": _build_trigger,
    }
    kind, fields = next(iter(entry.items())) if isinstance(entry, dict) and entry else (None, None)
    if not isinstance(entry, dict) or len(entry) != 1 or kind not in kinds:
        raise ValueError(f"{path} must be an object with one of {_list(kinds)}")
    if not isinstance(fields, dict):
        raise ValueError(f"{path}.{kind} must be an object")
    reader = _Fields(f"{path}.{kind}", fields)
    target = kinds[kind](reader)
    reader.finish()
    return target


def _workflow(fields: "_Fields") -> Workflow:
    name = fields.name("workflows")
    return Workflow(name, fields.beside(workflow.TOKEN, "argument", _OBJECT))


def _cloud_run_job(fields: "_Fields") -> CloudRunJob:
    name = fields.name("jobs")
    args = fields.get("args", _TEXTS, [])
    return CloudRunJob(name, tuple(args), fields.beside(cloud_run_job.TOKEN, "env", _TEXT_MAP))


def _build_trigger(fields: "_Fields") -> BuildTrigger:
    name = fields.name("triggers")
    branch, tag = fields.get("branch", _TEXT, None), fields.get("tag", _TEXT, None)
    if branch and tag:
        raise ValueError(f"{fields.path} has a branch and a tag: give one")
    substitutions = fields.beside(build_trigger.TOKEN, "substitutions", _TEXT_MAP)
    return BuildTrigger(name, branch, tag, substitutions)


class _Fields:
    """Takes the known keys out of an object, so that what is left is unknown."""

    def __init__(self, path: str, fields: Json) -> None:
        self.path = path
        self._fields = dict(fields)
        self._known: list[str] = []

    def get(self, key: str, form: _Form, default: Any) -> Any:
        self._known.append(key)
        value = self._fields.pop(key, None)
        if value is None:
            return default
        if not form.fits(value):
            raise ValueError(f"{self.path}.{key} must be {form.called}")
        return value

    def name(self, collection: str) -> str:
        pattern = rf"projects/[\w.:-]+/locations/[\w-]+/{collection}/[\w.-]+"
        name = self.get("name", _TEXT, None)
        if name is None or not re.fullmatch(pattern, name, re.ASCII):
            form = f"projects/PROJECT/locations/LOCATION/{collection}/NAME"
            raise ValueError(f"{self.path}.name = {name!r} must be {form}")
        return str(name)

    def beside(self, token: str, key: str, form: _Form) -> Any:
        """Return the user's object, which the run's token will join under its own key."""
        given = self.get(key, form, {})
        if token in given:
            raise ValueError(f"{self.path}.{key}.{token} is where the run's own token goes")
        return given

    def finish(self) -> None:
        if self._fields:
            unknown = _list(self._fields)
            raise ValueError(f"{self.path} has unknown keys {unknown}: use {_list(self._known)}")


def _base_url(api: str, url: object) -> str:
    wrong = ValueError(f"{json.dumps(api)} = {url!r} must be a base URL: https://HOST")
    if not isinstance(url, str) or not re.fullmatch(r"https?://[\w.:/\[\]~%-]+", url, re.ASCII):
        raise wrong
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if not parts.hostname or port == 0:
        raise wrong
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError(
            f"{json.dumps(api)} = {url!r} has no TLS: http is for stand-ins on loopback "
            "(http://127.0.0.1:PORT), which get no credentials"
        )
    return url


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
