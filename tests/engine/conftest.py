"""The example stacks, previewed and brought up once for the tests that only look."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.engine import IMAGE, Engine, Result, Stack

STACKS = ("dev", "prod")


@dataclass(frozen=True)
class Example:
    """What the engine said of one example stack, from nothing."""

    preview: Result
    up: Result
    second_preview: Result
    engine: Engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Example]:
    made = {}
    for name in STACKS:
        engine = Engine(tmp_path_factory.mktemp(name))
        stack = engine.example(name, {"image": IMAGE})
        preview = stack.preview().raise_for_status()
        up = stack.up().raise_for_status()
        made[name] = Example(preview, up, stack.preview().raise_for_status(), engine)
    return made


@pytest.fixture
def dev(tmp_path: Path, examples: Mapping[str, Example]) -> Stack:
    """The deployed example stack dev, in a copy of its own."""
    return examples["dev"].engine.copy(tmp_path).example("dev", {"image": IMAGE})


@pytest.fixture
def prod(tmp_path: Path, examples: Mapping[str, Example]) -> Stack:
    """The deployed example stack prod, in a copy of its own."""
    return examples["prod"].engine.copy(tmp_path).example("prod", {"image": IMAGE})


@pytest.fixture(params=STACKS)
def example(request: pytest.FixtureRequest, examples: Mapping[str, Example]) -> Example:
    return examples[str(request.param)]
