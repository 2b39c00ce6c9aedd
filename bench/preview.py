"""How long the preview of a stack takes, by its number of jobs: ``python -m bench.preview``.

It runs the real engine with the stand-ins of the tests for the provider, so it measures the program
and the engine, not Google's APIs. The first line of each size is thrown away.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.engine.test_scale import settings
from tests.support.engine import Engine


def seconds(jobs: int, repeats: int) -> list[float]:
    """Return the times of `repeats` previews of a stack with so many jobs."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        stack = Engine(Path(folder)).example("dev", settings(jobs, services=1))
        for _ in range(repeats + 1):
            start = time.monotonic()
            stack.preview().raise_for_status()
            times.append(time.monotonic() - start)
    return times[1:]


def main() -> None:
    """Measure, and print one line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 10, 100, 200])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("jobs  median s  fastest s  ms per job beyond the first size")
    base: tuple[int, float] | None = None
    for jobs in arguments.jobs:
        times = seconds(jobs, arguments.repeats)
        median = statistics.median(times)
        extra = "" if base is None else f"{1000 * (median - base[1]) / (jobs - base[0]):.1f}"
        base = base or (jobs, median)
        print(f"{jobs:4}  {median:8.2f}  {min(times):9.2f}  {extra}", flush=True)


if __name__ == "__main__":
    main()
