"""docs/protocol.md draws every path through the protocol; here each is played and compared."""

from __future__ import annotations

import itertools
import linecache
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

import pytest
from once import protocol
from once.answer import answer
from once.identity import Key
from once.protocol import Claim, Durations, Fatal, Guard, Report, Unsettled
from once.stores import Reading, Record, StoreUnavailable, Version, base
from once.stores.base import Transient
from once.stores.sqlite import SqliteStore

from tests.support.backends import SqliteBackend
from tests.support.deliveries import Delivery, now_text
from tests.support.handler import ROOT

T = TypeVar("T")
PAGE = (ROOT / "docs" / "protocol.md").read_text()
DURATIONS = Durations(lease=timedelta(minutes=6), retention=timedelta(days=7))
HOUR = timedelta(hours=1)


class Scene:
    """A store that notes its calls, in which a path is set up and played.

    Parameters
    ----------
    folder
        For the database.
    """

    def __init__(self, folder: Path) -> None:
        self.backend = SqliteBackend(folder / "runs.db")
        self.calls: list[str] = []
        self.lost: set[int] = set()
        """Numbers of calls that are applied and whose answers are lost."""
        self.down_from: int | None = None
        """The call from which on the store is unavailable."""
        self.before: dict[int, Callable[[], None]] = {}
        """What happens just before a call."""
        self.store = NotingStore(self)
        self.clock_ahead = timedelta(0)
        self.stopping = False
        self.durations = DURATIONS
        self.delivery = Delivery()
        self.job: Callable[[Claim], object] = lambda claim: None
        self._guard: Guard | None = None

    @property
    def guard(self) -> Guard:
        if self._guard is None:
            runs = Guard(
                self.store,
                DURATIONS,
                wall_clock=lambda: datetime.now(UTC) + self.clock_ahead,
                stopping=lambda: self.stopping,
            )
            self._guard = runs.lasting(self.durations)
        return self._guard

    def play(self) -> Report:
        return self.guard.run(self.delivery.identity(), self.job)

    def other_process(self, work: Callable[[Claim], object]) -> None:
        """Let another process take the same delivery."""
        Guard(self.backend.store(), DURATIONS).run(self.delivery.identity(), work)

    def put(self, **fields: Any) -> None:
        """Write a record by hand: in progress, another's, its lease over."""
        record = {"status": "in_progress", "attempt_id": f"other-{next(_numbers)}"}
        self.backend.put(self.delivery.key, {**record, "lease_seconds": 0, **fields})

    def vanish(self) -> None:
        self.backend.delete(self.delivery.key)

    def touch(self) -> None:
        found = self.backend.get(self.delivery.key)
        assert found is not None
        self.backend.put(self.delivery.key, found)


_numbers = itertools.count()


class NotingStore(SqliteStore):
    """The real store of a scene."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.backend.path)
        self._scene = scene

    def _read(self, key: Key, seconds: float) -> Reading:
        return self._note("read", lambda: SqliteStore._read(self, key, seconds))

    def _create(self, key: Key, record: Record, seconds: float) -> Version | None:
        return self._note("create", lambda: SqliteStore._create(self, key, record, seconds))

    def _replace(
        self, key: Key, record: Record, version: Version, seconds: float
    ) -> Version | None:
        return self._note(
            "replace", lambda: SqliteStore._replace(self, key, record, version, seconds)
        )

    def _delete(self, key: Key, version: Version, seconds: float) -> bool:
        return self._note("delete", lambda: SqliteStore._delete(self, key, version, seconds))

    def _note(self, call: str, apply: Callable[[], T]) -> T:
        scene, number = self._scene, len(self._scene.calls)
        scene.calls.append(call)
        if scene.down_from is not None and number >= scene.down_from:
            raise StoreUnavailable("the budget is used up")
        if number in scene.before:
            scene.before[number]()
        got = apply()
        if number in scene.lost:
            raise Transient("the answer is lost")
        return got


# --- The paths, by their headings -----------------------------------------------------------------


def ending(error: BaseException) -> Callable[[Claim], object]:
    def job(claim: Claim) -> object:
        raise error

    return job


def fresh(scene: Scene) -> None:
    pass


def duplicate(scene: Scene) -> None:
    scene.other_process(lambda claim: None)


def known_duplicate(scene: Scene) -> None:
    scene.play()
    scene.calls.clear()


def in_progress(scene: Scene) -> None:
    scene.other_process(ending(Unsettled()))


def claim_lost(scene: Scene) -> None:
    scene.lost = {0}


def vanished(scene: Scene) -> None:
    scene.put(lease_seconds=60)
    scene.before[1] = scene.vanish


def takeover(scene: Scene) -> None:
    scene.put()


def takeover_lost(scene: Scene) -> None:
    scene.put()
    scene.lost = {2}


def takeover_beaten(scene: Scene) -> None:
    scene.put()
    scene.before[2] = lambda: scene.put(lease_seconds=60)


def takeover_beaten_thrice(scene: Scene) -> None:
    scene.put()
    scene.before = dict.fromkeys((2, 4, 6), scene.put)


def down(scene: Scene) -> None:
    scene.down_from = 0


def stopping(scene: Scene) -> None:
    scene.stopping = True


def stopped_while_claiming(scene: Scene) -> None:
    scene.before[0] = lambda: stopping(scene)


def forced(scene: Scene) -> None:
    scene.delivery = Delivery(schedule_time=now_text(HOUR))


def behind(scene: Scene) -> None:
    scene.clock_ahead = -HOUR


def ahead(scene: Scene) -> None:
    scene.delivery = Delivery(schedule_time=now_text(HOUR))
    scene.clock_ahead = 2 * HOUR


def slot_comes(scene: Scene) -> None:
    scene.delivery = delivery = Delivery(schedule_time=now_text(timedelta(seconds=11)))
    scene.backend.put(delivery.forced_key, {"status": "in_progress", "attempt_id": "a"})

    def wait() -> None:
        while delivery.identity().key(datetime.now(UTC)) != delivery.key:
            time.sleep(0.01)

    scene.before[2] = wait


def stalled(scene: Scene) -> None:
    scene.durations = Durations(timedelta(milliseconds=50), DURATIONS.retention)
    scene.before[0] = lambda: time.sleep(0.1)


def fatal(scene: Scene) -> None:
    scene.job = ending(Fatal())


def raises(scene: Scene) -> None:
    scene.job = ending(SystemExit())


def release_lost(scene: Scene) -> None:
    raises(scene)
    scene.lost = {1}


def release_beaten(scene: Scene) -> None:
    raises(scene)
    scene.before[1] = lambda: scene.put(lease_seconds=60)


def release_touched(scene: Scene) -> None:
    raises(scene)
    scene.before[1] = scene.touch


def release_touched_thrice(scene: Scene) -> None:
    raises(scene)
    scene.before = dict.fromkeys((1, 3, 5), scene.touch)


def release_down(scene: Scene) -> None:
    raises(scene)
    scene.down_from = 1


def unsettled(scene: Scene) -> None:
    scene.job = ending(Unsettled())


def finish_lost(scene: Scene) -> None:
    scene.lost = {1}


def finish_touched(scene: Scene) -> None:
    scene.before[1] = scene.touch


def finish_touched_thrice(scene: Scene) -> None:
    scene.before = dict.fromkeys((1, 3, 5), scene.touch)


def finish_vanished(scene: Scene) -> None:
    scene.before[1] = scene.vanish


def finish_beaten(scene: Scene) -> None:
    scene.before[1] = lambda: scene.put(lease_seconds=60)


def finish_down(scene: Scene) -> None:
    scene.down_from = 1


def recorded_later(scene: Scene) -> None:
    finish_down(scene)
    scene.play()
    scene.calls.clear()
    scene.down_from = None


def never_recorded(scene: Scene) -> None:
    recorded_later(scene)
    scene.down_from = 0


def recorded_by_another(scene: Scene) -> None:
    recorded_later(scene)
    scene.put(status="completed")


PATHS: dict[str, Callable[[Scene], None]] = {
    "A fresh run": fresh,
    "A duplicate": duplicate,
    "A duplicate of a run that this process saw end": known_duplicate,
    "Another attempt is at work": in_progress,
    "The claim's answer was lost": claim_lost,
    "The record vanished after it refused the claim": vanished,
    "Takeover": takeover,
    "The takeover's answer was lost": takeover_lost,
    "Another attempt was faster with the takeover": takeover_beaten,
    "The record changes under three takeovers": takeover_beaten_thrice,
    "No claim can be made": down,
    "The process was told to stop": stopping,
    "The process is told to stop while it claims": stopped_while_claiming,
    "A forced run": forced,
    "The local clock was behind": behind,
    "The local clock was ahead": ahead,
    "The slot comes while a forced run is tried again": slot_comes,
    "The lease was over before the job could start": stalled,
    "The job raises Fatal": fatal,
    "The job raises": raises,
    "The release's answer was lost": release_lost,
    "The record is touched before the release": release_touched,
    "The record changes under three releases": release_touched_thrice,
    "The job raises after another attempt took the run over": release_beaten,
    "The release cannot be told": release_down,
    "It is not known whether the job took effect": unsettled,
    "The finish's answer was lost": finish_lost,
    "The record of our claim was written again": finish_touched,
    "The record changes under three finishes": finish_touched_thrice,
    "The record vanished before the finish": finish_vanished,
    "Another attempt took the run over before the finish": finish_beaten,
    "The end cannot be told": finish_down,
    "A later delivery writes the end first": recorded_later,
    "A later delivery cannot write the end either": never_recorded,
    "A later delivery finds that another attempt took the run": recorded_by_another,
}


# The store's time would have to pass the slot, go back, and pass it again.
UNDRAWN = ["raise _Refused(Outcome.IN_PROGRESS, key, timedelta(seconds=1)"]


@dataclass(frozen=True)
class Drawn:
    """What a diagram of the page says."""

    calls: list[str]
    runs: bool
    status: int
    outcome: str
    retry_after: bool


def drawn() -> dict[str, Drawn]:
    """Return the diagrams of the page by their headings."""
    diagrams = {}
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        heading, rest = section.split("\n", 1)
        diagram = re.search(r"```mermaid\n(.*?)```", rest, re.DOTALL)
        assert diagram is not None, heading
        answered = re.search(r"Handler-->>Scheduler: (\d+) (\w+)(.*)", diagram[1])
        assert answered is not None, heading
        diagrams[heading] = Drawn(
            calls=re.findall(r"Handler->>Store: (\w+)", diagram[1]),
            runs="Handler->>Job: run" in diagram[1],
            status=int(answered[1]),
            outcome=answered[2],
            retry_after="Retry-After" in answered[3],
        )
    return diagrams


def test_page_draws_every_path_that_is_played_here_and_no_other() -> None:
    assert drawn().keys() == PATHS.keys()


@pytest.mark.parametrize("heading", PATHS)
def test_path_is_as_drawn(heading: str, tmp_path: Path) -> None:
    diagram, scene = drawn()[heading], Scene(tmp_path)
    PATHS[heading](scene)
    claims: list[Claim] = []
    job = scene.job

    def noted(claim: Claim) -> object:
        claims.append(claim)
        return job(claim)

    scene.job = noted
    report = scene.play()

    got = answer(report.outcome, run_id="", job="", retry_after=report.retry_after)
    assert scene.calls == diagram.calls
    assert (got.status, report.outcome) == (diagram.status, diagram.outcome)
    assert bool(claims) == diagram.runs
    assert ("Retry-After" in got.headers) == diagram.retry_after


def test_page_says_how_long_the_store_may_take_and_how_often_it_is_asked() -> None:
    assert f"may each take {base.BUDGET_SECONDS:g} s in all" in PAGE
    assert f"one call {base.CALL_SECONDS:g} s" in PAGE
    assert protocol.ROUNDS == 3  # "three rounds", drawn as such


def test_played_paths_reach_every_line_of_the_protocol(tmp_path: Path) -> None:
    """A path through the code that nobody drew is found by the lines that none of them reaches."""
    reached: set[int] = set()
    source = protocol.__file__

    def trace(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != source:
            return None
        if event == "line":
            reached.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    try:
        for number, path in enumerate(PATHS.values()):
            (tmp_path / str(number)).mkdir()
            scene = Scene(tmp_path / str(number))
            sys.settrace(trace)
            path(scene)
            scene.play()
            sys.settrace(before)
    finally:
        sys.settrace(before)

    missed = sorted(_lines_of(protocol.Guard) - reached)
    texts = [linecache.getline(source, line).strip() for line in missed]
    assert [
        text[: len(start)] for text, start in itertools.zip_longest(texts, UNDRAWN, fillvalue="")
    ] == (UNDRAWN)


def _lines_of(cls: type) -> set[int]:
    """Return the lines of a class on which something is executed when its methods run."""
    lines: set[int] = set()

    def collect(code: CodeType) -> None:
        lines.update(line for _, _, line in code.co_lines() if line and line != code.co_firstlineno)
        for each in code.co_consts:
            if isinstance(each, CodeType):
                collect(each)

    for method in vars(cls).values():
        if isinstance(method, FunctionType):
            collect(method.__code__)
    return lines
