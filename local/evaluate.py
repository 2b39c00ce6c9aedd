"""Evaluates the Pulumi program on this machine: no engine, no account, no network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks, set_mocks


@dataclass(frozen=True)
class Resource:
    """What the program declares.

    Attributes
    ----------
    type
        Type token, for example `gcp:cloudscheduler/job:Job`.
    name
        Logical name.
    inputs
        Its properties, with the provider's own names.
    """

    type: str
    name: str
    inputs: dict[str, Any]


class _Recorder(Mocks):
    """Answers as the providers would where the program reads an answer, and keeps the rest."""

    def __init__(self) -> None:
        self.resources: list[Resource] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.resources.append(Resource(args.typ, args.name, args.inputs))
        computed = {"digest": f"sha256:{'0' * 64}"} if args.typ.endswith(":Image") else {}
        return args.name, {**args.inputs, **computed}

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        return {}, []


def evaluate(program: Callable[[], None], *, project: str, stack: str) -> list[Resource]:
    """Run a Pulumi program and return the resources that it declares, by type and name.

    Parameters
    ----------
    program
        Declares resources.
    project, stack
        What `pulumi.get_project()` and `pulumi.get_stack()` are to say.
    """
    recorder = _Recorder()
    set_mocks(recorder, project=project, stack=stack, preview=False)
    # A decorator for tests by its name; what it does is to wait until every resource is declared.
    pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]
    # Which one comes first is the engine's affair and changes from one time to the next.
    return sorted(recorder.resources, key=lambda resource: (resource.type, resource.name))
