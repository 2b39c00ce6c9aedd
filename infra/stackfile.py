"""Reads a stack's configuration from the two files, for programs that run without the engine."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from infra.config import ConfigError, StackConfig, load
from infra.reading import Problem


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
    project = _mapping(_parse(root / "Pulumi.yaml"))
    stack_file = _mapping(_parse(root / f"Pulumi.{stack}.yaml"))
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


def _parse(file: Path) -> object:
    text = file.read_text()
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file.name} line {mark.line + 1}" if mark else file.name
        what = getattr(error, "problem", None) or str(error)
        line = text.splitlines()[mark.line].strip() if mark and mark.line < text.count("\n") else ""
        raise ConfigError([Problem(where, f"`{line}`: {what}{_hint(what, line)}")]) from None


def _hint(problem: str, line: str) -> str:
    """Say what to do about the mistakes that are made most."""
    if "alias" in problem or ("*" in line and '"' not in line):
        return '; a schedule that begins with * must be in quotes: schedule: "*/5 * * * *"'
    if "\\t" in problem:
        return "; indent with spaces, not with tabs"
    if "mapping values" in problem or "expected <block end>" in problem:
        return "; check the indentation here and in the line before"
    return ""


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return None if value is None else str(value)
