"""JSON as the bundle format uses it: one spelling out, and nothing doubtful in.

Python's own parser accepts repeated keys (the last one wins), NaN, integers of any
size and `1e999`. Two readers may understand such a text differently, which is how
signed data gets misread, so all of it is refused here. `parse(dump(x)) == x`.

`parse` also reads what nobody has vouched for yet, so that its time and memory grow no
faster than the size of the text, and that has a limit.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

SIZE_LIMIT = 4 << 20
DEPTH_LIMIT = 64
INTEGER_LIMIT = 2**53


def dump(value: object) -> bytes:
    """Return canonical JSON bytes: sorted keys, two spaces, ASCII, one newline at the
    end.
    """
    text = json.dumps(value, sort_keys=True, indent=2, allow_nan=False)
    return text.encode("ascii") + b"\n"


def parse(data: bytes, limit: int = SIZE_LIMIT) -> Any:
    """Parse JSON strictly: no repeated keys, NaN, huge numbers, or deep nesting.

    Args:
        data: the text in UTF-8.
        limit: how many bytes it may have.

    Raises:
        ValueError: what is wrong, as a clause to follow the file's name.
    """
    if len(data) > limit:
        raise ValueError(f"has {len(data)} bytes, more than the {limit} allowed")
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if data.count(b"{") + data.count(b"[") > DEPTH_LIMIT:  # else it cannot be deeper
        _check_depth(value)
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return pairs as a dict; ValueError for a repeated key."""
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"has the key {twice[:60]!r} twice in one object")
    return result


def _constant(text: str) -> Any:
    """Raise ValueError for NaN and infinities."""
    raise ValueError(f"holds {text}, which is not JSON")


def _integer(text: str) -> int:
    """Parse an integer; ValueError beyond 2**53."""
    if len(text) > 17 or abs(int(text)) > INTEGER_LIMIT:
        raise ValueError(f"holds an integer beyond 2**53: {text[:24]}")
    return int(text)


def _float(text: str) -> float:
    """Parse a float; ValueError if it overflows."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"holds a number out of range: {text[:24]}")
    return value


def _check_depth(value: object) -> None:
    """Raise ValueError if a value is nested too deeply."""
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise ValueError(f"is nested deeper than {DEPTH_LIMIT} levels")


def _children(value: object) -> list[object]:
    """Return the elements of a list, or the values of a dict."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


# One for all texts: to make one takes as long as to read a short text.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_constant,
    parse_int=_integer,
    parse_float=_float,
)
