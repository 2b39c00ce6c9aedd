"""The README shows what `make run` shows, and what the handler answers."""

import re

import pytest
from once.answer import Outcome, answer

from local.plan import WORDS
from local.report import HEAD
from tests.local.test_make_run import ROOT

README = (ROOT / "README.md").read_text()
TABLE = README[README.index("  run  ") :].split("```")[0]
ROW = re.compile(r"[✓!■○✗] (.{27})  (.{17})  .{10}  (.{36}) .{8}  .{7}")


def test_table_has_the_columns_of_make_run() -> None:
    heading = TABLE.splitlines()[0]
    assert re.split(r"  +", heading.strip()) == list(HEAD)


def test_table_shows_only_what_can_go_wrong() -> None:
    known = {words.short for words in WORDS.values()} | {"forced, twice", "API answer lost"}
    shown = [match[2].strip() for line in TABLE.splitlines() if (match := ROW.match(line))]
    assert len(shown) > 5
    assert set(shown) <= known


def test_table_shows_only_answers_that_exist() -> None:
    known = {str(outcome) for outcome in Outcome} | {"killed", "lost", "hung up"}
    for line in TABLE.splitlines():
        if match := ROW.match(line):
            shown = re.sub(r" x\d+", "", match[3]).strip().split(", ")
            assert set(shown) <= known, line


@pytest.mark.parametrize("outcome", Outcome)
def test_answers_table_has_every_outcome_with_its_status(outcome: Outcome) -> None:
    (row,) = re.findall(rf"^\| `{outcome}` \|.*\| (\d+) \|$", README, re.MULTILINE)
    assert int(row) == answer(outcome, run_id=None, job=None).status
