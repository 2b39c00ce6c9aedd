"""Durations as Google's APIs write them."""

from datetime import timedelta

import pytest
from rules.reading import duration, seconds


@pytest.mark.parametrize("text", ["0s", "3.5s", "300s", "86415s", "1209600s", "31622400s"])
def test_duration_is_written_as_it_was_read(text: str) -> None:
    length = duration(text)
    assert length is not None
    assert seconds(length) == text


@pytest.mark.parametrize("text", ["", "300", "5m", "-1s", "1.s", "1e3s", "PT5M", " 5s"])
def test_other_texts_are_no_duration(text: str) -> None:
    assert duration(text) is None


def test_whole_minutes_are_written_in_seconds() -> None:
    assert seconds(timedelta(minutes=10)) == "600s"
