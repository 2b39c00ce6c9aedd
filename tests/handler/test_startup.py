"""What importing the handler loads and does before the first request."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.deliveries import Delivery
from tests.support.faults import eventually
from tests.support.handler import MAIN, ROOT, Handler
from tests.support.tcp_proxy import TcpProxy

HANDLER = ROOT / "handler"
STANDARD = sys.stdlib_module_names
NAMESPACES = {"google", "google.cloud"}  # made by *.pth files before any import


def python(program: str, folder: Path, **env: str) -> str:
    """Run a program as a deployed handler would be run, and return what it prints."""
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(HANDLER), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def loaded(program: str, folder: Path, **env: str) -> set[str]:
    """Return the modules that a program has loaded at its end."""
    output = python(
        f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))", folder, **env
    )
    return set(json.loads(output.splitlines()[-1]))


def under(names: set[str], *packages: str) -> set[str]:
    """Return the modules of some packages."""
    return {name for name in names if any(f"{name}.".startswith(f"{each}.") for each in packages)}


def test_library_needs_neither_a_web_framework_nor_a_google_client_nor_a_network(
    tmp_path: Path,
) -> None:
    """The modules are not only unused but out of reach, and so is every socket."""
    program = """
import socket, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"flask", "werkzeug", "functions_framework", "google", "grpc"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
socket.socket = None

from once import Fatal, Run, job

@job("mine")
def mine(run: Run) -> None:
    raise Fatal
"""
    modules = loaded(program, tmp_path)

    assert not under(modules, "flask", "google", "grpc", "requests") - NAMESPACES


def test_handler_on_sqlite_loads_no_google_client(tmp_path: Path) -> None:
    modules = loaded("import main", tmp_path)

    # functions-framework itself brings the two tiny modules of google.cloud.functions.
    google = under(modules, "google") - under(
        modules, "google.cloud.functions", "google.cloud.functions_v1"
    )
    assert google <= NAMESPACES
    assert not under(modules, "grpc", "once.stores.firestore")
    assert under(modules, "once.stores.sqlite")


@pytest.mark.parametrize("store", ["sqlite:///runs.db", "firestore://p/d"])
def test_handler_loads_no_client_that_its_settings_do_not_ask_for(
    store: str, tmp_path: Path
) -> None:
    modules = loaded("import main", tmp_path, ONCE_STORE=store)

    assert not under(
        modules,
        "googleapiclient",
        "once.starts",
        "google.cloud.pubsub",
        "google.cloud.firestore_admin_v1",
        "google.cloud.firestore_bundle.types",
        "pulumi",
        "yaml",
    )
    assert not under(modules, "once.stores.sqlite" if "firestore" in store else "grpc")


@pytest.fixture
def emulator(firestore_host: str) -> Iterator[TcpProxy]:
    with TcpProxy(firestore_host) as proxy:
        yield proxy


@pytest.mark.parametrize("store", ["sqlite", "firestore"])
def test_first_request_loads_no_package_that_start_up_could_have_loaded(
    store: str, firestore_host: str, tmp_path: Path
) -> None:
    """Start-up is where Cloud Run gives more CPU, and a first request where somebody waits."""
    program = f"""
import json, sys
from functions_framework import create_app
from werkzeug.test import EnvironBuilder, run_wsgi_app

app = create_app("handle", {str(MAIN)!r})
request = EnvironBuilder(method="POST", headers={Delivery("nightly-report").headers!r})
environment = request.get_environ()
before = set(sys.modules)
answer, status, _ = run_wsgi_app(app, environment)
assert status == "200 OK", b"".join(answer)
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    url = {"sqlite": "sqlite:///runs.db", "firestore": "firestore://test-start/d"}[store]
    output = python(
        program,
        tmp_path,
        WORK_DIR=str(tmp_path),
        ONCE_STORE=url,
        FIRESTORE_EMULATOR_HOST=firestore_host,
    )

    later = json.loads(output.splitlines()[-1])
    assert [name for name in later if "." not in name and name not in STANDARD] == []


def test_garbage_is_collected_once_all_is_loaded(tmp_path: Path) -> None:
    program = f"""
import gc
from functions_framework import create_app

collections = gc.get_stats()[2]["collections"]
create_app("handle", {str(MAIN)!r})
print(gc.isenabled(), gc.get_freeze_count() > 0, gc.get_stats()[2]["collections"] - collections)
"""
    output = python(program, tmp_path, ONCE_STORE="firestore://test-start/d")

    assert output.splitlines()[-1] == "True True 0"


def test_process_connects_on_the_first_delivery_and_once_for_eight(
    emulator: TcpProxy, tmp_path: Path
) -> None:
    env = {
        "ONCE_STORE": "firestore://test-start/d",
        "FIRESTORE_EMULATOR_HOST": emulator.host,
        "WORK_DIR": str(tmp_path),
    }
    with Handler(MAIN, tmp_path, env, threads=8) as handler:
        refused = handler.request("POST", {})  # an answer proves that the worker is up
        assert (refused.status, emulator.connections) == (400, 0)

        answers = handler.post_all([Delivery("nightly-report") for _ in range(8)])

    assert [each.outcome for each in answers] == ["completed"] * 8
    assert emulator.connections == 1


def test_process_on_sqlite_makes_its_file_on_the_first_delivery(tmp_path: Path) -> None:
    env = {"ONCE_STORE": "sqlite:///deep/down/runs.db", "WORK_DIR": str(tmp_path)}
    with Handler(MAIN, tmp_path, env) as handler:
        assert handler.request("POST", {}).status == 400
        assert not (tmp_path / "deep").exists()

        answers = handler.post_all([Delivery("nightly-report") for _ in range(8)])

    assert [each.outcome for each in answers] == ["completed"] * 8
    assert (tmp_path / "deep" / "down" / "runs.db").exists()


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"ONCE_STORE": "redis://x"}, "ONCE_STORE"),
        ({"ONCE_STORE": "firestore://only-a-project"}, "ONCE_STORE"),
        ({"K_SERVICE": "handler"}, "ONCE_STORE"),
        ({"CLOUD_RUN_JOB": "handler"}, "ONCE_STORE"),
        ({"GAE_ENV": "standard"}, "ONCE_STORE"),
        ({"ONCE_STORE": "firestore://[x/d"}, "ONCE_STORE"),
        ({"ONCE_STORE": "sqlite:////tmp"}, "ONCE_STORE"),
        ({"ONCE_STORE": "sqlite:///a?b.db"}, "ONCE_STORE"),
        ({"ONCE_EVENTS": "{"}, "ONCE_EVENTS is not JSON"),
        (
            {"ONCE_EVENTS": '{"a": {}, "a": {}}'},
            "ONCE_EVENTS has a key twice",
        ),
        ({"ONCE_EVENTS": '{"a": {"type": ""}}'}, "ONCE_EVENTS a.type"),
        ({"ONCE_EVENTS": '{"a\\nb": {"type": ""}}'}, "ONCE_EVENTS a b.type"),
        ({"ONCE_EVENTS": '{"a": {"type": "t", "maxAgeSeconds": 1e99}}'}, "ONCE_EVENTS a.maxAge"),
        ({"ONCE_LEASE_SECONDS": "9" * 5000}, "ONCE_LEASE_SECONDS"),
        ({"ONCE_LEASE_SECONDS": "5m"}, "ONCE_LEASE_SECONDS"),
        ({"ONCE_LEASE_SECONDS": "0"}, "ONCE_LEASE_SECONDS"),
        ({"ONCE_LEASE_SECONDS": "-1"}, "ONCE_LEASE_SECONDS"),
        ({"ONCE_LEASE_SECONDS": "٣"}, "ONCE_LEASE_SECONDS"),
        ({"ONCE_RETENTION_SECONDS": "7d"}, "ONCE_RETENTION_SECONDS"),
        ({"ONCE_RETENTION_SECONDS": "60"}, "ONCE_RETENTION_SECONDS"),
    ],
)
def test_wrong_setting_stops_the_process_with_one_line_that_names_it(
    env: Mapping[str, str], named: str, tmp_path: Path
) -> None:
    handler = Handler(MAIN, tmp_path, env)
    try:
        assert handler.wait_until_ended() != 0
        (line,) = handler.output().splitlines()
        assert line.startswith(named)
    finally:
        handler.kill()


def test_default_store_is_a_file_under_the_working_directory(tmp_path: Path) -> None:
    with Handler(MAIN, tmp_path, {"WORK_DIR": str(tmp_path)}) as handler:
        assert handler.post(Delivery("nightly-report")).outcome == "completed"

    assert (tmp_path / ".local" / "runs.db").exists()


def test_port_is_closed_after_the_end(tmp_path: Path) -> None:
    """The tests leave nothing behind."""
    with Handler(MAIN, tmp_path, {}) as handler:
        port = handler.port

    def closed() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    eventually(closed, "the port is closed")
