"""Shapes that a file declares, compared with those that its import comes to.

Exporters write the shapes that they computed beside the ops. Where the sizes that are
numbers in both contradict each other, one of the two reads an op wrongly, and the model
that people get from other runtimes is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from aotc.dialects.types import format_shape
from aotc.tracing.source_locations import fail

# the sizes of a declared shape; None for one that is left open
Declared = Sequence[int | None]

_is_compared: ContextVar[bool] = ContextVar("aotc_declared_shapes", default=False)


@contextmanager
def require_declared_shapes(
    inputs: Iterable[tuple[Declared, Sequence[object]]],
) -> Iterator[None]:
    """Compare results with declared shapes within this block, if (declared, actual)
    inputs fit.

    That is so where the inputs have theirs: other sizes than the file's, also numbers
    for open ones, give other results.

    Args:
        inputs: for each input what is declared of it, and its shape.
    """
    token = _is_compared.set(all(_is_as_declared(*pair) for pair in inputs))
    try:
        yield
    finally:
        _is_compared.reset(token)


@contextmanager
def undeclared_shapes() -> Iterator[None]:
    """Disable the comparison of results with declared shapes within this block."""
    token = _is_compared.set(False)
    try:
        yield
    finally:
        _is_compared.reset(token)


def _is_as_declared(declared: Declared, shape: Sequence[object]) -> bool:
    """Return whether a shape has the declared sizes, and symbolic ones for None."""
    return len(declared) == len(shape) and all(
        not isinstance(size, int) if wanted is None else _is_number(size, wanted)
        for wanted, size in zip(declared, shape, strict=True)
    )


def _is_number(size: object, wanted: int) -> bool:
    """Return whether a size is this number."""
    return isinstance(size, int) and size == wanted


def require_declared(what: str, declared: Declared, found: object) -> None:
    """Refuse a result whose shape contradicts the one that the file declares.

    Args:
        what: the value, as the source names it.
        declared: its sizes; open ones are not compared, nor are symbolic ones.
        found: the value; anything without a shape is not compared.

    Raises:
        InputError: `declared-shape`.
    """
    shape = getattr(found, "shape", None)
    if shape is None or not _is_compared.get():
        return
    known = [
        (wanted, size)
        for wanted, size in zip(declared, shape, strict=False)
        if wanted is not None and isinstance(size, int)
    ]
    if len(declared) != len(shape) or any(wanted != size for wanted, size in known):
        wanted_shape = ", ".join("?" if n is None else str(n) for n in declared)
        fail(
            "declared-shape",
            f"the source declares {what} with the shape [{wanted_shape}]; aotc comes "
            f"to {format_shape(tuple(shape))}",
            "if what the source says is out of date, remove it (ONNX: "
            "del model.graph.value_info[:], and the shapes of graph.output); else "
            "please report it with the node",
        )
