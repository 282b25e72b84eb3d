"""Looking into a running model: assertions, prints and barriers.

    import aotc.debug as debug

    debug.check(lengths > 0, "every sequence has an element")
    debug.print("step {}: loss = {:.3f}", step, loss)

They are part of the compiled model, at no cost to derivatives: a gradient checks and
prints what its function does.
"""

from __future__ import annotations

from string import Formatter
from typing import TypeVar

import numpy as np

from aotc.core import dtypes, printing
from aotc.core.pytree import flatten
from aotc.tracing.array import Array
from aotc.tracing.calls import guard
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit, emit_all

Tree = TypeVar("Tree")

__all__ = ["barrier", "check", "print"]


def check(condition: ArrayLike, message: str) -> None:
    """Emit an assertion: a call fails with `message` unless all elements are true.

    A call that fails has changed no state. Its error has the code `assertion-failed`
    and the line of this check.

    Args:
        condition: bool, of any shape.
        message: what must hold, in words.

    Raises:
        InputError: `condition` is not bool, or `message` is no text.
    """
    array = lift(condition)
    if array.dtype != "bool":
        fail(
            "dtype-mismatch",
            f"expected a condition of dtype bool; got {array.type}",
            "compare it: debug.check(x > 0, ...)",
        )
    _require_text("message", message)
    emit_all("assert", array, message=message)


def print(format: str, *values: ArrayLike) -> None:
    """Emit a print of `format` and a line break to standard error, in each call.

    Args:
        format: text with a `{}` for each value; `{:.3f}` formats its elements.
        values: arrays.

    Raises:
        InputError: `format` and `values` do not fit each other.
    """
    _require_text("format", format)
    pieces = _pieces(format)
    if not values or len(pieces) != len(values):
        fail(
            "bad-format",
            f"expected as many values as there are {{}} in {format!r} ({len(pieces)}), "
            f"and at least one; got {len(values)}",
            "Python's own print speaks once, while the model is traced",
        )
    pieces[-1] += "\n"
    for piece, value in zip(pieces, map(lift, values), strict=True):
        _require_fit(piece, value)
        emit_all("print", value, format=piece)


def barrier(tree: Tree) -> Tree:
    """Return the same values behind a barrier that keeps optimizations from crossing
    it.

    What is computed from the result is not merged with the same computed from `tree`:
    it really is computed again, or later.

    Args:
        tree: a pytree of arrays.
    """
    leaves, structure = flatten(tree)
    kept: Tree = structure.unflatten([emit("barrier", lift(leaf)) for leaf in leaves])
    return kept


def _require_text(name: str, value: ArrayLike) -> None:
    """Refuse an argument that is no text, or an empty one."""
    if not isinstance(value, str) or not value:
        fail("bad-argument", f"expected {name} to be a text; got {value!r}")


def _pieces(format: str) -> list[str]:
    """Split `format` into pieces with one `{}` each; the last keeps the text behind."""
    pieces, text = [], ""
    for literal, field, spec, conversion in _format_fields(format):
        text += literal.replace("{", "{{").replace("}", "}}")
        if field is None:
            continue
        if field or conversion:
            fail("bad-format", f"expected plain {{}} or {{:spec}} in {format!r}")
        pieces.append(f"{text}{{:{spec}}}" if spec else f"{text}{{}}")
        text = ""
    if pieces:
        pieces[-1] += text
    return pieces


def _format_fields(
    format: str,
) -> list[tuple[str, str | None, str | None, str | None]]:
    """Return the parsed fields of a format string; refuse an invalid one."""
    try:
        return list(Formatter().parse(format))
    except ValueError as error:
        fail("bad-format", f"{format!r} is no format: {error}")


def _require_fit(piece: str, value: Array) -> None:
    """Refuse a format that does not fit the dtype of its value."""
    try:
        printing.render(piece, np.zeros((), dtypes.to_numpy(value.dtype)))
    except ValueError as error:
        fail("bad-format", f"{piece!r} cannot show {value.type}: {error}")


guard(globals(), __all__)
