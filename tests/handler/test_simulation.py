"""Random interleavings of a few workers over the real SQLite store, with injected faults.

`make test-long` tries many more seeds than a plain run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.handler.simulation import World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "200"))
FIRST_SEED = int(os.environ.get("SIMULATION_FIRST_SEED", "0"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder in memory where there is one: nothing here is meant to survive a power cut."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def test_no_interleaving_breaks_the_promises(folder: Path) -> None:
    """No live lease is stolen, no ended run runs again, and none is stuck or lost."""
    starts = 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            world = World(seed, folder / f"{seed}.db", patch)
            try:
                world.play()
            except AssertionError as error:
                error.add_note(f"SIMULATION_FIRST_SEED={seed} SIMULATION_SEEDS=1 repeats it")
                raise
            starts += sum(len(run.starts) for run in world.runs.values())
    assert starts >= SEEDS  # a simulation in which nothing runs would prove nothing
