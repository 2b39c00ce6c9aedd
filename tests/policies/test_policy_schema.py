"""A misspelt type or property would be a rule that never fires, and nobody would notice."""

import importlib
import inspect
import json
import re
from functools import cache
from typing import Any

import pulumi_gcp
import pytest
from pulumi import _types as types

from tests.support.pack import load

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pulumi_gcp")

SCHEMA = load("schema")
PROPERTIES: dict[str, tuple[str, ...]] = SCHEMA.PROPERTIES
PATHS = [(token, path) for token, paths in PROPERTIES.items() for path in paths]


@cache
def sdk_classes() -> dict[str, tuple[str, str]]:
    """Return module and class of every resource type, from the SDK's own registry."""
    text = inspect.getsource(pulumi_gcp)
    (registry,) = re.findall(r'resource_modules="""(.*?)"""', text, re.DOTALL)
    return {
        token: (entry["fqn"], name)
        for entry in json.loads(registry)
        for token, name in entry["classes"].items()
    }


def properties_of(cls: Any) -> dict[str, str]:
    """Return the properties of an input type or a resource: name in the schema to annotation."""
    if types.is_input_type(cls):
        names = types.input_type_py_to_pulumi_names(cls)
        annotations = cls.__init__.__annotations__
    else:
        names = {python: name for name, python in types.resource_pulumi_to_py_names(cls).items()}
        annotations = {
            python: getattr(cls, python).fget.__annotations__["return"] for python in names
        }
    return {name: str(annotations[python]) for python, name in names.items()}


def resolve(cls: Any, module: Any, path: str) -> None:
    """Follow a path through the SDK's types, and fail where it leaves them."""
    head, _, rest = path.partition(".")
    name, is_list = head.removesuffix("[]"), head.endswith("[]")
    known = properties_of(cls)
    assert name in known, f"{name} is no property of {cls.__name__}"
    assert ("Sequence" in known[name]) == is_list, f"{head} in {cls.__name__}: {known[name]}"
    if rest:
        (inner, *_) = re.findall(r"\b(\w+Args)\b", known[name])
        inputs = importlib.import_module(f"{module.__name__}._inputs")
        resolve(getattr(inputs, inner), module, rest)


@pytest.mark.parametrize("token", PROPERTIES)
def test_every_type_exists_in_the_sdk(token: str) -> None:
    module, name = sdk_classes()[token]
    resource = getattr(importlib.import_module(module), name)
    assert resource.pulumi_type == token


@pytest.mark.parametrize(("token", "path"), PATHS, ids=[f"{t}.{p}" for t, p in PATHS])
def test_every_property_exists_in_the_sdk(token: str, path: str) -> None:
    module_name, name = sdk_classes()[token]
    module = importlib.import_module(module_name)
    is_output = (token, path) == (SCHEMA.RUN_SERVICE, "uri")
    resolve(getattr(module, name if is_output else f"{name}Args"), module, path)


def test_a_misspelt_property_is_noticed() -> None:
    module_name, name = sdk_classes()[SCHEMA.SCHEDULER_JOB]
    module = importlib.import_module(module_name)
    with pytest.raises(AssertionError, match="audiense is no property"):
        resolve(getattr(module, f"{name}Args"), module, "httpTarget.oidcToken.audiense")
