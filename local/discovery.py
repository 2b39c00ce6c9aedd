"""Google's discovery documents: which requests an API takes, and what its messages look like.

The documents come with google-api-python-client, so what is checked here is what Google publishes,
for the revision that requirements.txt pins.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

DOCUMENTS: Mapping[str, str] = {
    "workflowexecutions": "workflowexecutions.v1",
    "run": "run.v2",
    "cloudbuild": "cloudbuild.v1",
}


class BadRequest(ValueError):
    """The document does not allow it; the message says what and where."""


@dataclass(frozen=True)
class Method:
    """One method of an API."""

    id: str
    http_method: str
    path: "re.Pattern[str]"
    parameters: Mapping[str, Any]
    request: str | None
    response: str


@dataclass(frozen=True)
class Request:
    """A request that the document allows."""

    method: Method
    names: Mapping[str, str]
    """The resource names in the path."""
    query: Mapping[str, Any]
    body: Any = field(default=None)


class Document:
    """The discovery document of one API.

    Parameters
    ----------
    api
        A key of `DOCUMENTS`.
    """

    def __init__(self, api: str) -> None:
        folder = files("googleapiclient.discovery_cache.documents")
        self._document = json.loads((folder / f"{DOCUMENTS[api]}.json").read_text())
        self._schemas: Mapping[str, Any] = self._document["schemas"]
        self._methods = list(_methods(self._document))

    @classmethod
    @cache
    def of(cls, api: str) -> "Document":
        """Return the document; read once."""
        return cls(api)

    def request(self, http_method: str, path: str, query: str, body: bytes) -> Request:
        """Read a request as the API would.

        Raises
        ------
        LookupError
            If no method has this path.
        BadRequest
            If a parameter or a field of the body is not as the document says.
        """
        for method in self._methods:
            match = method.path.fullmatch(path)
            if match and method.http_method == http_method:
                found = self._query(method, query)
                content = None
                if method.request is not None:
                    content = _json(body)
                    self.check(method.request, content, written=True)
                elif body:
                    raise BadRequest(f"{method.id} takes no body")
                return Request(method, match.groupdict(), found, content)
        raise LookupError(f"no method for {http_method} {path}")

    def check(self, schema: str, value: Any, *, written: bool) -> None:
        """Check a message against a schema.

        Parameters
        ----------
        written
            Whether a client wrote it: then it may hold no output-only field.

        Raises
        ------
        BadRequest
            At the first field that does not fit.
        """
        self._check({"$ref": schema}, value, schema, written)

    def masked(self, schema: str, value: Any, mask: str) -> Any:
        """Return what a `fields` mask (`items(name,a/b),nextPageToken`) leaves of a message."""
        tree, rest = _mask(mask)
        if rest:
            raise BadRequest(f"fields mask: cannot read {rest!r}")
        self._check_mask({"$ref": schema}, tree, "fields")
        return _masked(value, tree)

    def _query(self, method: Method, query: str) -> dict[str, Any]:
        known = {**self._document["parameters"], **method.parameters}
        known = {name: it for name, it in known.items() if it["location"] == "query"}
        found: dict[str, Any] = {}
        for name, text in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
            if name not in known:
                raise BadRequest(f"{method.id} has no query parameter {name!r}")
            found[name] = _parameter(name, known[name], text)
        for name, parameter in known.items():
            if parameter.get("required") and name not in found:
                raise BadRequest(f"{method.id} needs the query parameter {name!r}")
        return found

    def _check(self, schema: Mapping[str, Any], value: Any, at: str, written: bool) -> None:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"]]
        kind = schema["type"]
        if kind == "any":
            return
        if not _TYPES[kind](value):
            raise BadRequest(f"{at}: needs {kind}, not {json.dumps(value)}")
        if "enum" in schema and value not in schema["enum"]:
            raise BadRequest(f"{at}: {value!r} is none of {schema['enum']}")
        if kind == "array":
            for index, item in enumerate(value):
                self._check(schema["items"], item, f"{at}[{index}]", written)
        elif kind == "object":
            properties = schema.get("properties", {})
            for name, item in value.items():
                below = properties.get(name, schema.get("additionalProperties"))
                if below is None:
                    raise BadRequest(f"{at}: unknown name {name!r}")
                if written and below.get("readOnly"):
                    raise BadRequest(f"{at}.{name}: is output only")
                self._check(below, item, f"{at}.{name}", written)

    def _check_mask(self, schema: Mapping[str, Any], tree: Mapping[str, Any], at: str) -> None:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"]]
        if schema.get("type") == "array":
            return self._check_mask(schema["items"], tree, at)
        for name, below in tree.items():
            if name not in schema.get("properties", {}):
                raise BadRequest(f"{at}: {name!r} is not a field")
            self._check_mask(schema["properties"][name], below, f"{at}.{name}")
        return None


_TYPES = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _masked(value: Any, tree: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_masked(item, tree) for item in value]
    if not tree:
        return value
    return {name: _masked(value[name], below) for name, below in tree.items() if name in value}


def _methods(resource: Mapping[str, Any]) -> Iterator[Method]:
    for found in resource.get("methods", {}).values():
        parameters = found.get("parameters", {})
        yield Method(
            id=found["id"],
            http_method=found["httpMethod"],
            path=_pattern(found["path"], parameters),
            parameters=parameters,
            request=found.get("request", {}).get("$ref"),
            response=found["response"]["$ref"],
        )
    for below in resource.get("resources", {}).values():
        yield from _methods(below)


def _pattern(template: str, parameters: Mapping[str, Any]) -> "re.Pattern[str]":
    """Turn `v1/{+name}:run` into a pattern with the parameter's own pattern in it."""
    pattern = ""
    for part in re.split(r"(\{\+?\w+\})", template):
        name = re.fullmatch(r"\{\+?(\w+)\}", part)
        if name is None:
            pattern += re.escape(part)
        else:
            inner = parameters[name[1]].get("pattern", "^[^/]+$")
            pattern += f"(?P<{name[1]}>{inner[1:-1]})"
    return re.compile(pattern)


def _parameter(name: str, parameter: Mapping[str, Any], text: str) -> Any:
    value: Any = text
    match parameter["type"]:
        case "integer" if re.fullmatch(r"-?\d+", text, re.ASCII):
            value = int(text)
        case "boolean" if text in ("true", "false"):
            value = text == "true"
        case "string":
            pass
        case kind:
            raise BadRequest(f"query parameter {name}: needs {kind}, not {text!r}")
    if "enum" in parameter and value not in parameter["enum"]:
        raise BadRequest(f"query parameter {name}: {value!r} is none of {parameter['enum']}")
    return value


def _json(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}")
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


def _mask(text: str) -> tuple[dict[str, Any], str]:
    """Read a mask up to its end or a closing bracket; return it as a tree, and the rest."""
    tree: dict[str, Any] = {}
    while True:
        path = re.match(r"\w+(/\w+)*", text, re.ASCII)
        if path is None:
            raise BadRequest(f"fields mask: cannot read {text!r}")
        text = text[path.end() :]
        below: dict[str, Any] = {}
        if text.startswith("("):
            below, text = _mask(text[1:])
            if not text.startswith(")"):
                raise BadRequest("fields mask: a bracket is not closed")
            text = text[1:]
        *parents, last = path[0].split("/")
        at = tree
        for name in parents:
            at = at.setdefault(name, {})
        at[last] = below
        if not text.startswith(","):
            return tree, text
        text = text[1:]
