"""`python -m local` as people run it: a process, the real handler, both stores."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTHING_GOES_WRONG = [
    f"--{fault}=0"
    for fault in ("duplicate", "lost-answer", "raise", "slow", "kill", "kill-after", "stall")
]


def start(folder: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "local", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """Copy what `make run` needs, as a fork would have it."""
    for name in ("handler", "infra", "local", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.glob("Pulumi*.yaml"):
        shutil.copy(file, tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def both_stores(
    tmp_path_factory: pytest.TempPathFactory, firestore_host: str
) -> dict[str, tuple[int, str, str]]:
    """Two at once, which must not get in each other's way."""
    running = {
        store: start(ROOT, f"--store={store}", "--slots=3", FIRESTORE_EMULATOR_HOST=firestore_host)
        for store in ("sqlite", "firestore")
    }
    results = {}
    for store, process in running.items():
        out, err = process.communicate(timeout=240)
        results[store] = (process.returncode, out, err)
    return results


@pytest.mark.parametrize("store", ["sqlite", "firestore"])
def test_every_promise_is_kept(both_stores: dict[str, tuple[int, str, str]], store: str) -> None:
    code, out, err = both_stores[store]
    assert code == 0, out + err
    assert "BROKE" not in out
    for trouble in ("3 at once", "answer lost", "job raises once", "outlasts deadline"):
        assert trouble in out
    for trouble in ("killed mid-job", "killed after work", "stalls past lease", "forced, twice"):
        assert trouble in out


def test_handler_that_forgets_is_found_out(fork: Path) -> None:
    """The demo must be able to fail: here a handler takes every claimed run over."""
    with (fork / "handler" / "jobs.py").open("a") as jobs:
        jobs.write(
            "\n\nfrom once import protocol\n"
            "protocol.decide = lambda *_: protocol.Decision(protocol.Verdict.TAKE_OVER)\n"
            "protocol._EndedRuns.has = lambda *_: False\n"
        )
    code, out, err = run(fork, "--slots=2", *NOTHING_GOES_WRONG, "--lost-answer=1")
    assert code == 1, out + err
    assert "2 effects" in out
    assert "BROKE THE PROMISE" in out


def test_new_job_shows_up_without_any_other_code(fork: Path) -> None:
    with (fork / "handler" / "jobs.py").open("a") as jobs:
        jobs.write('\n\n@job("hello")\ndef hello(run: Run) -> None:\n    LOG.info("hello")\n')
    stack = fork / "Pulumi.dev.yaml"
    stack.write_text(stack.read_text() + '    - name: hello\n      schedule: "*/5 * * * *"\n')
    code, out, err = run(fork, "--slots=1", *NOTHING_GOES_WRONG)
    assert code == 0, out + err
    rows = [line for line in out.splitlines() if line.startswith("✓ hello ")]
    assert len(rows) == 2, "one scheduled run, one forced"
    assert all(row.split()[-1] == "1" for row in rows), "one effect each"


def test_job_without_a_function_is_named(fork: Path) -> None:
    stack = fork / "Pulumi.dev.yaml"
    stack.write_text(stack.read_text() + '    - name: orphan\n      schedule: "0 1 * * *"\n')
    code, out, err = run(fork, "--slots=1", *NOTHING_GOES_WRONG)
    assert code == 1, out + err
    assert "no function is registered as 'orphan'" in out
    assert "handler/jobs.py" in out
    assert "in Pulumi.<stack>.yaml" in out


def test_handler_that_does_not_start_is_an_error_with_its_last_words(fork: Path) -> None:
    with (fork / "handler" / "jobs.py").open("a") as jobs:
        jobs.write("\nimport no_such_module\n")
    code, _, err = run(fork)
    assert code == 2
    assert "No module named 'no_such_module'" in err


def test_bad_configuration_is_an_error_with_its_path(fork: Path) -> None:
    stack = fork / "Pulumi.dev.yaml"
    stack.write_text(stack.read_text() + "    - name: late\n      schedule: every 5 minutes\n")
    code, _, err = run(fork)
    assert code == 2
    assert "jobs[3].schedule" in err


def test_missing_stack_is_an_error() -> None:
    code, _, err = run(ROOT, "--stack=none")
    assert code == 2
    assert "Pulumi.none.yaml" in err


def test_shares_beyond_one_are_refused() -> None:
    code, _, err = run(ROOT, "--kill=0.9")
    assert code == 2
    assert "at most 1" in err


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of the handlers whose environment names a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            if f"LOCAL_FOLDER={folder}/".encode() in environment:
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def until_empty(folder: Path) -> list[str]:
    for _ in range(100):
        if not (left := processes_of(folder)):
            return []
        time.sleep(0.1)
    return left


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_no_process_is_left_after(fork: Path, number: signal.Signals, code: int) -> None:
    process = start(fork, "--slots=2")
    assert process.stdout is not None
    for line in process.stdout:
        if " s  " in line:  # the first run was played
            break
    assert processes_of(fork)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    assert until_empty(fork) == []
    assert "Traceback" not in out + err
