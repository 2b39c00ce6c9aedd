"""Fixtures that every test may ask for."""

from collections.abc import Iterator

import pytest

from tools.cache import ToolError
from tools.emulators import firestore_emulator


@pytest.fixture(scope="session")
def firestore_host() -> Iterator[str]:
    """Yield host:port of a Firestore emulator; without one the whole test run stops and fails."""
    try:
        with firestore_emulator() as host:
            yield host
    except ToolError as error:
        pytest.exit(f"the tests need a Firestore emulator: {error}", returncode=3)
