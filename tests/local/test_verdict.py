"""When the demo says that a promise was kept, and when that it was broken."""

from dataclasses import dataclass, field

import pytest

from local.ledger import Entry, Step
from local.plan import Fault
from local.player import KILLED, LOST, Played
from local.scheduler import Answer
from local.verdict import State, judge

LEASE = 6

COMPLETED = Answer(200, "completed")
DUPLICATE = Answer(200, "duplicate")
RELEASED = Answer(500, "released")
IN_PROGRESS = Answer(409, "in_progress")


@dataclass
class History:
    """Writes a run's lines of the ledger."""

    entries: list[Entry] = field(default_factory=list)
    at: float = 0.0

    def add(self, step: Step, attempt: str, fence: int, run_id: str, error: str | None) -> None:
        self.entries.append(Entry(self.at, step, "j", "s", run_id, attempt, fence, error))

    def begin(self, attempt: str, fence: int, run_id: str = "r") -> "History":
        self.add(Step.BEGIN, attempt, fence, run_id, None)
        return self

    def effect(self, attempt: str, fence: int, after: float = 1.0) -> "History":
        self.at += after
        self.add(Step.EFFECT, attempt, fence, "r", None)
        return self

    def returned(self, attempt: str, fence: int) -> "History":
        self.add(Step.RETURN, attempt, fence, "r", None)
        return self

    def error(self, attempt: str, fence: int, error: str) -> "History":
        self.add(Step.RAISE, attempt, fence, "r", error)
        return self


def played(fault: Fault, *answers: Answer) -> Played:
    return Played("job 03-29 12:00Z", "trouble", fault, answers, "s", "j", LEASE)


def once() -> History:
    return History().begin("a", 1).effect("a", 1)


@pytest.mark.parametrize(
    ("run", "history", "state", "words"),
    [
        (played(Fault.NONE, COMPLETED), once(), State.ONCE, ""),
        (played(Fault.DUPLICATE, COMPLETED, DUPLICATE), once(), State.ONCE, ""),
        (played(Fault.LOST_ANSWER, LOST, DUPLICATE), once(), State.ONCE, ""),
        (
            played(Fault.RAISE, RELEASED, COMPLETED),
            History().begin("a", 1).error("a", 1, "boom").begin("b", 2).effect("b", 2),
            State.ONCE,
            "",
        ),
        (
            played(Fault.KILL, KILLED, IN_PROGRESS, COMPLETED),
            History().begin("a", 1).begin("b", 2).effect("b", 2),
            State.ONCE,
            "took the run over",
        ),
        (
            played(Fault.KILL_AFTER, KILLED, COMPLETED),
            History().begin("a", 1).effect("a", 1).begin("b", 2).effect("b", 2),
            State.REPEATED,
            "same run_id",
        ),
        (
            played(Fault.STALL, IN_PROGRESS, COMPLETED),
            History().begin("a", 1).begin("b", 2).effect("b", 2).effect("a", 1),
            State.REPEATED,
            "lower fence",
        ),
        (
            played(Fault.STALL, IN_PROGRESS, COMPLETED),
            History().begin("a", 1).begin("b", 2).effect("b", 2).error("a", 1, "fence 1 < 2"),
            State.ONCE,
            "fence 1 < 2",
        ),
        (
            played(Fault.KILL_AFTER, KILLED, COMPLETED),
            History().begin("a", 1).effect("a", 1).begin("b", 2).returned("b", 2),
            State.ONCE,
            "took the run over",
        ),
        (
            played(Fault.STALL, IN_PROGRESS, COMPLETED),
            History().begin("a", 1).begin("b", 2).effect("b", 2).returned("a", 1),
            State.ONCE,
            "started nothing",
        ),
        # What must not pass.
        (
            played(Fault.DUPLICATE, COMPLETED, COMPLETED),
            once().begin("b", 2).effect("b", 2),
            State.WRONG,
            "2 effects",
        ),
        (
            played(Fault.KILL_AFTER, KILLED, COMPLETED),
            once().begin("b", 2).effect("b", 2).begin("c", 3).effect("c", 3),
            State.WRONG,
            "do not tell its effects apart",
        ),
        (
            played(Fault.KILL_AFTER, KILLED, COMPLETED),
            once().begin("b", 1).effect("b", 1),
            State.WRONG,
            "did not grow",
        ),
        (played(Fault.NONE, COMPLETED), History(), State.WRONG, "never started"),
        (
            played(Fault.NONE, Answer(200, "failed")),
            History().begin("a", 1).error("a", 1, "Fatal: no base"),
            State.ENDED,
            "Fatal: no base",
        ),
        (
            played(Fault.LOST_ANSWER, Answer(None, "lost", unheard="failed"), DUPLICATE),
            History().begin("a", 1).error("a", 1, "Fatal: no base"),
            State.ENDED,
            "Fatal: no base",
        ),
        (
            played(Fault.NONE, RELEASED, RELEASED),
            History().begin("a", 1).error("a", 1, "E: 1").begin("b", 2).error("b", 2, "E: 2"),
            State.NO_EFFECT,
            "E: 2",
        ),
        (
            played(Fault.NONE, Answer(500, "store_unavailable"), IN_PROGRESS),
            once(),
            State.ONCE,
            "it took effect, but no delivery was accepted",
        ),
        (
            played(Fault.NONE, Answer(500, "store_unavailable")),
            History(),
            State.NO_EFFECT,
            "the store could not be reached",
        ),
        (
            played(Fault.RAISE, RELEASED, RELEASED),
            History().begin("a", 1).error("a", 1, "Injected: once"),
            State.WRONG,
            "lost",
        ),
        (
            played(Fault.NONE, RELEASED, DUPLICATE),
            History().begin("a", 1).error("a", 1, "E: 1"),
            State.WRONG,
            "no effect: E: 1",
        ),
        (
            played(Fault.KILL, KILLED, IN_PROGRESS, IN_PROGRESS),
            History().begin("a", 1),
            State.WRONG,
            "lost",
        ),
        (
            played(Fault.NONE, Answer(404, "unknown_job", "no function is registered as 'j'")),
            History(),
            State.NO_EFFECT,
            "no function is registered as 'j'",
        ),
        (
            played(Fault.LOST_ANSWER, LOST, COMPLETED),
            History().begin("a", 1, "r").effect("a", 1).begin("b", 2, "other").effect("b", 2),
            State.WRONG,
            "different runs",
        ),
        (
            played(Fault.NONE, COMPLETED),
            History().begin("a", 1).begin("b", 2).effect("b", 2).effect("a", 1, after=9),
            State.WRONG,
            "--speed",
        ),
    ],
)
def test_run_is_judged(run: Played, history: History, state: State, words: str) -> None:
    verdict = judge(run, history.entries)
    assert verdict.state is state, verdict.note
    assert words in verdict.note
