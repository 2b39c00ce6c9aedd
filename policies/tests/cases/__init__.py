"""The programs of all rules: what the tests judge, and what the page shows."""

from . import cloud_run, eventarc, firestore, general, iam, pubsub, scheduler
from .case import Case, Outcome

CASES: dict[str, Case] = {
    case.rule: case
    for module in (scheduler, cloud_run, firestore, iam, pubsub, eventarc, general)
    for case in module.CASES
}

__all__ = ["CASES", "Case", "Outcome"]
