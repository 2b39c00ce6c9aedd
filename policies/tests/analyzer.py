"""The pack as the Pulumi engine sees it: a process that answers over gRPC.

Resources are sent exactly as the engine sends them, unknown values and the provider's bookkeeping
included, and what comes back is what a person would read in a preview.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

PACK = Path(__file__).parents[1]
CANNOT_RUN = "can't run policy"


@dataclass(frozen=True)
class Reference:
    """A value that another resource gives only after it was made, such as ``service.uri``."""

    name: str
    output: str


@dataclass(frozen=True)
class Declared:
    """One resource of a program.

    Parameters
    ----------
    type : str
        Its type token.
    name : str
        Its name in the program.
    properties : dict
        Its inputs; a `Reference` stands for a value that is not known yet.
    provider : dict
        Settings of its provider.
    """

    type: str
    name: str
    properties: Mapping[str, Any]
    provider: Mapping[str, Any] = field(default_factory=dict)

    @property
    def urn(self) -> str:
        """Give the name under which the engine knows it."""
        return f"urn:pulumi:dev::test::{self.type}::{self.name}"

    def set(self, path: str, value: Any) -> Declared:
        """Give the same resource with one property changed, such as ``envs.0.value``."""
        properties = copy.deepcopy(self.properties)
        *way, last = path.split(".")
        place: Any = properties
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[int(last) if isinstance(place, list) else last] = value
        return replace(self, properties=properties)

    def drop(self, path: str) -> Declared:
        """Give the same resource without one property."""
        properties = copy.deepcopy(self.properties)
        *way, last = path.split(".")
        place: Any = properties
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place[key]
        del place[int(last) if isinstance(place, list) else last]
        return replace(self, properties=properties)


@dataclass(frozen=True)
class Report:
    """What the pack says about a program."""

    violations: tuple[tuple[str, str, str], ...]
    """Rule, name of the resource, message."""

    cannot_run: frozenset[str]
    """Rules that met an unknown value."""

    @property
    def rules(self) -> list[str]:
        """Give the broken rules, each once, in order."""
        return sorted({rule for rule, _, _ in self.violations})

    def messages(self, rule: str) -> list[str]:
        """Give what a rule says, without its title, reason and fix."""
        return [text.split("\n")[1] for found, _, text in self.violations if found == rule]


class Pack:
    """A running policy pack."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = analyzer_pb2_grpc.AnalyzerStub(channel)

    def info(self) -> Any:
        """Ask the pack for its rules."""
        return self._stub.GetAnalyzerInfo(struct_pb2.Value())

    def judge(
        self, program: Sequence[Declared], config: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Report:
        """Ask for all violations of a program, as a first preview does.

        Parameters
        ----------
        program : sequence of Declared
            The resources.
        config : dict
            Settings by rule; the levels stay as they are.
        """
        self._configure(config or {})
        found = [
            (item, declared.name)
            for declared in program
            for item in self._stub.Analyze(self._request(declared)).diagnostics
        ]
        names = {declared.urn: declared.name for declared in program}
        request = analyzer_pb2.AnalyzeStackRequest(
            resources=[self._analyzer_resource(one, program) for one in program]
        )
        found += [
            (item, names.get(item.urn, "")) for item in self._stub.AnalyzeStack(request).diagnostics
        ]
        return Report(
            tuple(
                (item.policyName, name, item.message)
                for item, name in found
                if CANNOT_RUN not in item.message
            ),
            frozenset(item.policyName for item, _ in found if CANNOT_RUN in item.message),
        )

    def remediate(
        self, declared: Declared, config: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        """Ask for the repaired properties of a resource; None where nothing is repaired."""
        self._configure(config)
        remedies = self._stub.Remediate(self._request(declared)).remediations
        return json_format.MessageToDict(remedies[-1].properties) if remedies else None

    def _configure(self, config: Mapping[str, Mapping[str, Any]]) -> None:
        levels = {policy.name: policy.enforcementLevel for policy in self.info().policies}
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        for rule, settings in config.items():
            request.policyConfig[rule].enforcementLevel = levels[rule]
            request.policyConfig[rule].properties.update(dict(settings))
        self._stub.Configure(request)

    def _request(self, declared: Declared) -> Any:
        return analyzer_pb2.AnalyzeRequest(
            type=declared.type,
            properties=_struct(declared.properties),
            urn=declared.urn,
            name=declared.name,
            provider=_provider(declared),
        )

    def _analyzer_resource(self, declared: Declared, program: Sequence[Declared]) -> Any:
        urns = {other.name: other.urn for other in program}
        resource = analyzer_pb2.AnalyzerResource(
            type=declared.type,
            properties=_struct(declared.properties),
            urn=declared.urn,
            name=declared.name,
            provider=_provider(declared),
        )
        for name, value in declared.properties.items():
            sources = [
                urns[reference.name] for reference in _references(value) if reference.name in urns
            ]
            resource.dependencies.extend(sources)
            resource.propertyDependencies[name].urns.extend(sources)
        return resource


@contextmanager
def running_pack(directory: Path = PACK) -> Iterator[Pack]:
    """Start the pack in a directory as the language host does, and stop it again."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:0", str(directory)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=directory.anchor,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().decode().strip()
        assert re.fullmatch(r"\d+", port), f"the pack did not start: {port!r}"
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Pack(channel)
    finally:
        process.kill()
        process.wait()


def _provider(declared: Declared) -> Any:
    return analyzer_pb2.AnalyzerProviderResource(
        type="pulumi:providers:gcp",
        properties=_struct(declared.provider),
        urn="urn:pulumi:dev::test::pulumi:providers:gcp::default",
        name="default",
    )


def _struct(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    message.update(_wire(properties))
    return message


def _wire(value: Any) -> Any:
    """Write a value as the engine does, with the bookkeeping that the provider adds to objects."""
    if isinstance(value, Reference):
        return UNKNOWN_STRING_VALUE
    if isinstance(value, Mapping):
        return {**{name: _wire(inner) for name, inner in value.items()}, "__defaults": []}
    if isinstance(value, list | tuple):
        return [_wire(inner) for inner in value]
    return value


def _references(value: Any) -> Iterator[Reference]:
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _references(inner)
