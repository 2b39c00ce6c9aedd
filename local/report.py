"""What people read: lines while the runs are played, and the table at the end."""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from local.player import Played
from local.scheduler import Answer
from local.verdict import State, Verdict

_COLOURS = {
    State.ONCE: "32",
    State.REPEATED: "33",
    State.ENDED: "36",
    State.NO_EFFECT: "31",
    State.WRONG: "31",
}
_MARKS = {
    State.ONCE: "✓",
    State.REPEATED: "!",
    State.ENDED: "■",
    State.NO_EFFECT: "○",
    State.WRONG: "✗",
}

HEAD = ("run", "what goes wrong", "deliveries", "answers", "attempts", "effects")
_NUMBERS = (2, 4, 5)


Row = tuple[Played, Verdict]
"""What the table has a line for."""


def listed(answers: Sequence[Answer]) -> str:
    """Return the answers in their order, the same ones in a row as one."""
    words = []
    for outcome, group in groupby(answer.outcome for answer in answers):
        times = len(list(group))
        words.append(outcome if times == 1 else f"{outcome} x{times}")
    return ", ".join(words)


class Screen:
    """Writes whole lines, from any thread, with the seconds since the start."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._colourful = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def line(self, text: str = "") -> None:
        """Write a line."""
        with self._lock:
            print(text, flush=True)

    def event(self, title: str, text: str, state: State | None = None) -> None:
        """Write a line about a run that is being played, or was."""
        mark = " " if state is None else self._mark(state)
        self.line(f"{time.monotonic() - self._begun:6.1f} s  {mark} {title:<28} {text}")

    def result(self, played: Played, verdict: Verdict) -> None:
        """Write the line about a run that ended."""
        effects = "one effect" if verdict.effects == 1 else f"{verdict.effects} effects"
        text = f"{played.trouble:<18} {listed(played.answers)}: {effects}"
        self.event(played.title, text, verdict.state)

    def table(self, rows: Sequence[Row]) -> None:
        """Write one row per run, and the sum of all."""
        cells = [
            (
                played.title,
                played.trouble,
                str(len(played.answers)),
                listed(played.answers),
                str(verdict.attempts),
                str(verdict.effects),
            )
            for played, verdict in rows
        ]
        widths = [max(map(len, column)) for column in zip(HEAD, *cells, strict=True)]

        def row(values: Sequence[str]) -> str:
            return "  ".join(
                value.rjust(width) if index in _NUMBERS else value.ljust(width)
                for index, (value, width) in enumerate(zip(values, widths, strict=True))
            )

        self.line()
        self.line(f"  {row(HEAD)}")
        self.line(f"  {'-' * len(row(HEAD))}")
        for values, (_, verdict) in zip(cells, rows, strict=True):
            self.line(f"{self._mark(verdict.state)} {row(values)}")
            if verdict.note:
                self.line(f"      {verdict.note}")
        self.line()
        self.line(self._sum(rows))

    def _sum(self, rows: Sequence[Row]) -> str:
        states = Counter(verdict.state for _, verdict in rows)
        deliveries = sum(len(played.answers) for played, _ in rows)
        attempts = sum(verdict.attempts for _, verdict in rows)
        effects = sum(verdict.effects for _, verdict in rows)
        parts = [
            f"{len(rows)} runs: {deliveries} deliveries, {attempts} attempts, {effects} effects.",
            f"{states[State.ONCE]} took effect exactly once.",
        ]
        if states[State.REPEATED]:
            parts.append(
                f"{states[State.REPEATED]} twice, where a takeover makes that possible: "
                "run_id and fence tell the two apart."
            )
        if states[State.ENDED]:
            parts.append(f"{states[State.ENDED]} ended for good without one, as the code asks (■).")
        if states[State.NO_EFFECT]:
            text = f"{states[State.NO_EFFECT]} TOOK NO EFFECT (○): see the reason at each."
            parts.append(self._paint(State.NO_EFFECT, text))
        if states[State.WRONG]:
            parts.append(self._paint(State.WRONG, f"{states[State.WRONG]} BROKE THE PROMISE (✗)."))
        return " ".join(parts)

    def _mark(self, state: State) -> str:
        return self._paint(state, _MARKS[state])

    def _paint(self, state: State, text: str) -> str:
        return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m" if self._colourful else text
