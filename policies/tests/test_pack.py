"""The pack as a whole."""

import re
import shutil
from pathlib import Path

from rules import ALL, schema

from .analyzer import PACK, Pack, running_pack
from .cases.compliant import job

SOURCES = [PACK / "__main__.py", *(PACK / "rules").glob("*.py")]


def test_ids_are_unique_and_begin_with_their_subject() -> None:
    ids = [rule.id for rule in ALL]
    assert len(ids) == len(set(ids))
    subjects = ("scheduler", "cloud-run", "firestore", "iam", "pubsub", "eventarc", "general")
    assert all(id.startswith(subjects) for id in ids)


def test_every_text_is_there_and_ends_well() -> None:
    for rule in ALL:
        assert not rule.title.endswith("."), rule.id
        for text in (rule.why, rule.fix, rule.unknown):
            assert text.endswith("."), f"{rule.id}: {text}"


def test_every_type_of_a_rule_is_declared() -> None:
    for rule in ALL:
        assert set(rule.types) <= set(schema.PROPERTIES), rule.id


def test_every_declared_type_is_used_by_a_rule() -> None:
    text = "\n".join(path.read_text() for path in SOURCES if path.name != "schema.py")
    by_rule = {type for rule in ALL for type in rule.types}
    for name, value in vars(schema).items():
        if isinstance(value, str) and value.startswith("gcp:"):
            assert value in by_rule or f"schema.{name}" in text, name


def test_only_the_entry_point_makes_a_pack() -> None:
    makers = [path.name for path in SOURCES if re.search(r"PolicyPack\(", path.read_text())]
    assert makers == ["__main__.py"]


def test_engine_is_told_level_fix_and_settings(pack: Pack) -> None:
    told = {policy.name: policy for policy in pack.info().policies}
    assert list(told) == [rule.id for rule in ALL]
    for rule in ALL:
        assert told[rule.id].remediation_steps == rule.fix
        assert set(told[rule.id].configSchema.properties) == set(rule.knobs)


def test_message_says_what_why_and_how(pack: Pack) -> None:
    report = pack.judge([job().set("timeZone", "CEST")])
    ((_, _, message),) = report.violations
    title, wrong, why, fix = message.split("\n")
    assert title == "A job's time zone is a name of the IANA database"
    assert wrong == "time zone 'CEST' is not in the IANA database."
    assert why.startswith("Why: ")
    assert fix.startswith("Fix: ")


def test_copy_under_another_name_works(tmp_path: Path) -> None:
    copy = tmp_path / "somewhere else"
    shutil.copytree(PACK, copy, ignore=shutil.ignore_patterns(".venv", "tests", "__pycache__"))
    with running_pack(copy) as elsewhere:
        assert elsewhere.judge([job().set("schedule", "hourly")]).rules == ["scheduler-unix-cron"]
