"""The handler as deployed, with jobs for the tests, and faults where a test asks for them.

`functions-framework --source tests/support/app.py --target handle` serves it.
"""

import os
from datetime import datetime, timedelta
from pathlib import Path

# isort: off
from tests.support import jobs  # noqa: F401  (registers the jobs, before the service takes them)
import main
from main import handle

# isort: on
from once import protocol

from tests.support.scripted import ScriptedSqliteStore

__all__ = ["handle"]

if script := os.environ.get("TEST_SCRIPT"):
    main.service._guard._store = ScriptedSqliteStore(Path(os.environ["TEST_SQLITE"]), script)

if seconds := os.environ.get("TEST_CLOCK_AHEAD_SECONDS"):
    ahead = timedelta(seconds=float(seconds))

    def wrong_clock() -> datetime:
        return protocol.utc_now() + ahead

    main.service._guard._wall_clock = wrong_clock
