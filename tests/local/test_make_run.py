"""`python -m local` as people run it: a process, the real handler, both stores."""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import yaml

from local.plan import DEFAULT_SHARES, WORDS, Fault

ROOT = Path(__file__).resolve().parents[2]
NOTHING_GOES_WRONG = ["--events=0", *(f"--{fault}=0" for fault in DEFAULT_SHARES)]
SLOWLY = "--speed=20"
"""A minute in three seconds: two of these run at once, beside whatever else there is."""


# A shell starts what it puts into the background with SIGINT ignored, and that is inherited. Not a
# preexec_fn: it would fork this process, whose gRPC threads do not survive that.
HEARING_INTERRUPTS = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def start(folder: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HEARING_INTERRUPTS, "-m", "local", *arguments],
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
    for name in ("handler", "infra", "local", "tools", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.glob("Pulumi*.yaml"):
        shutil.copy(file, tmp_path)
    return tmp_path


def add(fork: Path, kind: str, **entry: object) -> None:
    """Add an entry to a list of the fork's development stack."""
    file = fork / "Pulumi.dev.yaml"
    stack = yaml.safe_load(file.read_text())
    stack["config"].setdefault(kind, []).append(entry)
    file.write_text(yaml.safe_dump(stack))


def rows(out: str, label: str) -> list[str]:
    """Return the table's rows about a job, without their notes."""
    table = out[out.index("deliveries") :].splitlines()
    return [line for line in table if line[2:].startswith(f"{label} ")]


@pytest.fixture(scope="module")
def both_stores(
    tmp_path_factory: pytest.TempPathFactory, firestore_host: str
) -> dict[str, tuple[int, str, str]]:
    """Two at once, which must not get in each other's way."""
    running = {
        store: start(ROOT, f"--store={store}", SLOWLY, FIRESTORE_EMULATOR_HOST=firestore_host)
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
    for words in WORDS.values():
        assert words.short in out
    assert "forced, twice" in out


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


def test_first_job_of_the_readme_shows_up(fork: Path) -> None:
    steps = (ROOT / "README.md").read_text().split("## Your first job")[1]
    blocks = re.findall(r"```\w+\n(.*?)```", steps, re.DOTALL)
    function, entry = (textwrap.dedent(block) for block in blocks[:2])
    with (fork / "handler" / "jobs.py").open("a") as jobs:
        jobs.write(f"\n\n{function}")
    (job,) = yaml.safe_load(entry)
    add(fork, "jobs", **job)
    code, out, err = run(fork, "--slots=1", *NOTHING_GOES_WRONG)
    assert code == 0, out + err
    assert "not longer than its lease" not in out, "the first thing to be seen is no warning"
    (logs,) = re.findall(r"jobs' files: (\S+)", out)
    assert "hello, 20" in "".join(log.read_text() for log in (fork / logs).glob("handler-*.log"))
    found = rows(out, "hello")
    assert len(found) == 2, "one scheduled run, one forced"
    assert all(row.startswith("✓") and row.split()[-1] == "1" for row in found), "one effect each"


def test_start_job_starts_one_operation_for_each_run(fork: Path) -> None:
    add(fork, "jobs", name="export", schedule="0 4 * * *", start={"workflow": {"name": "export"}})
    shares = dict.fromkeys(DEFAULT_SHARES, 0.0)
    shares |= {Fault.RAISE: 0.25, Fault.KILL_AFTER: 0.25, Fault.LOST_ANSWER: 0.25}
    code, out, err = run(
        fork, "--events=0", *(f"--{fault}={share}" for fault, share in shares.items())
    )
    assert code == 0, out + err
    found = rows(out, "export")
    assert len(found) == 5
    assert all(row.startswith("✓") and row.split()[-1] == "1" for row in found), "one effect each"


def test_messages_take_effect_once(fork: Path) -> None:
    code, out, err = run(fork, "--slots=0", "--forced=0")
    assert code == 0, out + err
    found = rows(out, "orders")
    assert len(found) == 5
    assert all(row.startswith("✓") and row.split()[-1] == "1" for row in found), "one effect each"
    for trouble in ("nothing", "3 at once", "answer lost", "raises once", "killed mid-job"):
        assert trouble in out


def test_event_of_eventarc_takes_effect_once(fork: Path) -> None:
    with (fork / "handler" / "events.py").open("a") as handlers:
        handlers.write(
            "\n\nfrom once import on_event\n\n\n"
            '@on_event("google.cloud.storage.object.v1.finalized")\n'
            "def uploaded(event: Event) -> None:\n"
            '    assert event.attributes["bucket"] == "incoming"\n'
        )
    type_ = "google.cloud.storage.object.v1.finalized"
    add(fork, "events", name="uploads", eventarc={"type": type_, "filters": {"bucket": "incoming"}})
    code, out, err = run(fork, "--slots=0", "--forced=0")
    assert code == 0, out + err
    found = rows(out, "uploads")
    assert len(found) == 5
    assert all(row.startswith("✓") and row.split()[-1] == "1" for row in found), "one effect each"


def test_event_without_a_function_is_named(fork: Path) -> None:
    add(fork, "events", name="refunds", pubsub={})
    code, out, err = run(fork, "--slots=0", "--forced=0", "--events=1")
    assert code == 1, out + err
    assert "nothing handles" in out
    assert "what Pulumi.<stack>.yaml says of refunds" in out


def test_without_the_emulator_of_messages_the_jobs_are_played(fork: Path) -> None:
    process = start(fork, "--slots=1", *NOTHING_GOES_WRONG, "--events=1", PATH="/nowhere")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert "messages are not played: needs Java and the pubsub-emulator" in out
    assert rows(out, "sync-rates")


def test_job_without_a_function_is_named(fork: Path) -> None:
    add(fork, "jobs", name="orphan", schedule="0 1 * * *")
    code, out, err = run(fork, "--slots=1", *NOTHING_GOES_WRONG)
    assert code == 2, out + err
    assert "no function is registered as 'orphan'" in err
    assert "handler/jobs.py" in err
    assert "what Pulumi.<stack>.yaml says of orphan" in err
    assert "attempts" not in out, "nothing is played"


def test_run_that_has_no_effect_says_why(fork: Path) -> None:
    with (fork / "handler" / "jobs.py").open("a") as jobs:
        jobs.write(
            '\n\n@job("refuses")\ndef refuses(run: Run) -> None:\n    raise Fatal("no such base")\n'
            '\n\n@job("without-run")\ndef without_run() -> None:\n    pass\n'
        )
    file = fork / "Pulumi.dev.yaml"
    stack = yaml.safe_load(file.read_text())
    stack["config"]["jobs"] = [{"name": "refuses", "schedule": "0 1 * * *"}]
    file.write_text(yaml.safe_dump(stack))
    code, out, err = run(fork, "--slots=2", *NOTHING_GOES_WRONG, "--lost-answer=0.5")
    assert code == 0, out + err
    assert [row[0] for row in rows(out, "refuses")] == ["■"] * 3
    assert "Fatal: no such base" in out
    add(fork, "jobs", name="without-run", schedule="0 1 * * *")
    code, out, err = run(fork, "--slots=1", "--forced=0", *NOTHING_GOES_WRONG)
    assert code == 1, out + err
    (row,) = rows(out, "without-run")
    assert row[0] == "○"
    assert "TypeError: without_run() takes 0 positional arguments" in out
    assert "BROKE THE PROMISE" not in out


def test_handler_that_does_not_start_is_an_error_with_its_last_words(fork: Path) -> None:
    with (fork / "handler" / "jobs.py").open("a") as jobs:
        jobs.write("\nimport no_such_module\n")
    code, _, err = run(fork)
    assert code == 2
    assert "No module named 'no_such_module'" in err


def test_bad_configuration_is_an_error_with_its_path(fork: Path) -> None:
    add(fork, "jobs", name="late", schedule="every 5 minutes")
    code, _, err = run(fork)
    assert code == 2
    assert re.search(r"jobs\[\d\]\.schedule", err)


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        ('schedule: "0 3 * * *"', "schedule: */5 * * * *", "must be in quotes"),
        ('      schedule: "0 3 * * *"', '        schedule: "0 3 * * *"', "indentation"),
        ('      schedule: "0 3 * * *"', '\t\tschedule: "0 3 * * *"', "spaces, not with tabs"),
    ],
)
def test_mistake_in_yaml_is_an_error_with_its_line(
    fork: Path, right: str, wrong: str, hint: str
) -> None:
    file = fork / "Pulumi.dev.yaml"
    before = file.read_text()
    line = before[: before.index(right)].count("\n") + 1
    file.write_text(before.replace(right, wrong))
    code, _, err = run(fork)
    assert code == 2
    assert f"Pulumi.dev.yaml line {line}: " in err
    assert hint in err
    assert "Traceback" not in err


def test_missing_stack_is_an_error() -> None:
    code, _, err = run(ROOT, "--stack=none")
    assert code == 2
    assert "Pulumi.none.yaml; known: dev, prod" in err


@pytest.mark.parametrize("option", ["--speed", "--kill"])
def test_option_that_is_not_a_number_is_an_error_in_plain_words(option: str) -> None:
    code, _, err = run(ROOT, f"{option}=abc")
    assert code == 2
    assert "'abc' is not a number" in err


def test_firestore_without_an_emulator_says_how_to_get_one() -> None:
    process = start(ROOT, "--store=firestore", PATH="/nowhere", FIRESTORE_EMULATOR_HOST="")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 2, out + err
    assert "gcloud components install cloud-firestore-emulator" in err


def test_emulator_that_is_not_there_is_named() -> None:
    process = start(ROOT, "--store=firestore", FIRESTORE_EMULATOR_HOST="127.0.0.1:1")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 2, out + err
    assert "the Firestore emulator at 127.0.0.1:1 does not answer" in err


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


def test_stop_while_it_is_imported_leaves_no_traceback(fork: Path) -> None:
    module = fork / "local" / "demo.py"
    slow = 'import time\nprint("importing", flush=True)\ntime.sleep(60)\n'
    module.write_text(slow + module.read_text())
    process = start(fork)
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Traceback" not in out + err


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
