"""Reads nested plain data once, and collects everything that is wrong with it.

Nothing here knows what the data is about. A `Section` is one mapping of the input at its path; each
of its keys is asked for with a check, a function from the raw value to the typed one that raises
ValueError with a reason. `finish` then reports the keys nobody asked for.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")
D = TypeVar("D")

_LONGEST_VALUE = 80
_LONGEST_DURATION = timedelta(days=36500)
_EXACT = 2**53
"""Up to here a JSON number is the same to every reader, the engine among them."""

_ENGINES_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} \S+")
"""What the engine hands over for a date of YAML: `2026-01-01 00:00:00 +0000 UTC`."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:\d+[dhms])+")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, what was found there, why it cannot be."""

    path: str
    reason: str
    value: object = None

    def __str__(self) -> str:
        found = "" if self.value is None else f" {_shown(self.value)}"
        return f"{self.path}:{found} {self.reason}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


class Problems:
    """What is wrong with one input, in the order in which it was found."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, path: str, reason: str, value: object = None) -> None:
        """Note one problem."""
        self.found.append(Problem(path, reason, value))

    def check(self, path: str, value: object, check: Callable[[object], object]) -> None:
        """Check a value that is no key of a section, and note what is wrong with it."""
        try:
            check(value)
        except ValueError as error:
            self.add(path, str(error), value)


def mapping(value: object) -> Mapping[str, object]:
    """Check for a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError("is not a mapping (key: value)")
    return value


def sequence(value: object) -> tuple[object, ...]:
    """Check for a list."""
    if not isinstance(value, list | tuple):
        raise ValueError("is not a list")
    return tuple(value)


def text(value: object) -> str:
    """Check for a string."""
    if not isinstance(value, str):
        shown = json.dumps(value, default=str).strip('"')
        raise ValueError(f'is not a string: write it in quotes, "{shown}"')
    return value


def flag(value: object) -> bool:
    """Check for true or false."""
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def matching(pattern: str, meaning: str) -> Callable[[object], str]:
    """Return a check for a string that `pattern` matches in full, or else `meaning` says why."""
    compiled = re.compile(pattern)

    def check(value: object) -> str:
        if not compiled.fullmatch(text(value)):
            raise ValueError(meaning)
        return text(value)

    return check


def one_of(*choices: str) -> Callable[[object], str]:
    """Return a check for one of some words."""

    def check(value: object) -> str:
        if value not in choices:
            near = get_close_matches(str(value), choices, 1)
            hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(choices)}"
            raise ValueError(f"is not known; {hint}")
        return str(value)

    return check


def whole(low: int, high: int) -> Callable[[object], int]:
    """Return a check for a whole number from `low` to `high`."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"is not a whole number from {low} to {high}")
        return value

    return check


def duration(value: object) -> timedelta:
    """Check for a duration with a unit: `90s`, `5m`, `1h30m`, `7d`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"has no unit: write {value}s for seconds or {value}m for minutes")
    if not _DURATION.fullmatch(text(value)):
        raise ValueError("is not a duration: write 90s, 5m, 1h30m or 7d")
    parts = re.findall(r"(\d+)([dhms])", text(value))
    seconds = sum(int(amount) * _UNITS[unit] for amount, unit in parts)
    if seconds > _LONGEST_DURATION.total_seconds():
        raise ValueError(f"is longer than {_LONGEST_DURATION.days}d")
    return timedelta(seconds=seconds)


def json_value(value: object) -> object:
    """Check for what reaches the handler as it stands here: YAML can say more than JSON can."""
    for path, each in _leaves(value):
        where = f" at {path}" if path else ""
        if isinstance(each, date) or (isinstance(each, str) and _ENGINES_DATE.fullmatch(each)):
            raise ValueError(f"has a date{where}, which JSON has not: write it in quotes")
        if isinstance(each, int | float) and not abs(each) <= _EXACT:  # nor is NaN
            raise ValueError(
                f"has a number{where} that JSON does not keep as it is: write it in quotes"
            )
    return value


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            at = f"{path}.{key}" if path else str(key)
            yield at, key
            yield from _leaves(inner, at)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def written(value: timedelta) -> str:
    """Write a duration as `duration` reads it, in its largest units: `7d`, `1h30m`, `75s`."""
    rest, parts = int(value.total_seconds()), []
    if rest < 2 * _UNITS["m"]:
        return f"{rest}s"
    for unit in ("d", "h", "m", "s"):
        amount, rest = divmod(rest, _UNITS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts)


@dataclass
class Section:
    """A mapping of the input, at its path."""

    raw: Mapping[str, object]
    path: str
    problems: Problems
    asked: list[str] = field(default_factory=list)

    def at(self, key: str) -> str:
        """Return the path of a key in this section."""
        return f"{self.path}.{key}" if self.path else key

    def given(self, keys: Iterable[str]) -> list[str]:
        """Return those of `keys` that have a value."""
        return [key for key in keys if self.raw.get(key) not in (None, "")]

    def mappings(self, keys: Iterable[str]) -> list[str]:
        """Return those of `keys` under which `section` finds a mapping, empty or not."""
        return [key for key in keys if self.raw.get(key, "") != ""]

    def get(self, key: str, check: Callable[[object], T], default: D) -> T | D:
        """Return the checked value of `key`, or `default` where it is absent or wrong."""
        self.asked.append(key)
        if not self.given([key]):
            return default
        try:
            return check(self.raw[key])
        except ValueError as error:
            self.refuse(key, str(error))
            return default

    def need(self, key: str, check: Callable[[object], T], stand_in: D, hint: str) -> T | D:
        """Return the checked value of `key`; its absence is a problem that `hint` explains."""
        if not self.given([key]):
            self.problems.add(self.at(key), f"is missing: {hint}")
        return self.get(key, check, stand_in)

    def refuse(self, key: str, reason: str) -> None:
        """Note what is wrong with the value of `key`, shown as it was written."""
        self.problems.add(self.at(key), reason, self.raw.get(key))

    def strings(self, key: str, check: Callable[[object], object] = text) -> tuple[str, ...]:
        """Return the list of strings under `key`; what is wrong is noted per entry."""
        given = self.get(key, sequence, ())
        for index, value in enumerate(given):
            self.problems.check(f"{self.at(key)}[{index}]", value, check)
        return tuple(value for value in given if isinstance(value, str))

    def entries(
        self,
        key: str,
        check_name: Callable[[object], object] = text,
        check_value: Callable[[object], object] = text,
    ) -> Mapping[str, str]:
        """Return the mapping of strings under `key`; what is wrong is noted per entry."""
        given = self.get(key, mapping, None) or {}
        for name, value in given.items():
            path = f"{self.at(key)}.{name}"
            self.problems.check(path, name, check_name)
            self.problems.check(path, value, check_value)
        return {str(name): value for name, value in given.items() if isinstance(value, str)}

    def section(self, key: str) -> "Section | None":
        """Return the mapping under `key`, or None where there is none; `key:` is an empty one."""
        empty: Mapping[str, object] | None = {} if self.raw.get(key, "") is None else None
        raw = self.get(key, mapping, empty)
        return None if raw is None else Section(raw, self.at(key), self.problems)

    def named(self, key: str, what: str) -> "Iterator[tuple[str, Section]]":
        """Yield the name and the section of each entry of the mapping under `key`."""
        for name, raw in (self.get(key, mapping, None) or {}).items():
            path = f"{self.at(key)}.{name}"
            if raw is None or isinstance(raw, Mapping):
                yield str(name), Section(raw or {}, path, self.problems)
            else:
                self.problems.add(path, f"is not a mapping: {what}", raw)

    def each(self, key: str, what: str) -> "Iterator[Section]":
        """Yield each entry of the list of mappings under `key`."""
        for index, raw in enumerate(self.get(key, sequence, ())):
            path = f"{self.at(key)}[{index}]"
            if isinstance(raw, Mapping):
                yield Section(raw, path, self.problems)
            else:
                self.problems.add(path, f"is not a mapping: {what}", raw)

    def finish(self) -> None:
        """Report each key that nobody asked for, with the nearest one that exists."""
        for key, value in self.raw.items():
            if key in self.asked:
                continue
            near = get_close_matches(str(key), self.asked, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(self.asked)}"
            self.problems.add(self.at(str(key)), f"is not a known key; {hint}", value)


def listed(items: Iterable[str]) -> str:
    """Write names as a person reads them."""
    return ", ".join(sorted(items)) or "none"
