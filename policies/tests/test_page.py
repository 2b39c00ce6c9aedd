"""README.md is generated and must not go stale."""

import json

from rules import ALL

from .analyzer import PACK
from .page import ENVIRONMENTS, PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: .venv/bin/python -m tests.page"


def test_settings_of_the_environments_are_those_of_the_rules() -> None:
    rules = {rule.id: rule for rule in ALL}
    for environment in ENVIRONMENTS:
        for name, setting in json.loads((PACK / f"{environment}.json").read_text()).items():
            own = set() if isinstance(setting, str) else set(setting) - {"enforcementLevel"}
            assert own <= set(rules[name].knobs), f"{name} in {environment}.json"
