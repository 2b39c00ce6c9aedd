"""The same protocol for a plain function or an HTTP endpoint that is given a token."""

import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from once.answer import Answer, Outcome
from once.attempt import Attempt
from once.functions import check_function
from once.identity.token import TokenDelivery
from once.protocol import Claim, Guard
from once.service import answered, refused
from once.settings import load
from once.stopping import told_to_stop

# Of a record's field; a token of any maker is far shorter.
_TOKEN_CHARACTERS = 1_000


@dataclass(frozen=True, kw_only=True)
class Call(Attempt):
    """One attempt at the work of a token.

    Parameters
    ----------
    token
        What the caller gave.
    """

    token: str


@dataclass(frozen=True)
class Once:
    """What became of a call.

    Parameters
    ----------
    outcome
        `completed` if the function ran and that is recorded, `duplicate` if it had ended before;
        the other words are those of a delivery's answer.
    result
        What the function returned, if this call ran it.
    cause
        What it raised, if it raised.
    answer
        The outcome as an HTTP answer: a status that lets a caller stop or try again, and the body.
    """

    outcome: Outcome
    result: Any
    cause: BaseException | None
    answer: Answer


def once_per_token(
    token: str,
    function: Callable[[Call], object] | Callable[[], object],
    *,
    name: str | None = None,
    guard: Guard | None = None,
) -> Once:
    """Run a function once for a token, however often this is called and from however many places.

    Parameters
    ----------
    token
        The idempotency token that came with the request, such as the one that a starter put beside
        the argument of a workflow.
    function
        The work; it is given the call if it takes an argument. What it returns (small and JSON) is
        recorded; `Fatal` ends it for good; any other exception lets the next call try again.
    name
        What the function is called in the key, so that two functions may be given the same token;
        default: its module and qualified name. Give it where the function may move or be renamed:
        under another name, what has ended would run again.
    guard
        The store and its durations; default: one for this process, made from the environment at
        the first call.

    Returns
    -------
    Once
        `bad_request` for a token that is empty, no text or longer than 1,000 characters: the
        caller's mistake, and the function was not called.

    Raises
    ------
    ValueError
        If the function has no name of its own.
    SystemExit
        If the environment has a wrong setting.

    Examples
    --------
    In an HTTP function:

        order = request.get_json()
        done = once_per_token(order["idempotency_token"], lambda call: book(order), name="book")
        return done.answer.body, done.answer.status, done.answer.headers
    """
    begun = time.monotonic()
    check_function(function, "once_per_token(token, function)")
    called = name or _name(function)
    if problem := _problem(token):
        refusal = refused(Outcome.BAD_REQUEST, begun, problem, called)
        return Once(Outcome.BAD_REQUEST, None, None, refusal)
    delivery = TokenDelivery(called, token)
    work_with = _with_call(function)

    def work(claim: Claim) -> object:
        return work_with(Call(token=token, _claim=claim))

    report = (guard or _default_guard()).run(delivery, work)
    answer = answered(delivery, report, begun)
    return Once(report.outcome, report.result, report.cause, answer)


def _with_call(
    function: Callable[[Call], object] | Callable[[], object],
) -> Callable[[Call], object]:
    """Let a plain function without parameters do too."""
    try:
        inspect.signature(function).bind(None)
    except ValueError:  # a built-in that does not tell what it takes
        pass
    except TypeError:
        return lambda call: cast(Callable[[], object], function)()
    return cast(Callable[[Call], object], function)


def _problem(token: object) -> str | None:
    """Return what is wrong with a token that no caller should send, or that no store could hold."""
    if not isinstance(token, str) or not token:
        return "the idempotency token is missing: give a text that is not empty"
    if len(token) > _TOKEN_CHARACTERS:
        return f"the idempotency token has more than {_TOKEN_CHARACTERS} characters"
    try:
        token.encode()
    except UnicodeEncodeError:
        return "the idempotency token is not Unicode text"
    return None


def _name(function: Callable[..., object]) -> str:
    name = getattr(function, "__qualname__", "<lambda>")
    if "<lambda>" in name:
        raise ValueError("a function without a name of its own needs one: once_per_token(name=...)")
    module = function.__module__
    if module == "__main__":  # the same file has another name when it is imported
        module = Path(getattr(sys.modules[module], "__file__", None) or module).stem
    return f"{module}.{name}"


_making = threading.Lock()
_guard: Guard | None = None


def _default_guard() -> Guard:
    """Return this process's guard: what one call learnt of a run's end, the next one knows."""
    global _guard
    with _making:
        if _guard is None:
            settings = load(os.environ)
            _guard = Guard(settings.store, settings.durations, stopping=told_to_stop)
        return _guard
