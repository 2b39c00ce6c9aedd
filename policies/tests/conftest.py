"""One running pack for all tests."""

from collections.abc import Iterator

import pytest

from .analyzer import Pack, running_pack


@pytest.fixture(scope="session")
def pack() -> Iterator[Pack]:
    with running_pack() as running:
        yield running
