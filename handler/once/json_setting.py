"""Settings that are JSON, parsed strictly; messages continue a line that names the setting."""

import json
import math
from typing import Any


def parse_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object; empty text is an empty one.

    Raises
    ------
    ValueError
        If it is not JSON, has a key twice, or is not an object; `what` says of what.
    """
    try:
        value = json.loads(
            text or "{}",
            object_pairs_hook=_no_repeats,
            parse_constant=_no_constants,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"is not a JSON object of {what}")
    return value


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"has a key twice in one object, among {', '.join(sorted(found))}")
    return found


def _finite(number: str) -> float:
    if math.isinf(found := float(number)):
        raise ValueError(f"has {number}, which is too large a number")
    return found


def _no_constants(name: str) -> object:
    raise ValueError(f"has {name}, which is not JSON")
