"""Starts programs that cannot outlive the process that started them, whatever ends it.

A program started here is the child of a small watcher, this file run as a script. Both form a
process group of their own, so a Ctrl-C on the terminal does not reach them. The watcher reads from
a pipe that only the starting process holds open: when that process ends, by SIGKILL too, the pipe
does, and the watcher kills its whole group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def start(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: IO[bytes] | int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a program on a tether.

    Parameters
    ----------
    command
        Program and arguments.
    env, cwd
        As for `subprocess.Popen`.
    output
        Takes what the program writes, errors too.

    Returns
    -------
    subprocess.Popen
        The watcher: it ends when the program does, with the program's return code (128 and the
        signal's number where a signal ended it). `kill` ends both.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *command],
        env=None if env is None else dict(env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a program and its own children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and its own children at once; it may have ended already."""
    send(process, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    output: IO[bytes] | int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for the length of a `with` block."""
    process = start(command, env=env, output=output)
    try:
        yield process
    finally:
        kill(process)


def _watch() -> int:
    # SIGTERM is meant for the program, which may take its time; its end is the watcher's end.
    signal.signal(signal.SIGTERM, lambda *_: None)
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

    def cut() -> None:
        # Not sys.stdin: its lock, held here, would abort the interpreter when it ends.
        os.read(0, 1)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=cut, daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_watch())
