"""What pulumi-docker-build does around an image, with a build that only hashes its context."""

from __future__ import annotations

import fnmatch
import hashlib
from pathlib import Path
from typing import Any

from tests.support.stand_in.cloud import RefusedError

IMAGE = "docker-build:index:Image"


def check(values: dict[str, Any], preview_builds: bool) -> None:
    """Refuse what fails on a machine without Docker, or without the files.

    Raises
    ------
    RefusedError
        With the text of the provider.
    """
    if preview_builds and values.get("buildOnPreview", True):
        raise RefusedError(
            "failed to connect to the docker API at unix:///var/run/docker.sock "
            "(the preview builds unless buildOnPreview is false)"
        )
    context = Path(values["context"]["location"])
    if context.is_absolute():
        raise RefusedError(f"{context}: an absolute context differs on every machine")
    dockerfile = Path((values.get("dockerfile") or {}).get("location") or context / "Dockerfile")
    if not dockerfile.is_file():
        raise RefusedError(f"{dockerfile}: no such file")


def context_hash(values: dict[str, Any]) -> str:
    """Return a hash over what would be sent to the builder."""
    context = Path(values["context"]["location"])
    ignore_file = context / ".dockerignore"
    lines = ignore_file.read_text().splitlines() if ignore_file.exists() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    digest = hashlib.sha256()
    for file in sorted(context.rglob("*")):
        name = file.relative_to(context).as_posix()
        if file.is_file() and not _ignored(name, patterns):
            digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    dockerfile = Path((values.get("dockerfile") or {}).get("location") or context / "Dockerfile")
    digest.update(dockerfile.read_bytes())
    return digest.hexdigest()


def _ignored(name: str, patterns: list[str]) -> bool:
    ignored = False
    parts = name.split("/")
    prefixes = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for pattern in patterns:
        negated = pattern.startswith("!")
        bare = pattern.removeprefix("!").strip("/")
        tails = [bare] + ([bare.removeprefix("**/")] if bare.startswith("**/") else [])
        if any(_matches(prefix, tail) for prefix in prefixes for tail in tails):
            ignored = not negated
    return ignored


def _matches(name: str, pattern: str) -> bool:
    """Match as Docker does: a star stays within a folder, two stars do not."""
    if "**" in pattern:
        return fnmatch.fnmatchcase(name, pattern)
    return name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)


def outputs(values: dict[str, Any]) -> dict[str, Any]:
    """Return what a build and push of these inputs gives."""
    hashed = context_hash(values)
    digest = "sha256:" + hashlib.sha256(hashed.encode()).hexdigest()
    tags = values.get("tags") or ["image"]
    repository = tags[0].rpartition(":")[0] or tags[0]
    return {"contextHash": hashed, "digest": digest, "ref": f"{repository}@{digest}"}
