"""A plain function under a token: the protocol of a run, without Cloud Scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from once import Fatal, once_per_token
from once.identity import Key
from once.protocol import Durations, Guard
from once.tokens import Call

from tests.support.backends import Backend, FirestoreBackend, SqliteBackend
from tests.support.handler import ROOT

DURATIONS = Durations(lease=timedelta(minutes=5), retention=timedelta(days=7))


@pytest.fixture(params=["sqlite", "firestore"])
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Backend:
    """Return each store in turn."""
    if request.param == "sqlite":
        return SqliteBackend(tmp_path / "runs.db")
    host = request.getfixturevalue("firestore_host")
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", host)
    return FirestoreBackend(host)


@pytest.fixture
def guard(backend: Backend) -> Guard:
    return Guard(backend.store(), DURATIONS)


def test_function_runs_once_per_token(backend: Backend, guard: Guard) -> None:
    calls: list[Call] = []

    def work(call: Call) -> dict[str, int]:
        calls.append(call)
        return {"booked": 1}

    first = once_per_token("a", work, name="work", guard=guard)
    second = once_per_token("a", work, name="work", guard=guard)
    elsewhere = once_per_token("a", work, name="work", guard=Guard(backend.store(), DURATIONS))
    other = once_per_token("b", work, name="work", guard=guard)

    assert (first.outcome, first.result) == ("completed", {"booked": 1})
    assert (second.outcome, second.result) == ("duplicate", None)
    assert elsewhere.outcome == "duplicate"
    assert other.outcome == "completed"
    assert [call.token for call in calls] == ["a", "b"]
    assert calls[0].run_id == Key("token", ("work", "a")).id != calls[1].run_id
    assert timedelta(0) < calls[0].remaining() <= DURATIONS.lease
    record = backend.get(Key("token", ("work", "a")))
    assert record is not None
    assert record["status"] == "completed"
    assert record["result"] == {"booked": 1}
    assert (record["function"], record["token"]) == ("work", "a")


def test_plain_function_needs_no_parameter(guard: Guard) -> None:
    ran = []

    def plain() -> None:
        ran.append("plain")

    outcomes = [once_per_token("t-plain", plain, guard=guard).outcome for _ in range(2)]
    assert (outcomes, ran) == (["completed", "duplicate"], ["plain"])


def test_two_functions_may_be_given_the_same_token(guard: Guard) -> None:
    def one(call: Call) -> None: ...

    def two(call: Call) -> None: ...

    assert once_per_token("a", one, guard=guard).outcome == "completed"
    assert once_per_token("a", two, guard=guard).outcome == "completed"
    assert once_per_token("a", one, guard=guard).outcome == "duplicate"


def test_outcome_is_an_http_answer(guard: Guard) -> None:
    done = once_per_token("a", lambda call: None, name="work", guard=guard).answer

    run_id = Key("token", ("work", "a")).id
    assert (done.status, done.headers["X-Once-Outcome"]) == (200, "completed")
    assert json.loads(done.body) == {"outcome": "completed", "run_id": run_id, "job": "work"}


def test_function_that_raises_may_run_again(guard: Guard) -> None:
    failure = RuntimeError("the text of an exception")

    def fail(call: Call) -> None:
        raise failure

    first = once_per_token("a", fail, name="work", guard=guard)

    assert (first.outcome, first.cause, first.answer.status) == ("released", failure, 500)
    assert "the text" not in first.answer.body
    assert once_per_token("a", lambda call: 1, name="work", guard=guard).result == 1


def test_fatal_ends_the_token_for_good(guard: Guard) -> None:
    def refuse(call: Call) -> None:
        raise Fatal("no such account")

    assert once_per_token("a", refuse, name="work", guard=guard).outcome == "failed"
    assert once_per_token("a", lambda call: 1, name="work", guard=guard).outcome == "duplicate"


def test_second_call_meanwhile_is_in_progress(guard: Guard) -> None:
    entered, opened = threading.Event(), threading.Event()

    def wait(call: Call) -> None:
        entered.set()
        opened.wait(30)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(once_per_token, "a", wait, name="work", guard=guard)
        assert entered.wait(30)
        second = once_per_token("a", lambda call: 1, name="work", guard=guard)
        opened.set()
        assert first.result().outcome == "completed"
    assert (second.outcome, second.answer.status) == ("in_progress", 409)
    assert int(second.answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize("token", ["", None, 7, b"a", "\ud800", "t" * 1001])
def test_token_that_no_store_could_hold_is_the_callers_mistake(token: Any, guard: Guard) -> None:
    called: list[str] = []
    done = once_per_token(token, lambda: called.append("x"), name="f", guard=guard)
    assert (done.outcome, done.answer.status, called) == ("bad_request", 400, [])
    assert "idempotency token" in json.loads(done.answer.body)["detail"]


def test_name_of_a_function_is_the_same_whether_its_file_is_run_or_imported(tmp_path: Path) -> None:
    (tmp_path / "charge.py").write_text(
        "from once import once_per_token\n"
        "def charge():\n    print('charged')\n"
        "def main():\n    print(once_per_token('t', charge).outcome)\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    environment = {
        "PYTHONPATH": f"{ROOT / 'handler'}:{tmp_path}",
        "ONCE_STORE": f"sqlite:///{tmp_path}/runs.db",
    }
    outputs = [
        subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for arguments in (["charge.py"], ["-c", "import charge; charge.main()"])
    ]
    assert outputs == [["charged", "completed"], ["duplicate"]]


def test_function_without_a_name_is_refused(guard: Guard) -> None:
    with pytest.raises(ValueError, match="name="):
        once_per_token("a", lambda call: None, guard=guard)


def test_guard_comes_from_the_environment(tmp_path: Path) -> None:
    code = (
        "from once import once_per_token\n"
        "print(*(once_per_token('a', print, name='work').outcome for _ in range(2)))"
    )
    env = {"ONCE_STORE": f"sqlite:///{tmp_path / 'runs.db'}", "PYTHONPATH": ":".join(sys.path)}

    told = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    )

    assert told.stdout.splitlines()[-1] == "completed duplicate"


def test_importing_once_and_reading_its_settings_loads_no_http_client() -> None:
    starts = {"a": {"workflow": {"name": "projects/p/locations/l/workflows/w"}}}
    code = (
        "import sys, once.service\n"
        "from once.settings import load\n"
        f"load({{'ONCE_STORE': 'sqlite:///a', 'ONCE_STARTS': {json.dumps(starts)!r}}})\n"
        "heavy = {'flask', 'requests', 'urllib3', 'google.auth', 'grpc'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    env = {"PYTHONPATH": ":".join(sys.path)}

    told = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    )

    assert told.stdout.strip() == "[]"
