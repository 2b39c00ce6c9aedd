"""Reads a stack's configuration from the two files, for programs that run without the engine."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from infra.config import StackConfig, load


def read_stack(
    root: Path, stack: str, changes: Mapping[str, object] = MappingProxyType({})
) -> StackConfig:
    """Read `Pulumi.<stack>.yaml` over the defaults of `Pulumi.yaml`, as the engine does.

    Parameters
    ----------
    root
        The folder of the two files.
    stack
        The stack's name.
    changes
        Top-level values in place of the files' own.

    Raises
    ------
    FileNotFoundError
        If the stack has no file.
    ConfigError
        If the configuration cannot be used.
    """
    project = _mapping(yaml.safe_load((root / "Pulumi.yaml").read_text()))
    stack_file = _mapping(yaml.safe_load((root / f"Pulumi.{stack}.yaml").read_text()))
    merged: dict[str, object] = {}
    for key, declared in _mapping(project.get("config")).items():
        given = (
            declared.get("value", declared.get("default"))
            if isinstance(declared, Mapping)
            else declared
        )
        if given is not None:
            merged[key] = given
    merged.update(_mapping(stack_file.get("config")))
    own = {key.removeprefix(f"{project['name']}:"): value for key, value in merged.items()}
    provider = {key: own.pop(key) for key in [*own] if ":" in key}
    own.update(changes)
    return load(
        own, project=_text(provider.get("gcp:project")), region=_text(provider.get("gcp:region"))
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
