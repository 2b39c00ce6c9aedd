"""The handler beside the pattern of Cloud Scheduler's sample: ``python -m bench.handler``.

Both run as they are deployed, functions-framework under gunicorn, against one Firestore emulator,
with compiled bytecode and a job that does next to nothing. They take turns, so that whatever else
the machine does hits both alike. The first of each is thrown away.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.support.deliveries import Delivery
from tests.support.faults import Script
from tests.support.firestore_proxy import FirestoreProxy
from tests.support.handler import ROOT, Answer, Handler
from tools.emulators import firestore_emulator

PROJECT = "bench"
OURS, REFERENCE = "handler/", "sample's pattern"


def delivery() -> Delivery:
    """Return a delivery of a fresh run; both handlers understand it."""
    return Delivery("sync-rates", body=b'{"base": "EUR"}')


class Contestant:
    """One of the two handlers.

    Parameters
    ----------
    name
        As the report calls it.
    source
        Its folder in the repository.
    folder
        Where it is copied and compiled.
    """

    def __init__(self, name: str, source: Path, folder: Path) -> None:
        self.name = name
        self.folder = folder
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(folder, quiet=1)

    def settings(self, host: str) -> dict[str, str]:
        return {
            "PYTHONPATH": "",
            "FIRESTORE_EMULATOR_HOST": host,
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "ONCE_STORE": f"firestore://{PROJECT}/runs",
        }

    def start(self, host: str) -> Handler:
        return Handler(self.folder / "main.py", self.folder, self.settings(host))

    def rpcs(self, emulator: str) -> dict[str, int]:
        """Count the calls of one fresh run and of its duplicates."""
        script = Script()
        with FirestoreProxy(emulator, script) as proxy:
            first, second = self.start(proxy.host), self.start(proxy.host)
            with first as one, second as other:
                each = delivery()
                return {
                    "fresh run": _calls(script, lambda: one.post(each)),
                    "duplicate, seen to end": _calls(script, lambda: one.post(each)),
                    "duplicate, other process": _calls(script, lambda: other.post(each)),
                }

    def import_seconds(self, host: str) -> float:
        """Return the CPU time of a Python that only imports the source.

        CPU time, because that is what a start-up costs whatever else the machine does.
        """
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _python(["-c", "import main"], self.folder, self.settings(host))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def cold_start_seconds(self, host: str) -> float:
        """Time from the start of the process to the answer to its first delivery."""
        begun = time.perf_counter()
        with self.start(host) as handler:
            assert handler.post(delivery()).status == 200
            return time.perf_counter() - begun


def _calls(script: Script, act: Callable[[], Answer]) -> int:
    script.calls.clear()
    assert act().status == 200
    return len(script.calls)


def _python(arguments: list[str], folder: Path, settings: Mapping[str, str]) -> str:
    run = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stderr


@contextmanager
def _pairs(contestants: list[Contestant], host: str) -> Iterator[dict[str, list[Handler]]]:
    """Yield two running processes of each contestant."""
    handlers = {each.name: [each.start(host), each.start(host)] for each in contestants}
    started = [handler for pair in handlers.values() for handler in pair]
    try:
        for handler in started:
            handler.wait_until_serving()
        yield handlers
    finally:
        for handler in started:
            handler.kill()


Figures = dict[str, dict[str, list[float]]]
"""Seconds by what was measured and by contestant."""


def latencies(contestants: list[Contestant], host: str, repeats: int) -> Figures:
    """Time deliveries, one after another, the contestants in turn."""
    figures: Figures = {}
    with _pairs(contestants, host) as handlers:
        for number in range(repeats + 1):
            for name, (one, other) in handlers.items():
                each = delivery()
                for what, handler in (
                    ("fresh run", one),
                    ("duplicate, seen to end", one),
                    ("duplicate, other process", other),
                ):
                    begun = time.perf_counter()
                    assert handler.post(each).status == 200
                    seconds = time.perf_counter() - begun
                    if number:
                        figures.setdefault(what, {}).setdefault(name, []).append(seconds)
    return figures


def starts(contestants: list[Contestant], host: str, repeats: int) -> Figures:
    """Time imports and cold starts, the contestants in turn."""
    figures: Figures = {"import, CPU": {}, "cold start": {}}
    for number in range(repeats + 1):
        for each in contestants:
            imported, cold = each.import_seconds(host), each.cold_start_seconds(host)
            if number:
                figures["import, CPU"].setdefault(each.name, []).append(imported)
                figures["cold start"].setdefault(each.name, []).append(cold)
    return figures


def where_the_import_goes(contestant: Contestant, settings: Mapping[str, str]) -> dict[str, float]:
    """Return the milliseconds that each package's own modules take when `main` is imported."""
    text = _python(["-X", "importtime", "-c", "import main"], contestant.folder, settings)
    spent: dict[str, float] = {}
    for microseconds, name in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", text):
        package = name.split(".")[0]
        if package in sys.stdlib_module_names:
            package = "the standard library"
        elif package == "google":
            package = ".".join(name.split(".")[:3]) if ".cloud." in name else "google (other)"
        spent[package] = spent.get(package, 0.0) + int(microseconds) / 1000
    return dict(sorted(spent.items(), key=lambda item: -item[1])[:8])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.handler", description=__doc__)
    parser.add_argument("--deliveries", type=int, default=200, help="of each kind, for latencies")
    parser.add_argument("--starts", type=int, default=10, help="of each handler")
    parser.add_argument("--raw", type=Path, help="write every figure to this file, as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, firestore_emulator() as host:
        ours = Contestant(OURS, ROOT / "handler", Path(name) / "ours")
        reference = Contestant(REFERENCE, ROOT / "bench" / "reference", Path(name) / "reference")
        contestants = [ours, reference]
        rpcs = {each.name: each.rpcs(host) for each in contestants}
        figures = {
            **latencies(contestants, host, arguments.deliveries),
            **starts(contestants, host, arguments.starts),
        }
        sqlite = {**ours.settings(host), "ONCE_STORE": "sqlite:///runs.db"}
        goes = {
            "Firestore": where_the_import_goes(ours, ours.settings(host)),
            "SQLite": where_the_import_goes(ours, sqlite),
        }
    print(_report(rpcs, figures, goes))
    if arguments.raw:
        arguments.raw.write_text(json.dumps({"rpcs": rpcs, "seconds": figures, "import": goes}))


def _report(
    rpcs: dict[str, dict[str, int]], figures: Figures, goes: dict[str, dict[str, float]]
) -> str:
    load = os.getloadavg()[0]
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}, load average {load:.1f}, "
        f"`python {' '.join(['-m', 'bench.handler', *sys.argv[1:]])}`",
        "",
        f"| RPCs | {OURS} | {REFERENCE} |",
        "|---|---|---|",
        *(f"| {what} | {rpcs[OURS][what]} | {rpcs[REFERENCE][what]} |" for what in rpcs[OURS]),
        "",
        f"| ms, median (least, p95) | {OURS} | {REFERENCE} | ratio of medians | of the least |",
        "|---|---|---|---|---|",
    ]
    for what, times in figures.items():
        cells = []
        for name in (OURS, REFERENCE):
            sample = [1000 * each for each in times[name]]
            p95 = statistics.quantiles(sample, n=20)[-1]
            cells.append(f"{statistics.median(sample):.1f} ({min(sample):.1f}, {p95:.1f})")
        medians, least = (
            function(times[OURS]) / function(times[REFERENCE])
            for function in (statistics.median, min)
        )
        lines.append(
            f"| {what}, n={len(times[OURS])} | {' | '.join(cells)} | {medians:.2f} | {least:.2f} |"
        )
    for store, spent in goes.items():
        parts = ", ".join(f"{package} {ms:.0f}" for package, ms in spent.items())
        lines += ["", f"Where the import goes with {store}, ms by package: {parts}."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
