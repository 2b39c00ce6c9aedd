"""Write README.md from the rules and their programs: ``.venv/bin/python -m tests.page``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from pulumi_policy import EnforcementLevel
from rules import ALL, RULES
from rules.rule import Rule

from .analyzer import PACK, Reference
from .cases import CASES
from .cases.case import Program

PAGE = PACK / "README.md"
INTRODUCTION = PACK / "tests" / "introduction.md"
ENVIRONMENTS = ("dev", "prod")


def page() -> str:
    """Give the whole page."""
    introduction = INTRODUCTION.read_text(encoding="utf-8")
    introduction = introduction.replace("{{rules}}", str(len(ALL))).replace("{{table}}", _table())
    return introduction + "".join(_subject(title, rules) for title, rules in RULES.items())


def _table() -> str:
    settings = {name: json.loads((PACK / f"{name}.json").read_text()) for name in ENVIRONMENTS}
    lines = ["| rule | what must be so | level | dev | prod |", "|---|---|---|---|---|"]
    for rule in ALL:
        levels = [_level(settings[name].get(rule.id), rule.level) for name in ENVIRONMENTS]
        stack = " (stack)" if rule.is_stack_rule else ""
        columns = [f"[{rule.id}](#{rule.id})", rule.title + stack, rule.level.value, *levels]
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def _level(setting: Any, otherwise: EnforcementLevel) -> str:
    level = setting if isinstance(setting, str) else (setting or {}).get("enforcementLevel")
    return level or otherwise.value


def _subject(title: str, rules: tuple[Rule, ...]) -> str:
    return f"\n## {title}\n" + "".join(_rule(rule) for rule in rules)


def _rule(rule: Rule) -> str:
    case = CASES[rule.id]
    settings = "".join(_knobs(rule))
    given = f"With `{json.dumps({rule.id: dict(case.config)})}`:\n\n" if case.config else ""
    return f"""
### {rule.id}

**{rule.title}.** {rule.why}

- Fix: {rule.fix}
- Not known yet: {rule.unknown}
{settings}
<details><summary>A program that breaks it, and one that passes</summary>

{given}```yaml
{_program(case.breaks)}```

```yaml
{_program(case.passes)}```

</details>
"""


def _knobs(rule: Rule) -> Iterator[str]:
    for name, knob in rule.knobs.items():
        default = json.dumps(knob.default)
        yield f"- Setting `{name}` (default `{default}`): {knob.schema['description']}\n"


def _program(program: Program) -> str:
    resources = {
        declared.name: {"type": _short(declared.type), "properties": _plain(declared.properties)}
        for declared in program
    }
    document: dict[str, Any] = {"resources": resources}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100))


def _short(token: str) -> str:
    """Give a type as Pulumi YAML writes it: without the module's inner part."""
    return re.sub(r"/\w+:", ":", token)


def _plain(value: Any) -> Any:
    if isinstance(value, Reference):
        return f"${{{value.name}.{value.output}}}"
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
