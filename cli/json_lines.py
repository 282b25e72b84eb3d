"""Streams as JSON Lines: an object of inputs in every line, and one of outputs.

    {"x": [[0.5, 1.0]], "options.k": 2}
    {"y": [[1.0, 2.0]]}

Names are those of `--input`. Empty lines are passed over. An item that fails has
`{"error": {...}}` in its line, of the schema `aotc.error/1`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

from aotc.cli import arrays
from aotc.cli.arrays import Array
from aotc.core.json_values import json_value, python_numbers
from aotc.errors import AotcError, InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import Leaf

_LONGEST = 1 << 28  # bytes of a line: one without an end must not fill the memory


def read(
    file: BinaryIO, leaves: Sequence[Leaf]
) -> Iterator[tuple[str, dict[str, Array] | AotcError]]:
    """Parse a stream of JSON lines; yield each line number with inputs by name, or an
    error.

    Args:
        file: the lines.
        leaves: the inputs that each has to give.

    Raises:
        InputError: `bad-stream-item`: a line is so long that it cannot be read past.
    """
    by_name = {leaf.name: leaf for leaf in leaves}
    number = 0
    while line := file.readline(_LONGEST + 1):
        number += 1
        place = f"line {number}"
        if len(line) > _LONGEST:
            raise _error(f"expected a line of at most {_LONGEST} bytes", place)
        if not line.strip():
            continue
        try:
            yield place, _inputs(line, by_name)
        except InputError as error:
            yield place, error


def _inputs(line: bytes, leaves: Mapping[str, Leaf]) -> dict[str, Array]:
    """Parse one line as an object with an array for each input."""
    example = "{" + ", ".join(f'"{name}": …' for name in leaves) + "}"
    try:
        given = json.loads(line, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise _error(f"expected an object of inputs, {example}: {error}") from None
    if not isinstance(given, dict):
        kind = type(given).__name__
        raise _error(f"expected an object of inputs, {example}, got a {kind}")
    if given.keys() != leaves.keys():
        wrong = given.keys() ^ leaves.keys()
        got = ", ".join(map(repr, given)) or "none"
        code = "unknown-input" if wrong & given.keys() else "missing-input"
        raise InputError(code, f"expected the inputs {example}, got {got}")
    try:
        return {name: arrays.array_of(given[name], leaves[name]) for name in leaves}
    except ValueError as error:
        raise _error(f"expected inputs of the entry's dtypes: {error}") from None


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return pairs as a dict; ValueError for a repeated name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _error(message: str, where: str | None = None) -> InputError:
    """Return the error for a malformed item of a stream."""
    return InputError("bad-stream-item", message, where=where)


def result(outputs: Mapping[str, Array]) -> bytes:
    """Return the JSON line for an item's outputs."""
    values = {name: json_value(python_numbers(x)) for name, x in outputs.items()}
    return _line(values)


def failure(error: AotcError) -> bytes:
    """Return the JSON line for an item that failed."""
    return _line({"error": error.to_json()})


def _line(value: object) -> bytes:
    """Return a value as a JSON line, in bytes."""
    return json.dumps(value).encode() + b"\n"
