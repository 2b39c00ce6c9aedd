"""Reading properties that may be absent, or not known before `up`.

pulumi_policy raises `UnknownValueError` as soon as an unknown value is touched, and reports it as
"can't run policy". So a rule reads what can convict first, and asks only for what it needs. Every
property name goes through `schema.PROPERTIES`, so that a misspelt one is an error here and not a
rule that never fires.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from pulumi_policy import PolicyResource, ResourceValidationArgs
from pulumi_policy.proxy import UnknownValueError

from . import schema

T = TypeVar("T")
V = TypeVar("V")

UNKNOWN = object()
"""Stands for a value that is not known yet, where a rule can go on without it."""

_PROVIDER_DEFAULTS = "__defaults"  # the provider's own bookkeeping inside maps and objects


class Node:
    """One object among a resource's properties.

    Paths are written as in the SDK's camel case, joined with dots:
    ``httpTarget.oidcToken.audience``.
    """

    def __init__(self, type: str, properties: Mapping[str, Any], prefix: str = "") -> None:
        self.type = type
        self._properties = properties
        self._prefix = prefix

    def get(self, path: str, default: Any = None) -> Any:
        """Read one value.

        Parameters
        ----------
        path : str
            Where the value stands, from this object.
        default : Any
            Given for an absent value.

        Returns
        -------
        Any
            The value.

        Raises
        ------
        UnknownValueError
            The value, or an object around it, is not known yet.
        """
        self._declared(path)
        value: Any = self._properties
        for key in path.split("."):
            value = value.get(key)
            if value is None:
                return default
        return value

    def peek(self, path: str) -> Any:
        """Read one value, or `UNKNOWN` where it is not known yet."""
        try:
            return self.get(path)
        except UnknownValueError:
            return UNKNOWN

    def has(self, path: str) -> bool:
        """Tell whether something stands there, known or not."""
        return self.peek(path) is not None

    def nodes(self, path: str) -> Iterator[Node]:
        """Give the objects of a list, the known ones first.

        Raises
        ------
        UnknownValueError
            After the last known object, if the list or one of its objects is not known yet.
        """
        prefix = self._declared(f"{path}[]") + "."
        for item in _known_first(self.get(path, [])):
            yield Node(self.type, item, prefix)

    def values(self, path: str) -> Iterator[Any]:
        """Give the plain values of a list, the known ones first, as `nodes` does."""
        return _known_first(self.get(path, []))

    def map(self, path: str) -> dict[str, Any]:
        """Give a map whose names are known; a value may be `UNKNOWN`."""
        found = self.get(path, {})
        result: dict[str, Any] = {}
        for name in found:
            if name == _PROVIDER_DEFAULTS:
                continue
            try:
                result[name] = found[name]
            except UnknownValueError:
                result[name] = UNKNOWN
        return result

    def _declared(self, path: str) -> str:
        full = self._prefix + path
        if not schema.declares(self.type, full):
            raise KeyError(f"{full} of {self.type} is not declared in schema.py")
        return full


class Resource(Node):
    """One resource as a rule sees it: its properties, its name, and the rule's settings."""

    def __init__(
        self,
        type: str,
        properties: Mapping[str, Any],
        urn: str,
        name: str,
        provider_properties: Mapping[str, Any],
        settings: Mapping[str, Any],
        sources: Mapping[str, Sequence[PolicyResource]],
    ) -> None:
        super().__init__(type, properties)
        self.urn = urn
        self.name = name
        self.raw = properties
        """All properties as the SDK handed them over: what a remedy gives back."""
        self._provider_properties = provider_properties
        self._settings = settings
        self._sources = sources

    @classmethod
    def of(cls, args: ResourceValidationArgs, settings: Mapping[str, Any]) -> Resource:
        """Wrap what the SDK hands to a resource rule."""
        return cls(
            args.resource_type, args.props, args.urn, args.name, _properties(args), settings, {}
        )

    @classmethod
    def in_stack(cls, resource: PolicyResource, settings: Mapping[str, Any]) -> Resource:
        """Wrap one resource of what the SDK hands to a stack rule."""
        return cls(
            resource.resource_type,
            resource.props,
            resource.urn,
            resource.name,
            _properties(resource),
            settings,
            resource.property_dependencies,
        )

    def setting(self, knob: str) -> Any:
        """Give a setting of the rule."""
        return self._settings[knob]

    def add(self, path: str, entries: Mapping[str, Any]) -> None:
        """Add entries to a map among the properties; only a remedy may, and it gives back `raw`."""
        self._declared(path)
        properties: Any = self.raw
        if properties.get(path) is None:
            properties[path] = {}
        for name, value in entries.items():
            properties[path][name] = value

    def provider_setting(self, name: str) -> Any:
        """Give a setting of the resource's provider, such as its region."""
        return self._provider_properties.get(name)

    def sources(self, property: str, types: Iterable[str]) -> list[Resource]:
        """Give the resources of some types that a property was made from, known value or not."""
        self._declared(property)
        wanted = set(types)
        return [
            Resource.in_stack(source, self._settings)
            for source in self._sources.get(property, ())
            if source.resource_type in wanted
        ]


class Stack:
    """The resources of a stack as a rule sees them, and the rule's settings."""

    def __init__(self, resources: Sequence[PolicyResource], settings: Mapping[str, Any]) -> None:
        self._resources = resources
        self._settings = settings

    def of_type(self, *types: str) -> list[Resource]:
        """Give the resources of these types, in the stack's order."""
        return [
            Resource.in_stack(found, self._settings)
            for found in self._resources
            if found.resource_type in types
        ]

    def setting(self, knob: str) -> Any:
        """Give a setting of the rule."""
        return self._settings[knob]


def known_first(check: Callable[[T], Iterable[V]], subjects: Iterable[T]) -> Iterator[V]:
    """Check every subject, and only then complain about what is not known yet.

    Parameters
    ----------
    check : callable
        Gives the violations of one subject.
    subjects : iterable
        What to check.

    Yields
    ------
    Any
        The violations of all subjects.

    Raises
    ------
    UnknownValueError
        After the last violation, if a subject could not be judged.
    """
    unknown: UnknownValueError | None = None
    remaining = iter(subjects)
    while True:
        try:
            subject = next(remaining)
        except StopIteration:
            break
        except UnknownValueError as error:
            unknown = unknown or error
            break
        try:
            yield from check(subject)
        except UnknownValueError as error:
            unknown = unknown or error
    if unknown:
        raise unknown


def any_known(test: Callable[[T], bool], subjects: Iterable[T]) -> bool:
    """Tell whether a test holds for any subject, however many others are not known yet.

    Raises
    ------
    UnknownValueError
        It holds for none that is known, and another could not be judged.
    """
    unknown: UnknownValueError | None = None
    for subject in subjects:
        try:
            if test(subject):
                return True
        except UnknownValueError as error:
            unknown = unknown or error
    if unknown:
        raise unknown
    return False


def duration(text: str) -> timedelta | None:
    """Read a duration as Google's APIs write it, such as ``3.5s``; None where it is none."""
    found = re.fullmatch(r"(\d+(?:\.\d{1,9})?)s", text)
    return timedelta(seconds=float(found[1])) if found else None


def seconds(length: timedelta) -> str:
    """Write a duration as Google's APIs do."""
    return f"{length.total_seconds():.3f}".rstrip("0").rstrip(".") + "s"


def _known_first(items: Sequence[Any]) -> Iterator[Any]:
    unknown: UnknownValueError | None = None
    for index in range(len(items)):
        try:
            item = items[index]
        except UnknownValueError as error:
            unknown = unknown or error
            continue
        if item is not None:
            yield item
    if unknown:
        raise unknown


def _properties(args: ResourceValidationArgs | PolicyResource) -> Mapping[str, Any]:
    return args.provider.props if args.provider else {}
