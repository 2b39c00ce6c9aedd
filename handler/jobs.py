"""The jobs of this service. Replace these three with yours.

Each function is named by a job of `Pulumi.<stack>.yaml`. `make run` plays them on this machine.
"""

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir

from once import Fatal, Run, job

LOG = logging.getLogger(__name__)
WORK = Path(os.environ.get("WORK_DIR", gettempdir()))

_SALES = {"books": 1_250_00, "music": 310_40, "games": 842_15}
_RATES = {"EUR": 1.0, "USD": 1.0837, "GBP": 0.8391, "JPY": 171.62}


@job("nightly-report")
def nightly_report(run: Run) -> None:
    """Write one file per night: repeating it writes the same file again."""
    lines = [f"{name:<8}{cents / 100:>12,.2f}" for name, cents in sorted(_SALES.items())]
    report = WORK / f"report-{run.schedule_time:%Y-%m-%dT%H%MZ}.txt"
    draft = report.with_suffix(f".{run.attempt_id}")
    draft.write_text("\n".join(lines) + "\n")
    draft.replace(report)  # whole or not at all
    LOG.info("wrote %s", report.name)


@job("invoice-run")
def invoice_run(run: Run) -> None:
    """Book invoices in a ledger that refuses what it has booked, and attempts that lost their run.

    This is the downstream's half of the bargain: `run_id` makes a repeat harmless, and the fence
    stops an attempt whose lease was taken over while it was asleep.
    """
    with closing(sqlite3.connect(WORK / "ledger.db", isolation_level=None)) as ledger:
        ledger.execute("CREATE TABLE IF NOT EXISTS fences (run TEXT PRIMARY KEY, fence INTEGER)")
        ledger.execute("CREATE TABLE IF NOT EXISTS invoices (key TEXT PRIMARY KEY, cents INTEGER)")
        ledger.execute("BEGIN IMMEDIATE")
        ledger.execute(
            "INSERT INTO fences VALUES (?, ?) ON CONFLICT (run) DO UPDATE "
            "SET fence = max(fence, excluded.fence)",
            (run.run_id, run.fence),
        )
        (highest,) = ledger.execute(
            "SELECT fence FROM fences WHERE run = ?", (run.run_id,)
        ).fetchone()
        if highest > run.fence:
            raise RuntimeError(f"fence {run.fence} < {highest}: another attempt took over")
        for customer, cents in _SALES.items():
            ledger.execute(
                "INSERT OR IGNORE INTO invoices VALUES (?, ?)", (f"{run.run_id}/{customer}", cents)
            )
        ledger.execute("COMMIT")
    LOG.info("booked %d invoices", len(_SALES))


@job("sync-rates")
def sync_rates(run: Run) -> None:
    """Convert rates to the base that the job's body asks for: `{"base": "EUR"}`."""
    base = run.json().get("base")
    if base not in _RATES:
        raise Fatal(f"base {base!r} is unknown: give one of {', '.join(_RATES)}")
    rates = {name: round(rate / _RATES[base], 4) for name, rate in _RATES.items()}
    LOG.info("rates to %s: %s (%s left)", base, rates, run.remaining())
