"""The page about events shows code that runs: each block is a part of the file that it names."""

from __future__ import annotations

import re

import pytest
from once import deadletter
from once.events import ONLY_FOR

from tests.support.handler import ROOT

PAGE = (ROOT / "docs" / "events.md").read_text()
BLOCKS = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("path", "code"), BLOCKS, ids=[path for path, _ in BLOCKS])
def test_code_of_the_page_is_part_of_the_file_that_it_names(path: str, code: str) -> None:
    assert code in (ROOT / path).read_text()


def test_every_block_of_python_names_its_file() -> None:
    assert len(BLOCKS) == PAGE.count("```python") == 2


def test_page_has_the_names_of_the_attributes() -> None:
    assert f"`{ONLY_FOR}`" in PAGE
    assert f"`{deadletter.PREFIX}run-id`" in PAGE
