"""Executes a Workflows source: the small part of the language that the worked example needs.

Steps with `call: http.post`, `switch`, `try` with `retry`, and `return`; expressions in `${...}` of
names, members, `==`, `>=`, `in`, `not` and `or`. Anything else is an error, never skipped.
Source: https://cloud.google.com/workflows/docs/reference/syntax
"""

import ast
import json
import operator
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Json = dict[str, Any]
Post = Callable[[str, bytes, float], tuple[int, bytes]]
"""Sends a JSON body to a URL within some seconds; returns status and body, or raises OSError."""


class WorkflowError(Exception):
    """What a step raises; `error` is the map that a predicate sees."""

    def __init__(self, error: Json) -> None:
        super().__init__(str(error))
        self.error = error


def post(url: str, body: bytes, seconds: float) -> tuple[int, bytes]:
    """Send a request as `http.post` does, without a token, which nothing checks on a loopback."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:  # noqa: S310
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


class Workflow:
    """A workflow, ready to be executed.

    Parameters
    ----------
    source
        The YAML file.
    post
        How `http.post` sends.
    speed
        How much faster than written the waits between retries are.
    """

    def __init__(self, source: Path, *, post: Post = post, speed: float = 1.0) -> None:
        self._blocks: Mapping[str, Json] = yaml.safe_load(source.read_text())
        self._post = post
        self._speed = speed

    def execute(self, argument: str) -> Any:
        """Execute the main block and return its result.

        Parameters
        ----------
        argument
            JSON, as an execution's `argument` is.

        Raises
        ------
        WorkflowError
            If a step raises and nothing catches it.
        """
        return self._call("main", [json.loads(argument)])

    def _call(self, block: str, arguments: list[Any]) -> Any:
        names = self._blocks[block].get("params", [])
        variables = dict(zip(names, arguments, strict=True))
        return self._steps(self._blocks[block]["steps"], variables).value

    def _steps(self, steps: list[Json], variables: Json) -> "_End":
        for named in steps:
            ((_, step),) = named.items()
            end = self._step(step, variables)
            if end.returned:
                return end
        return _End(False, None)

    def _step(self, step: Json, variables: Json) -> "_End":
        match step:
            case {"try": body, "retry": retry}:
                return self._retried(body, retry, variables)
            case {"switch": branches}:
                for branch in branches:
                    if _evaluate(branch["condition"], variables):
                        return self._step({"return": branch["return"]}, variables)
                return _End(False, None)
            case {"call": "http.post", "args": args}:
                answer = self._http_post(_evaluate(args, variables))
                variables.update({step["result"]: answer} if "result" in step else {})
                return _End(False, None)
            case {"return": value}:
                return _End(True, _evaluate(value, variables))
        raise NotImplementedError(f"a step with {sorted(step)} is not played here")

    def _retried(self, body: Json, retry: Json, variables: Json) -> "_End":
        predicate = retry["predicate"].removeprefix("${").removesuffix("}")
        backoff = retry["backoff"]
        delay = float(backoff["initial_delay"])
        for left in reversed(range(retry["max_retries"] + 1)):
            try:
                return self._step(body, variables)
            except WorkflowError as failure:
                if not left or not self._call(predicate, [failure.error]):
                    raise
            time.sleep(delay / self._speed)
            delay = min(delay * backoff["multiplier"], backoff["max_delay"])
        raise AssertionError("the last attempt returns or raises")

    def _http_post(self, args: Json) -> Json:
        body = json.dumps(args["body"]).encode()
        try:
            status, content = self._post(args["url"], body, float(args.get("timeout", 300)))
        except OSError as error:
            raise WorkflowError({"tags": ["ConnectionError"], "message": str(error)}) from error
        try:
            read = json.loads(content)
        except ValueError:
            read = content.decode(errors="replace")
        if status >= 400:
            raise WorkflowError({"tags": ["HttpError"], "code": status, "body": read})
        return {"code": status, "body": read}


class _End(NamedTuple):
    """Whether a block has returned, and what."""

    returned: bool
    value: Any


_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.GtE: operator.ge,
    ast.In: lambda item, collection: item in collection,
}


def _evaluate(value: Any, variables: Json) -> Any:
    """Return a value of the source with its expressions evaluated."""
    if isinstance(value, dict):
        return {key: _evaluate(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_evaluate(item, variables) for item in value]
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        # The operators that are played here read the same in Python.
        return _expression(ast.parse(value[2:-1], mode="eval").body, variables)
    return value


def _expression(node: ast.expr, variables: Json) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return variables[name]
        case ast.Attribute(value=owner, attr=name):
            return _expression(owner, variables)[name]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _expression(operand, variables)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_expression(each, variables) for each in values)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_expression(each, variables) for each in values)
        case ast.Compare(left=left, ops=[compare], comparators=[right]) if (
            type(compare) in _COMPARE
        ):
            sides = (_expression(left, variables), _expression(right, variables))
            return _COMPARE[type(compare)](*sides)
    raise NotImplementedError(f"the expression {ast.unparse(node)!r} is not played here")
