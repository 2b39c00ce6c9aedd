"""What goes wrong between the handler and its store, told by the test.

A `Script` stands in the test's process. The Firestore proxy asks it at every call; a handler on
SQLite asks it through `tests.support.scripted`. Both know the same steps and the same faults.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

PATIENCE_SECONDS = 60.0
"""How long a test waits for what must happen; nothing is asserted about the time itself."""


class Step(StrEnum):
    """What a call to the store means in the protocol."""

    READ = "read"
    CLAIM = "claim"
    TAKEOVER = "takeover"
    FINISH = "finish"
    RELEASE = "release"
    OTHER = "other"


class Fault(StrEnum):
    """What becomes of a call."""

    REFUSE = "refuse"  # not applied, "unavailable" at once
    DENY = "deny"  # not applied, an error that no retry cures
    HANG = "hang"  # not applied, no answer
    LOSE = "lose"  # applied, "unavailable" instead of the answer
    LOSE_HANG = "lose_hang"  # applied, no answer
    LATE = "late"  # no answer; applied when the test says `deliver_late`
    STOP_BEFORE = "stop_before"  # waits for the test, then goes on unapplied or is dropped
    STOP_AFTER = "stop_after"  # applied, then waits for the test with the answer
    ADD = "add"  # an act of the test happens first, then the call goes on


class Dropped(Exception):
    """A held call that the test has given up."""


@dataclass
class _Rule:
    step: Step
    fault: Fault
    run_id: str | None
    left: int | None
    act: Callable[[], None] | None = None


@dataclass
class Script:
    """The faults to come, and the calls that were made."""

    calls: list[tuple[Step, str]] = field(default_factory=list)
    _rules: list[_Rule] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _held: int = 0
    _generation: int = 0
    _verdict: bool = True
    _late: int = 0
    _late_generation: int = 0

    def on(
        self,
        step: Step,
        fault: Fault,
        *,
        run_id: str | None = None,
        times: int | None = 1,
        act: Callable[[], None] | None = None,
    ) -> None:
        """Let the next `times` calls of a step (None: all) go wrong.

        Parameters
        ----------
        step, fault
            Which calls, and what becomes of them.
        run_id
            Only calls for this record.
        times
            How often.
        act
            With `Fault.ADD`: what happens just before the call is applied.
        """
        with self._changed:
            self._rules.append(_Rule(step, fault, run_id, times, act))

    def clear(self) -> None:
        """Forget the faults, drop the calls that are held, and forget the calls."""
        with self._changed:
            self._rules.clear()
            self.calls.clear()
        self._let_go(apply=False)

    def heal(self) -> None:
        """Forget the faults only."""
        with self._changed:
            self._rules.clear()

    def counted(self, run_id: str) -> Counter[Step]:
        """Return how many calls of each step were made for a record."""
        with self._changed:
            return Counter(step for step, key in self.calls if key == run_id)

    # --- The test and a call that is held ---------------------------------------------------------

    def wait_until_held(self) -> None:
        """Wait until a call stands at a stop."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._held > 0, PATIENCE_SECONDS):
                raise AssertionError("no call came to the stop")

    def resume(self) -> None:
        """Let held calls go on."""
        self._let_go(apply=True)

    def drop(self) -> None:
        """Give held calls up: what was not applied never will be."""
        self._let_go(apply=False)

    def deliver_late(self) -> None:
        """Apply the calls that were kept back, and wait until they are."""
        with self._changed:
            self._late_generation += 1
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._late == 0, PATIENCE_SECONDS):
                raise AssertionError("a late call was not applied")

    def _let_go(self, *, apply: bool) -> None:
        with self._changed:
            self._generation += 1
            self._verdict = apply
            self._changed.notify_all()

    # --- The store's side -------------------------------------------------------------------------

    def take(self, step: Step, run_id: str) -> Fault | None:
        """Note a call and return what becomes of it."""
        with self._changed:
            self.calls.append((step, run_id))
            for rule in self._rules:
                if rule.step is step and rule.run_id in (None, run_id) and rule.left != 0:
                    if rule.left is not None:
                        rule.left -= 1
                    break
            else:
                return None
        if rule.fault is Fault.ADD:
            assert rule.act is not None
            rule.act()
            return None
        return rule.fault

    def hold(self) -> None:
        """Stand at a stop.

        Raises
        ------
        Dropped
            If the test gives the call up.
        """
        with self._changed:
            generation = self._generation
            self._held += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._generation != generation, PATIENCE_SECONDS)
            self._held -= 1
            if self._generation == generation or not self._verdict:
                raise Dropped

    def hold_late(self) -> None:
        """Wait until the test wants late calls applied."""
        with self._changed:
            generation = self._late_generation
            self._late += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._late_generation != generation, PATIENCE_SECONDS)

    def late_applied(self) -> None:
        """Tell the test that a late call was applied (or refused by the store)."""
        with self._changed:
            self._late -= 1
            self._changed.notify_all()


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, f"it never came true: {what}"
        time.sleep(0.02)
