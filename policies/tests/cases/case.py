"""What the tests know of a rule: a program that passes, one that breaks it, the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..analyzer import Declared

Program = Sequence[Declared]


class Outcome(Enum):
    """What a rule says about a program."""

    PASSES = "passes"
    BREAKS = "is broken"
    CANNOT_RUN = "cannot run"


PASSES, BREAKS, CANNOT_RUN = Outcome


@dataclass(frozen=True)
class Case:
    """The programs of one rule.

    Parameters
    ----------
    rule : str
        The rule's id.
    passes, breaks : sequence of Declared
        Programs that differ in what the rule is about, and in nothing else. The page shows them.
    absent : tuple
        A program in which what the rule reads is not set, and what the rule says then.
    unknown : tuple
        A program in which it is not known yet, and what the rule says then.
    config : dict
        Settings of the rule.
    """

    rule: str
    passes: Program
    breaks: Program
    absent: tuple[Program, Outcome]
    unknown: tuple[Program, Outcome]
    config: Mapping[str, Any] = field(default_factory=dict)
