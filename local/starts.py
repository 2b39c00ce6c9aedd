"""The Google APIs that a stack's jobs start, with what they started as the effect."""

import json
from collections.abc import Iterable
from contextlib import ExitStack

from local.apis import LOST_ANSWER, Apis, Fault
from local.ledger import Injections, Ledger, Step

ENDPOINTS = "ONCE_API_ENDPOINTS"
"""The handler's setting that points its starters elsewhere; only this machine uses it."""


def serve(
    targets: Iterable[str], ledger: Ledger, injections: Injections, closing: ExitStack
) -> str:
    """Play the APIs until `closing` closes.

    Parameters
    ----------
    targets
        Full names of what can be started.
    ledger
        Gets a line for each operation that was started.
    injections
        Says whose start is accepted without an answer, under `function_of`.

    Returns
    -------
    str
        The endpoints, as the handler's setting takes them.
    """

    def accept(token: str | None) -> Fault:
        begun = [it for it in ledger.read() if it.step is Step.BEGIN and it.run_id == token]
        if not begun:
            return Fault()
        attempt = begun[-1]
        ledger.write(
            Step.EFFECT,
            function=attempt.function,
            occasion=attempt.occasion,
            run_id=attempt.run_id,
            attempt_id=attempt.attempt_id,
            fence=attempt.fence,
        )
        lost = injections.take(function_of(attempt.function), attempt.occasion)
        return LOST_ANSWER if lost else Fault()

    apis = closing.enter_context(Apis(accept=accept))
    for target in targets:
        apis.add(target)
    return json.dumps(apis.endpoints)


def function_of(job: str) -> str:
    """Return the name under which a fault of the API waits, apart from those of the handler."""
    return f"the API that {job} starts"
