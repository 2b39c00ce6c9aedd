"""The handler as deployed, with jobs for the tests, and faults where a test asks for them.

`functions-framework --source tests/support/app.py --target handle` serves it.
"""

import os

if seconds := os.environ.get("TEST_CLOCK_AHEAD_SECONDS"):  # before anything reads a clock
    from tests.support import clock

    clock.set_ahead(float(seconds))

from pathlib import Path

from tests.support import jobs  # noqa: F401  (registers the jobs)
from tests.support.scripted import ScriptedSqliteStore

if True:  # the service takes the jobs when it is imported
    import main
    from main import handle

__all__ = ["handle"]

if script := os.environ.get("TEST_SCRIPT"):
    main.service._guard._store = ScriptedSqliteStore(Path(os.environ["TEST_SQLITE"]), script)
