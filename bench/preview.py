"""How long the preview of a stack takes, by its number of jobs: ``python -m bench.preview``.

It runs the real engine with the stand-ins of the tests for the provider, so it measures the program
and the engine, not Google's APIs. The first preview of each size is thrown away. CPU seconds are
those of the CLI and of what it started and waited for; a busy machine disturbs them less.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

from tests.engine.test_scale import settings
from tests.support.engine import Engine


def measure(jobs: int, repeats: int) -> tuple[float, float]:
    """Return the median of elapsed and of CPU seconds of previews of a stack with so many jobs."""
    elapsed, used = [], []
    with tempfile.TemporaryDirectory() as folder:
        stack = Engine(Path(folder)).example("dev", settings(jobs, services=1))
        for _ in range(repeats + 1):
            start, cpu = time.monotonic(), _cpu_seconds()
            stack.preview().raise_for_status()
            elapsed.append(time.monotonic() - start)
            used.append(_cpu_seconds() - cpu)
    return statistics.median(elapsed[1:]), statistics.median(used[1:])


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure, and print one line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 50, 100, 200])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("jobs  elapsed s  CPU s  CPU ms per job beyond the first line")
    base: tuple[int, float] | None = None
    for jobs in arguments.jobs:
        elapsed, cpu = measure(jobs, arguments.repeats)
        extra = "" if base is None else f"{1000 * (cpu - base[1]) / (jobs - base[0]):.1f}"
        base = base or (jobs, cpu)
        print(f"{jobs:4}  {elapsed:9.2f}  {cpu:5.2f}  {extra}", flush=True)


if __name__ == "__main__":
    main()
