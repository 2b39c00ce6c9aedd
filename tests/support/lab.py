"""A store with the handlers that tests start on it, and the wire between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from once.stores import Store, open_store

from tests.support.backends import Backend, SqliteBackend
from tests.support.faults import Script
from tests.support.handler import APP, Handler
from tests.support.scripted import ScriptedSqliteStore

_NONE: Mapping[str, str] = MappingProxyType({})


class Lab:
    """One store, and the handlers that a test starts on it.

    Parameters
    ----------
    backend
        The store.
    folder
        For effects, gates and logs.
    """

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self._effects = folder / "effects"
        self._effects.touch()

    def handler(
        self, *, settings: Mapping[str, str] = _NONE, threads: int = 8, source: Path = APP
    ) -> Handler:
        """Return a handler that is starting; `with` waits until it serves."""
        env = {**self.backend.env(), "TEST_EFFECTS": str(self._effects), **settings}
        return Handler(source, self.folder, env, threads=threads)

    def effects(self, run_id: str, what: str = "ran") -> list[dict[str, Any]]:
        """Return what jobs did for a run."""
        lines = [json.loads(line) for line in self._effects.read_text().splitlines()]
        return [each for each in lines if each["run_id"] == run_id and each["what"] == what]

    def gate(self, name: str) -> Path:
        """Return the file that opens a gate when it is made."""
        return self.folder / f"gate-{name}"


class Wire:
    """What stands between a handler and its store: a script of faults.

    Parameters
    ----------
    lab
        The store.
    script
        The faults.
    settings
        What a handler needs in its environment to go through them.
    """

    def __init__(self, lab: Lab, script: Script, settings: dict[str, str]) -> None:
        self.script = script
        self.settings = settings
        self._lab = lab

    def store(self, monkeypatch: pytest.MonkeyPatch) -> Store:
        """Return a store in this process whose calls go through the script."""
        if isinstance(self._lab.backend, SqliteBackend):
            return ScriptedSqliteStore(self._lab.backend.path, self.settings["TEST_SCRIPT"])
        for name, value in self.settings.items():
            monkeypatch.setenv(name, value)
        return open_store(self._lab.backend.url)
