"""Rules for Eventarc triggers and for functions that events start."""

from __future__ import annotations

from collections.abc import Iterator

from . import schema
from .reading import Resource
from .rule import ADVISORY, resource_rule, texts

_ACCOUNTS = {
    schema.TRIGGER: "serviceAccount",
    schema.FUNCTION: "eventTrigger.serviceAccountEmail",
}
_ENVIRONMENTS = {
    schema.FUNCTION: "serviceConfig.environmentVariables",
    schema.FUNCTION_V1: "environmentVariables",
}


@resource_rule(
    "eventarc-own-account",
    types=tuple(_ACCOUNTS),
    title="A trigger calls its target as an account of its own",
    why="Without one the trigger calls as the Compute Engine default account, so whatever runs"
    " as that account can call the handler too.",
    fix="Set service_account (functions: event_trigger.service_account_email) to an account that"
    " may only invoke this target and receive events.",
    unknown="An account that is not known yet is set, and passes: only its absence is a violation.",
)
def own_account(resource: Resource) -> Iterator[str]:
    if resource.type == schema.FUNCTION and not resource.has("eventTrigger"):
        return
    if resource.peek(_ACCOUNTS[resource.type]) in (None, ""):
        yield "the trigger names no service account."


@resource_rule(
    "eventarc-retry-age-limit",
    types=tuple(_ENVIRONMENTS),
    level=ADVISORY,
    title="A function with retries on stops them at some age",
    why="With retries on, an event that can never succeed comes back for a day (first generation:"
    " a week), and is paid for each time.",
    fix="Drop events older than a limit in the code, and give the limit in the environment variable"
    " MAX_AGE_SECONDS.",
    knobs={
        "variables": texts(
            "Environment variables that give the age limit; one is enough.", ["MAX_AGE_SECONDS"]
        )
    },
)
def retry_age_limit(function: Resource) -> Iterator[str]:
    if not _retries(function):
        return
    given = function.map(_ENVIRONMENTS[function.type])
    if not any(given.get(name) for name in function.setting("variables")):
        yield f"retries are on, and none of {', '.join(function.setting('variables'))} is set."


def _retries(function: Resource) -> bool:
    if function.type == schema.FUNCTION:
        return bool(function.get("eventTrigger.retryPolicy") == "RETRY_POLICY_RETRY")
    return bool(function.get("eventTrigger.failurePolicy.retry", False))
