"""The project that the stand-ins provision: what exists in it, kept in a file between runs."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVERY_API = "*"


class RefusedError(Exception):
    """What the API would refuse, with its text."""


@dataclass(frozen=True)
class Thing:
    """One resource that exists."""

    type: str
    id: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class Cloud:
    """What exists, by type and id.

    Parameters
    ----------
    folder
        Holds one file of state per provider and ``calls.jsonl``, the record of every call.
    provider
        ``gcp`` or ``docker-build``.
    """

    def __init__(self, folder: Path, provider: str) -> None:
        self.project_number = json.loads((folder / "project.json").read_text())["number"]
        self._enabled = set(json.loads((folder / "project.json").read_text())["apis"])
        self._calls = folder / "calls.jsonl"
        self._file = folder / f"{provider}.json"
        self._lock = threading.RLock()
        kept = json.loads(self._file.read_text()) if self._file.exists() else []
        self._things = {(one["type"], one["id"]): Thing(**one) for one in kept}

    def record(self, **call: Any) -> None:
        """Append a call to the record."""
        with self._lock, self._calls.open("a") as file:
            file.write(json.dumps(call, sort_keys=True) + "\n")

    def find(self, kind: str, id_: str) -> Thing | None:
        """Return what exists under this type and id."""
        return self._things.get((kind, id_))

    def exists(self, kind: str, **outputs: Any) -> bool:
        """Tell whether something of this type with these outputs exists."""
        with self._lock:
            return any(
                thing.type == kind and all(thing.outputs.get(k) == v for k, v in outputs.items())
                for thing in self._things.values()
            )

    def api_enabled(self, api: str) -> bool:
        """Tell whether an API is on in the project."""
        return bool(self._enabled & {api, EVERY_API}) or self.exists(
            "gcp:projects/service:Service", service=api
        )

    def put(self, thing: Thing) -> None:
        """Create or change."""
        with self._lock:
            self._things[thing.type, thing.id] = thing
            self._write()

    def remove(self, kind: str, id_: str) -> None:
        """Delete, and with it what stands under its id: grants and fields do not outlive it."""
        with self._lock:
            self._things = {
                key: thing
                for key, thing in self._things.items()
                if key != (kind, id_) and not thing.id.startswith(f"{id_}/")
            }
            self._write()

    def _write(self) -> None:
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps([vars(thing) for thing in self._things.values()], indent=1))
        scratch.replace(self._file)
