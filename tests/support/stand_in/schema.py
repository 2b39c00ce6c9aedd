"""What the SDKs say about a resource: its properties, their types, which of them are required.

Everything is read from the typed classes of the installed SDK, so a stand-in refuses exactly what
the real provider's schema refuses, for the version that the program uses.
"""

from __future__ import annotations

import collections.abc
import enum
import importlib
import inspect
import re
import threading
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pulumi._types import input_type_types, is_input_type

PACKAGES = {"gcp": "pulumi_gcp", "docker-build": "pulumi_docker_build"}

UNKNOWNS = {
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    "030794c1-ac77-496b-92df-f27374a8bd58",
    "e48ece36-62e2-4504-bad9-02848725956a",
}
"""How a value that is not known yet travels between engine and provider, one per kind of value."""
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


_IMPORTS = threading.RLock()


class UnknownTypeError(LookupError):
    """The SDK has no such resource or function."""


@dataclass(frozen=True)
class Field:
    """One property."""

    type: Any
    required: bool
    values: frozenset[str]
    """The values that the documentation lists as the only ones, or nothing."""


@dataclass(frozen=True)
class Resource:
    """A resource's inputs, and the names and types of its outputs."""

    fields: dict[str, Field]
    outputs: dict[str, Any]


def resource(token: str) -> Resource:
    """Return the schema of a type token such as ``gcp:cloudscheduler/job:Job``."""
    # The SDK imports its modules on first touch, which two threads must not do at once.
    with _IMPORTS:
        return _resource(token)


@cache
def _resource(token: str) -> Resource:
    module, name = _home(token)
    cls: Any = getattr(module, name, None)
    if getattr(cls, "pulumi_type", None) != token:
        raise UnknownTypeError(f"the SDK has no resource {token}")
    args = getattr(module, f"{name}Args")
    outputs = {
        getter.fget._pulumi_name: _return_type(getter.fget, cls)
        for _, getter in inspect.getmembers(cls, lambda it: isinstance(it, property))
        if hasattr(getter.fget, "_pulumi_name")
    }
    return Resource(fields_of(args), outputs)


@cache
def function(token: str) -> dict[str, Field]:
    """Return the arguments of ``gcp:organizations/getClientConfig:getClientConfig``, say."""
    with _IMPORTS:
        module, name = _home(token)
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        found = getattr(module, snake, None)
    if found is None:
        raise UnknownTypeError(f"the SDK has no function {token}")
    return {
        _camel(parameter.name): Field(
            parameter.annotation, parameter.default is inspect.Parameter.empty, frozenset()
        )
        for parameter in inspect.signature(found).parameters.values()
        if parameter.name != "opts"
    }


def _home(token: str) -> tuple[Any, str]:
    package, path, name = token.split(":")
    try:
        module = importlib.import_module(PACKAGES[package])
        folder = path.split("/")[0]
        return (module if folder == "index" else getattr(module, folder)), name
    except (ImportError, AttributeError) as error:
        raise UnknownTypeError(f"the SDK has no module for {token}") from error


def _return_type(getter: Any, cls: Any) -> Any:
    hints = typing.get_type_hints(getter, vars(inspect.getmodule(cls)))
    (inner,) = typing.get_args(hints["return"]) or (hints["return"],)
    return inner


def _camel(snake: str) -> str:
    head, *rest = snake.split("_")
    return head + "".join(part.title() for part in rest)


@cache
def fields_of(args: type) -> dict[str, Field]:
    """Return the properties of one of the SDK's ``...Args`` classes by their camel-case names."""
    types = input_type_types(args)
    required = {
        parameter.name
        for parameter in inspect.signature(args.__init__).parameters.values()  # type: ignore[misc]
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    }
    return {
        getter.fget._pulumi_name: Field(
            types[getter.fget._pulumi_name],
            name in required,
            _listed_values(getter.__doc__ or ""),
        )
        for name, getter in inspect.getmembers(args, lambda it: isinstance(it, property))
    }


def _listed_values(doc: str) -> frozenset[str]:
    text = " ".join(doc.split())
    found = re.search(r"Possible values are:? ((?:`[^`]*`(?:,? or |, |,)?)+)\.?", text)
    values = re.findall(r"`([^`]*)`", found[1]) if found else []
    return frozenset(value.strip('"') for value in values)


def problems(
    fields: dict[str, Field], values: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield ``(property, reason)`` for everything that the schema does not allow."""
    for name, value in values.items():
        where = f"{path}.{name}" if path else name
        if name in ("__defaults", "__internal"):
            continue
        if name not in fields:
            known = ", ".join(sorted(fields))
            yield where, f"unknown property; there are {known}"
        elif value is not None:
            yield from _mismatches(fields[name].type, fields[name].values, value, where)
    for name, field in fields.items():
        if field.required and values.get(name) is None:
            where = f"{path}.{name}" if path else name
            yield where, "missing required property"


def _mismatches(
    kind: Any, allowed: frozenset[str], value: Any, path: str
) -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and value in UNKNOWNS:
        return
    kind, alternatives = _unwrap(kind)
    if len(alternatives) > 1:
        attempts = [list(_mismatches(one, allowed, value, path)) for one in alternatives]
        yield from min(attempts, key=len)
        return
    origin = typing.get_origin(kind)
    if is_input_type(kind):
        if isinstance(value, dict):
            yield from problems(fields_of(kind), value, path)
        else:
            yield path, f"needs an object, not {value!r}"
    elif origin in (collections.abc.Sequence, list):
        if isinstance(value, list):
            (item,) = typing.get_args(kind)
            for index, element in enumerate(value):
                yield from _mismatches(item, allowed, element, f"{path}[{index}]")
        else:
            yield path, f"needs a list, not {value!r}"
    elif origin in (collections.abc.Mapping, dict):
        if isinstance(value, dict):
            item = typing.get_args(kind)[1]
            for key, element in value.items():
                yield from _mismatches(item, allowed, element, f"{path}.{key}")
        else:
            yield path, f"needs a map, not {value!r}"
    elif inspect.isclass(kind) and issubclass(kind, enum.Enum):
        members = [member.value for member in kind]
        if value not in members:
            yield path, f"{value!r} is none of {', '.join(map(repr, members))}"
    else:
        yield from _scalar(kind, allowed, value, path)


def _scalar(kind: Any, allowed: frozenset[str], value: Any, path: str) -> Iterator[tuple[str, str]]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = {
        str: isinstance(value, str),
        bool: isinstance(value, bool),
        int: number and value == int(value),
        float: number,
    }.get(kind, True)
    if not fits:
        yield path, f"needs {kind.__name__}, not {value!r}"
    elif allowed and isinstance(value, str) and value not in allowed:
        yield path, f"{value!r} is none of {', '.join(sorted(map(repr, allowed)))}"


def _unwrap(kind: Any) -> tuple[Any, list[Any]]:
    """Take Input, Optional, Awaitable and Output off a type; return the alternatives left."""
    plain: list[Any] = []
    for one in _flatten(kind):
        origin = typing.get_origin(one) or one
        if one is type(None) or origin is collections.abc.Awaitable:
            continue
        if inspect.isclass(origin) and origin.__name__ == "Output":
            continue
        # The dictionary twins of the Args classes say nothing that those do not.
        if inspect.isclass(one) and one.__name__.endswith("ArgsDict"):
            continue
        if one not in plain:
            plain.append(one)
    return (plain[0] if plain else Any), plain


def _flatten(kind: Any) -> Iterator[Any]:
    if typing.get_origin(kind) is typing.Union or type(kind).__name__ == "UnionType":
        for one in typing.get_args(kind):
            yield from _flatten(one)
    else:
        yield kind
