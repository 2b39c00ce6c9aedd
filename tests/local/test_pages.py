"""What the pages for people on call and for embedders say is so; every link leads somewhere."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path

import pytest
from once import Run, settings
from once.answer import Outcome, severity
from once.identity import Key
from once.identity.scheduler import scheduled
from once.protocol import Durations
from once.service import Service
from once.settings import Settings
from once.stores import Record, Store, open_store

from tools import tether
from tools.emulators import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")]
PAGES.append(ROOT / "policies" / "README.md")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
EMBEDDING = (ROOT / "docs" / "embedding.md").read_text()
EXAMPLE = ROOT / "examples" / "embedding.py"
IDENTITY = {"X-Scheduler-Project": "PROJECT", "X-Scheduler-Region": "REGION"}


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    for link in links:
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_listed_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert f"(docs/{page.name})" in readme


# --- docs/operations.md ---------------------------------------------------------------------------


def test_every_outcome_that_is_an_error_is_explained() -> None:
    table = OPERATIONS.split("## What each ERROR means")[1].split("\n## ")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert explained == {each for each in Outcome if severity(each) == "ERROR"}


def test_run_id_is_computed_as_the_page_says() -> None:
    (command,) = re.findall(r"^python (-c '.*')$", OPERATIONS, re.MULTILINE)
    shown = subprocess.run(
        [sys.executable, *shlex.split(command)],
        cwd=ROOT / "handler",
        capture_output=True,
        text=True,
        check=True,
    )
    delivery = scheduled(headers(datetime(2026, 11, 30, 2, tzinfo=UTC)))
    assert shown.stdout.strip() == delivery.key(datetime(2027, 1, 1, tzinfo=UTC)).id


def headers(slot: datetime) -> dict[str, str]:
    return {
        **IDENTITY,
        "X-CloudScheduler-JobName": "scheduled-once-nightly-report",
        "X-CloudScheduler-ScheduleTime": slot.isoformat(),
    }


class Process:
    """What one process of the handler knows, over a store that it shares."""

    def __init__(self, store: Store) -> None:
        durations = Durations(timedelta(minutes=6), timedelta(days=7))
        jobs = {"scheduled-once-nightly-report": _nothing}
        self._service = Service(Settings(store, durations, None), jobs=jobs)

    def outcome(self, slot: datetime) -> str:
        return self._service.deliver("POST", headers(slot), b"").headers["X-Once-Outcome"]


def _nothing(run: Run) -> None:
    pass


def delete(store: Store, key: Key) -> None:
    found = store.read(key, time.monotonic() + 10).found
    assert found is not None
    assert store.delete(key, found.version, time.monotonic() + 10)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/runs.db")


def test_forced_run_whose_document_was_deleted_can_be_forced_again(store: Store) -> None:
    process = Process(store)
    now = datetime.now(UTC)
    slot = now + timedelta(hours=1)
    assert process.outcome(slot) == "completed"
    assert process.outcome(slot) == "duplicate"
    delete(store, scheduled(headers(slot)).key(now))
    assert process.outcome(slot) == "completed"


def test_deleted_document_of_a_slot_is_still_known_to_the_process_that_saw_its_end(
    store: Store,
) -> None:
    process = Process(store)
    now = datetime.now(UTC)
    assert process.outcome(now) == "completed"
    delete(store, scheduled(headers(now)).key(now))
    assert process.outcome(now) == "duplicate"
    assert Process(store).outcome(now) == "completed"


def test_document_written_by_hand_ends_a_run(store: Store) -> None:
    now = datetime.now(UTC)
    record = Record(status="failed", attempt_id="", expire_at=now + timedelta(days=7))
    store.create(scheduled(headers(now)).key(now), record, time.monotonic() + 10)
    assert Process(store).outcome(now) == "duplicate"


# --- docs/embedding.md ----------------------------------------------------------------------------


def test_example_stands_on_the_page() -> None:
    assert f"```python\n# examples/embedding.py\n{EXAMPLE.read_text()}```" in EMBEDDING


def test_defaults_on_the_page_are_those_of_the_code(tmp_path: Path) -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", EMBEDDING, re.MULTILINE))
    ours = {value for value in vars(settings).values() if str(value).startswith("ONCE_")}
    assert set(table) == ours | {"THREADS"}
    loaded = settings.load({})
    assert f"`{settings._DEFAULT_STORE}`" in table["ONCE_STORE"]
    assert table["ONCE_LEASE_SECONDS"] == f"`{loaded.durations.lease.total_seconds():.0f}`"
    assert table["ONCE_RETENTION_SECONDS"] == f"`{loaded.durations.retention.total_seconds():.0f}`"
    assert loaded.event_durations == loaded.durations


def test_library_on_sqlite_needs_no_package(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import once.service, once.settings\n"
        "once.service.Service(once.settings.load({}))\n"
        "once.once_per_token('token', lambda: None, name='book')\n"
    )
    command = [sys.executable, "-I", "-S", "-B", "-c", code, str(ROOT / "handler")]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[int]:
    """Serve a copy of the example beside a copy of the library, as the page says."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "handler" / "once", tmp_path / "once", ignore=ignored)
    shutil.copy(EXAMPLE, tmp_path)
    (command,) = re.findall(r"^gunicorn (.*)$", EMBEDDING, re.MULTILINE)
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        process = tether.start(
            [
                Path(sys.executable).with_name("gunicorn"),
                *("--bind", f"127.0.0.1:{port}"),
                *command.split(),
            ],
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=tmp_path,
            output=log,
        )
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.1)
        yield port
    finally:
        tether.kill(process)


def test_embedded_service_answers_as_the_page_says(embedded: int) -> None:
    sent = dict(re.findall(r"-H '(X-[\w-]+): ([^']+)'", EMBEDDING))
    assert len(sent) == 4
    outcomes = []
    for _ in range(2):
        connection = HTTPConnection("127.0.0.1", embedded, timeout=60)
        connection.request("POST", "/deliveries", headers=sent)
        outcomes.append(connection.getresponse().getheader("X-Once-Outcome"))
        connection.close()
    assert outcomes == ["completed", "duplicate"]
