"""Shared parts of control flow: its call, and the groups of its operands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np

from aotc.core import dtypes
from aotc.dialects.attributes import (
    Str,
    SymbolReferences,
)
from aotc.dialects.builder import Builder
from aotc.dialects.functions import functions
from aotc.dialects.functions.functions import CONTROL, Values, call, types_of
from aotc.dialects.graph import Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.types import Shape, Tensor, evaluate_size
from aotc.errors import InputError
from aotc.mlir import Value, ir

Arrays = list[np.ndarray]
Run = Callable[[str, Arrays], Arrays]  # evaluates a function by its name
Types = list[Tensor]
T = TypeVar("T")


class Inliner(Protocol):
    """Emits the lowered ops of a function at the insertion point."""

    def __call__(self, name: str, arguments: Values, /) -> Values:
        """Emit function `name` on lowered arguments; return its lowered results."""

    def with_lowering(self, lowering: Lowering, /) -> "Inliner":
        """Return an inliner that emits by another `Lowering`."""


# a function, and some of its outputs → the inputs that they depend on
Reads = Callable[[str, set[int]], set[int]]
# a function, and which of its inputs and outputs to keep → one with only these
Restrict = Callable[[str, list[int], list[int]], str]


@dataclass(frozen=True)
class ControlFlow:
    """Base of control flow (loops, branches): a declared function that runs others."""

    kind: ClassVar[str]
    keeps_precision: ClassVar[bool] = False
    functions: tuple[str, ...]

    if TYPE_CHECKING:

        def signature(
            self, parts: Sequence[tuple[Types, Types]]
        ) -> tuple[Types, Types]:
            """Return the types taken and returned, given its functions' signatures."""

        def facts(self) -> dict[str, ir.Attribute]:
            """Return what `graph.control` holds beside kind and functions, by name."""

    def title(self, _: str) -> str:
        """Return how messages name the control flow."""
        return f"this {self.kind}"

    def call_transformed(
        self, _: str, operands: Values, transform: Callable[[str], str]
    ) -> Values:
        """Emit a call of the same control flow over transformed functions."""
        names = tuple(map(transform, self.functions))
        return invoke(replace(self, functions=names), operands)


def invoke(control: ControlFlow, operands: Sequence[Value]) -> Values:
    """Declare `control` as a function, emit a call of it, and return its results."""
    parts = [functions.signature(functions.find(name)) for name in control.functions]
    inputs, outputs = control.signature(parts)
    require_same(f"the {control.kind} takes", inputs, types_of(operands))
    facts = {
        "kind": Str.encode(control.kind),
        "functions": SymbolReferences.encode(control.functions),
        **control.facts(),
    }
    name = f"{functions.name_of(functions.current_function())}.{control.kind}"
    declared = functions.declare(
        name, inputs, outputs, {CONTROL: ir.DictAttr.get(facts)}
    )
    return call(declared, operands)


def split(values: Sequence[T], *ends: int) -> list[list[T]]:
    """Return `values` in consecutive lists that end at the rising indices `ends`."""
    bounds = [0, *ends, len(values)]
    return [list(values[a:z]) for a, z in zip(bounds[:-1], bounds[1:], strict=True)]


def indices_of_true(marks: Sequence[bool], first: int = 0) -> tuple[int, ...]:
    """Return `first` plus the index of each true mark."""
    return tuple(first + index for index, mark in enumerate(marks) if mark)


def float_positions(kinds: Types) -> list[int]:
    """Return the indices of the types that have a float dtype."""
    return [i for i, kind in enumerate(kinds) if dtypes.is_float(kind.dtype)]


def active(
    tangents: Sequence[Tangent], first: int = 0
) -> tuple[tuple[int, ...], Values]:
    """Return indices, plus `first`, of tangents other than None, and these tangents."""
    wrt = indices_of_true([d is not None for d in tangents], first)
    return wrt, [d for d in tangents if d is not None]


def tangent_or_zero(b: Builder, value: Value, tangent: Tangent) -> Value:
    """Return the tangent of `value`; emit zeros for None."""
    return b.full_like(value, 0.0) if tangent is None else tangent


def select_each(b: Builder, mask: Value, taken: Values, other: Values) -> Values:
    """Emit rows of `taken` where `mask` is true, else of `other`, tensor by tensor."""
    chosen = []
    for x, y in zip(taken, other, strict=True):
        shape = Tensor.of(x).shape
        wide = b.broadcast(mask, shape=shape, axes=(0,))
        chosen.append(b.select(wide, x, y))
    return chosen


def shape_of(shape: Shape, symbols: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with the values of its symbols inserted."""
    return tuple(evaluate_size(size, symbols) for size in shape)


def require_count(name: str, count: int, most: int) -> None:
    """Raise InputError for a count of operands, called `name`, that is above `most`."""
    if count > most:
        raise InputError(
            "malformed-op", f"expected {name} of up to {most}; got {count}"
        )


def require_same(subject: str, expected: Types, got: Types) -> None:
    """Raise InputError for other types than expected; `subject` begins the message."""
    if expected != got:
        raise InputError(
            "control-mismatch",
            f"{subject} {types_text(got)}; expected {types_text(expected)}",
        )


def types_text(kinds: Types) -> str:
    """Return types as text in parentheses."""
    return f"({', '.join(map(str, kinds))})"
