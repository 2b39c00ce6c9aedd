"""A tethered program ends with the process that started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tools import tether

ROOT = Path(__file__).resolve().parents[2]

# Starts a shell that starts a sleep, and says the sleep's process id.
PARENT = """
import subprocess, sys, time
from tools import tether
tether.start(["sh", "-c", "sleep 600 & echo $!; wait"], output=None)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    """Say whether a process runs; one that nobody has reaped yet does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def ended(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        signal.sigtimedwait([], 0.1)
    return False


def test_killed_parent_takes_the_whole_group_with_it() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    grandchild = int(parent.stdout.readline())
    assert alive(grandchild)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert ended(grandchild)


def test_return_code_is_the_program_s() -> None:
    assert tether.start(["sh", "-c", "exit 7"]).wait() == 7
    assert tether.start(["sh", "-c", "kill -9 $$"]).wait() == 128 + 9


def test_sigterm_reaches_the_program_and_its_end_is_awaited(tmp_path: Path) -> None:
    script = f"trap 'sleep 0.3; echo done > {tmp_path}/out; exit 3' TERM; echo > {tmp_path}/up; "
    with tether.running(["sh", "-c", script + "while :; do sleep 0.05; done"]) as process:
        while not (tmp_path / "up").exists():
            os.sched_yield()
        tether.send(process, signal.SIGTERM)
        assert process.wait() == 3
    assert (tmp_path / "out").read_text() == "done\n"
