"""Judges a run that was played: did it take effect once, and if not, was that promised. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from local.ledger import Entry, Injected, Step
from local.plan import MAY_REPEAT, Fault
from local.player import Played


class State(Enum):
    """How a run ended."""

    ONCE = "once"
    REPEATED = "repeated"
    ENDED = "ended"
    """The job itself ended the run for good, without an effect: `Fatal`."""
    NO_EFFECT = "no effect"
    """The job never succeeded; no promise was broken, and no work was done."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Verdict:
    """What is to be said about a run.

    Attributes
    ----------
    attempts, effects
        How often the job was begun, and how often it ran to its end.
    note
        Why, where the numbers do not speak for themselves.
    """

    state: State
    attempts: int
    effects: int
    note: str = ""


def judge(played: Played, entries: Sequence[Entry]) -> Verdict:
    """Judge one run, or one event.

    Parameters
    ----------
    played
        What was delivered and answered.
    entries
        Its lines of the ledger, in the order in which they were written.
    """
    begins = [entry for entry in entries if entry.step is Step.BEGIN]
    effects = [entry for entry in entries if entry.step is Step.EFFECT]

    def verdict(state: State, note: str = "") -> Verdict:
        return Verdict(state, len(begins), len(effects), note)

    if problem := _problem(played, begins):
        return verdict(State.WRONG, problem)
    if not effects:
        return verdict(*_without_effect(played, entries))
    if len(effects) == 1:
        return verdict(State.ONCE, _unheard(played) or _note(played.fault, entries))
    if played.fault not in MAY_REPEAT:
        return verdict(State.WRONG, _why_repeated(entries, effects, played.lease_seconds))
    if len(effects) > 2 or len({entry.fence for entry in effects}) < 2:
        return verdict(State.WRONG, f"the fences do not tell its effects apart: {_fences(effects)}")
    early, late = effects
    if early.fence < late.fence:
        return verdict(
            State.REPEATED,
            "done again after the takeover, under the same run_id: a downstream that knows "
            f"run_ids refuses it (fences {_fences(effects)})",
        )
    return verdict(
        State.REPEATED,
        "the stalled attempt was late, with the lower fence: a downstream that keeps the highest "
        f"refuses it (fences {_fences(effects)})",
    )


def _problem(played: Played, begins: Sequence[Entry]) -> str | None:
    if not played.answers:
        return "lost: it was never delivered"
    if len({entry.run_id for entry in begins}) > 1:
        return "its deliveries were taken for different runs"
    if any(later.fence <= earlier.fence for earlier, later in pairwise(begins)):
        return f"its fence did not grow: {_fences(begins)}"
    return None


def _without_effect(played: Played, entries: Sequence[Entry]) -> tuple[State, str]:
    last = played.answers[-1]
    said = {answer.unheard or answer.outcome for answer in played.answers}
    raised = next((entry.error for entry in reversed(entries) if entry.error), None)
    if last.outcome == "unknown_job":
        return State.NO_EFFECT, missing_function(last.detail, played.title.split()[0])
    if last.detail:
        return State.NO_EFFECT, f"{last.outcome}: {last.detail}"
    if said & {"failed", "dropped"}:
        return State.ENDED, f"ended for good, as the code asks: {raised or 'it was dropped'}"
    if not _accepted(played):
        if raised and not raised.startswith(Injected.__name__):
            return State.NO_EFFECT, f"never succeeded until the retries ended; last: {raised}"
        if last.outcome == "store_unavailable" and not entries:
            return State.NO_EFFECT, "the store could not be reached, so the job was never started"
        return (
            State.WRONG,
            f"lost: no delivery was accepted before the retries ended (last: {last.outcome})",
        )
    return State.WRONG, f"no effect: {raised or 'the job was never started'}"


def missing_function(detail: str, label: str) -> str:
    """Say what to do about a job or an event whose function does not exist."""
    return (
        f"{detail}: add it to handler/jobs.py or handler/events.py, or change what "
        f"Pulumi.<stack>.yaml says of {label}"
    )


def _unheard(played: Played) -> str:
    """Say where the one effect was never reported to whoever delivers."""
    if _accepted(played):
        return ""
    return (
        "it took effect, but no delivery was accepted before the retries ended "
        f"(last: {played.answers[-1].outcome})"
    )


def _accepted(played: Played) -> bool:
    return any(answer.accepted for answer in played.answers)


def _note(fault: Fault, entries: Sequence[Entry]) -> str:
    match fault:
        case Fault.KILL_AFTER:
            return "a retry took the run over, found what had been started, and started nothing"
        case Fault.KILL:
            return "a retry took the run over when the lease had ended"
        case Fault.SLOW:
            return "the caller hung up, the job went on; retries met its lease, then its end"
        case Fault.STALL if any(entry.step is Step.RAISE for entry in entries):
            errors = [entry.error for entry in entries if entry.error]
            return f"the late attempt was refused by the job itself: {errors[-1]}"
        case Fault.STALL:
            return "the late attempt found that it had been started, and started nothing"
    return ""


def _why_repeated(entries: Sequence[Entry], effects: Sequence[Entry], lease_seconds: float) -> str:
    begun = {entry.attempt_id: entry.at for entry in entries if entry.step is Step.BEGIN}
    longest = max(entry.at - begun[entry.attempt_id] for entry in effects)
    if longest >= lease_seconds:
        return (
            f"the job took {longest:.1f} s, longer than its lease, which is {lease_seconds} s "
            "here: play it slower with --speed"
        )
    return f"{len(effects)} effects (fences {_fences(effects)})"


def _fences(entries: Sequence[Entry]) -> str:
    return ", then ".join(str(entry.fence) for entry in entries)
