"""All rules of the pack, one module per subject."""

from . import cloud_run, eventarc, firestore, general, iam, pubsub, scheduler
from .rule import Rule

SUBJECTS = {
    "Cloud Scheduler": scheduler,
    "Cloud Run": cloud_run,
    "Firestore": firestore,
    "IAM": iam,
    "Pub/Sub": pubsub,
    "Eventarc and functions": eventarc,
    "Everything": general,
}

RULES: dict[str, tuple[Rule, ...]] = {
    title: tuple(found for found in vars(module).values() if isinstance(found, Rule))
    for title, module in SUBJECTS.items()
}
"""The rules by subject, in the order in which their files define them."""

ALL: tuple[Rule, ...] = tuple(rule for rules in RULES.values() for rule in rules)
