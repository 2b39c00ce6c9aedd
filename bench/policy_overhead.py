"""What the policy pack adds to a preview: ``python -m bench.policy_overhead``.

Previews with and without the pack take turns, so that whatever else the machine does hits both
alike. The first of each warms caches and is not counted. It runs the real engine with the stand-ins
of the tests for the providers, so the ratio is one against a preview that waits for no network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.engine.test_scale import settings
from tests.support.engine import REPOSITORY, Engine, Stack

PACK = REPOSITORY / "policies"
RESULT = Path(__file__).with_name("policy_overhead.json")


def seconds_of_preview(stack: Stack, pack: Path | None) -> float:
    """Run one preview and return how long it took."""
    config = pack / "dev.json" if pack else None
    started = time.perf_counter()
    stack.preview(policies=pack, policy_config=config).raise_for_status()
    return round(time.perf_counter() - started, 2)


def measure(jobs: int, rounds: int) -> dict[str, Any]:
    """Return what `rounds` previews of each kind take for a stack with so many jobs."""
    without, having = [], []
    with tempfile.TemporaryDirectory() as folder:
        stack = Engine(Path(folder)).example("dev", settings(jobs, services=1))
        for _ in range(rounds + 1):
            without.append(seconds_of_preview(stack, None))
            having.append(seconds_of_preview(stack, PACK))
    before, after = statistics.median(without[1:]), statistics.median(having[1:])
    return {
        "jobs": jobs,
        "seconds": {"without": without[1:], "with": having[1:]},
        "median": {"without": round(before, 2), "with": round(after, 2)},
        "added": round(after - before, 2),
        "ratio": round(after / before, 2),
    }


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[3, 100])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    result = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} processors, {platform.machine()}",
        "previews": [measure(jobs, arguments.rounds) for jobs in arguments.jobs],
    }
    text = json.dumps(result, indent=2)
    RESULT.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
