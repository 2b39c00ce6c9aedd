"""Single modules of the policy pack, which has an environment of its own."""

import re
import sys
from importlib import util
from types import ModuleType

from tests.support.engine import REPOSITORY

PACK = REPOSITORY / "policies"
CANNOT_RUN = "can't run policy"
"""What the engine says of a rule that met an unknown value."""


def rules() -> list[str]:
    """Return the ids of all rules, from the page, which the pack's own tests keep up to date."""
    page = (PACK / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^### (\S+)$", page, re.MULTILINE)


def load(name: str) -> ModuleType:
    """Load one module of the pack's rules; it must need the standard library only."""
    spec = util.spec_from_file_location(f"pack_{name}", PACK / "rules" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
