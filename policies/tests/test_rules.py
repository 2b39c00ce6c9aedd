"""Every rule on its four programs: one that passes, one that breaks it, absent and unknown."""

import pytest
from rules import ALL

from .analyzer import Pack
from .cases import CASES, Case, Outcome
from .cases.case import Program


def outcome(pack: Pack, case: Case, program: Program) -> Outcome:
    report = pack.judge(program, {case.rule: case.config} if case.config else None)
    if case.rule in report.rules:
        return Outcome.BREAKS
    return Outcome.CANNOT_RUN if case.rule in report.cannot_run else Outcome.PASSES


def test_every_rule_has_its_programs() -> None:
    assert list(CASES) == [rule.id for rule in ALL]


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
class TestRule:
    def test_compliant_program_breaks_nothing(self, pack: Pack, case: Case) -> None:
        report = pack.judge(case.passes, {case.rule: case.config} if case.config else None)
        assert not report.violations
        assert not report.cannot_run

    def test_one_wrong_property_breaks_exactly_this_rule(self, pack: Pack, case: Case) -> None:
        report = pack.judge(case.breaks, {case.rule: case.config} if case.config else None)
        assert report.rules == [case.rule]
        assert not report.cannot_run

    def test_absent_value(self, pack: Pack, case: Case) -> None:
        program, expected = case.absent
        assert outcome(pack, case, program) is expected

    def test_unknown_value(self, pack: Pack, case: Case) -> None:
        program, expected = case.unknown
        assert outcome(pack, case, program) is expected
