"""What a rule is, and how it becomes a Pulumi policy.

A rule is a generator: it reads the resource (or the stack) and yields one sentence per violation.
Text for people (title, reason, fix) stands beside the check, and is used for the preview and for
the page alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, cast

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

from .reading import Resource, Stack

MANDATORY = EnforcementLevel.MANDATORY
ADVISORY = EnforcementLevel.ADVISORY
REMEDIATE = EnforcementLevel.REMEDIATE

SAYS_SO = (
    "The preview says that the rule could not run; `up` checks it before the resource is touched."
)
SAYS_SO_KNOWN_FIRST = (
    "What is known is judged first; for the rest the preview says that the rule could not run,"
    " and `up` checks it before the resource is touched."
)
STACK_SAYS_SO = (
    "What is known is judged first; for the rest the preview says that the rule could not run,"
    " and it is judged at the end of `up`."
)

ResourceCheck = Callable[[Resource], Iterator[str]]
StackCheck = Callable[[Stack], Iterator[tuple[Resource, str]]]
Remedy = Callable[[Resource], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Knob:
    """One setting of a rule, as it stands in a file for ``--policy-pack-config``.

    Parameters
    ----------
    default : Any
        Value where the file says nothing.
    schema : dict
        JSON schema of the value, with its description.
    """

    default: Any
    schema: Mapping[str, Any]


def texts(description: str, default: Sequence[str] = ()) -> Knob:
    """Return a setting that is a list of texts."""
    schema = {"type": "array", "items": {"type": "string"}, "description": description}
    return Knob(list(default), schema)


ALLOW = {
    "allow": Knob(
        {},
        {
            "type": "object",
            "additionalProperties": {"type": "string", "minLength": 1},
            "description": "Names on Google Cloud that the rule leaves out, each with the reason;"
            " website-* is all that begin so.",
        },
    )
}
"""The setting of a rule that has exceptions which somebody can answer for."""


def is_allowed(resource: Resource, path: str = "name") -> bool:
    """Tell whether the name at a path is one that the rule's setting `allow` leaves out."""
    patterns = resource.setting("allow")
    if not patterns:
        return False
    name = str(resource.get(path, resource.name)).rsplit("/", 1)[-1]
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class Rule:
    """One check, with all that a person needs to understand and to obey it.

    Parameters
    ----------
    id : str
        Name of the policy, prefixed with its subject.
    title : str
        What must be so, in one sentence.
    why : str
        What goes wrong otherwise.
    fix : str
        What to write instead.
    unknown : str
        What the rule does when a value that it needs is not known yet.
    level : EnforcementLevel
        Level where the configuration says nothing.
    types : tuple of str
        Resource types that a resource rule looks at; empty for a stack rule.
    check : callable
        The check itself.
    remedy : callable or None
        For a rule that repairs: gives the resource's new properties, or None if there is nothing to
        repair.
    knobs : dict
        Settings by name.
    """

    id: str
    title: str
    why: str
    fix: str
    unknown: str
    level: EnforcementLevel
    types: tuple[str, ...]
    check: Callable[[Any], Iterator[Any]]
    remedy: Remedy | None = None
    knobs: Mapping[str, Knob] = field(default_factory=dict)

    @property
    def is_stack_rule(self) -> bool:
        """Whether the rule looks at several resources together."""
        return not self.types

    def policy(self) -> Policy:
        """Give the rule as the Pulumi SDK wants it."""
        common: dict[str, Any] = {
            "name": self.id,
            "description": self.title,
            "display_name": self.title,
            "enforcement_level": self.level,
            "severity": Severity.MEDIUM if self.level is ADVISORY else Severity.HIGH,
            "remediation_steps": self.fix,
            "tags": [self.id.split("-")[0]],
            "config_schema": self._config_schema(),
        }
        if self.is_stack_rule:
            return StackValidationPolicy(validate=self._validate_stack, **common)
        # The SDK takes None for "nothing to repair", which its type hint forgets.
        remediate = cast(Any, self._remediate) if self.remedy else None
        return ResourceValidationPolicy(
            validate=self._validate_resource, remediate=remediate, **common
        )

    def _config_schema(self) -> PolicyConfigSchema | None:
        if not self.knobs:
            return None
        return PolicyConfigSchema(
            {name: {**knob.schema, "default": knob.default} for name, knob in self.knobs.items()}
        )

    def _settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: given.get(name, knob.default) for name, knob in self.knobs.items()}

    def _message(self, violation: str) -> str:
        return f"{violation}\nWhy: {self.why}\nFix: {self.fix}"

    def _validate_resource(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type not in self.types:
            return
        for violation in self.check(Resource.of(args, self._settings(args.get_config()))):
            report(self._message(violation), None)

    def _validate_stack(self, args: StackValidationArgs, report: ReportViolation) -> None:
        for resource, violation in self.check(
            Stack(args.resources, self._settings(args.get_config()))
        ):
            report(self._message(violation), resource.urn)

    def _remediate(self, args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        if args.resource_type not in self.types or self.remedy is None:
            return None
        return self.remedy(Resource.of(args, self._settings(args.get_config())))


def resource_rule(
    id: str,
    *,
    types: tuple[str, ...],
    title: str,
    why: str,
    fix: str,
    unknown: str = SAYS_SO,
    level: EnforcementLevel = MANDATORY,
    remedy: Remedy | None = None,
    knobs: Mapping[str, Knob] | None = None,
) -> Callable[[ResourceCheck], Rule]:
    """Make a rule of a generator that judges one resource; parameters as in `Rule`."""

    def decorate(check: ResourceCheck) -> Rule:
        return Rule(id, title, why, fix, unknown, level, types, check, remedy, knobs or {})

    return decorate


def stack_rule(
    id: str,
    *,
    title: str,
    why: str,
    fix: str,
    unknown: str = STACK_SAYS_SO,
    level: EnforcementLevel = MANDATORY,
    knobs: Mapping[str, Knob] | None = None,
) -> Callable[[StackCheck], Rule]:
    """Make a rule of a generator that judges the whole stack; parameters as in `Rule`."""

    def decorate(check: StackCheck) -> Rule:
        return Rule(id, title, why, fix, unknown, level, (), check, None, knobs or {})

    return decorate
