"""`pad`: elements before, after and between those of a tensor."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Float, Ints, Sizes
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.reads import element_reader
from aotc.dialects.movement.views import View
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, this
from aotc.dialects.rules.batching import before, leading
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.reordering import in_any_order, reorder_sizes
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import (
    Shape,
    Size,
    Tensor,
    bounds,
    element_count,
    maximum,
)
from aotc.errors import InputError
from aotc.mlir import Value, arith


def dilated_size(size: Size, interior: int) -> Size:
    """Return the size of `size` elements with `interior` more between each two."""
    if interior == 0 or size == 0:
        return size
    with known_contracts(()):  # types must not depend on what else is promised
        return maximum((size - 1) * (interior + 1) + 1, 0)


_MOST_BETWEEN = 2**31 - 1  # sizes that are computed of it fit 64 bits


class Pad(GraphOp, name="pad", traits=[Pure]):
    """y = x with `value` before (`low`), after (`high`) and between its elements.

    `interior` counts those between each two. Negative `low` and `high` cut off.
    """

    selects = True
    why = "the adjoint of slice, with zeros between elements too"

    x: Operand[Any]
    low: Sizes
    high: Sizes
    interior: Ints
    value: Float
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(
        x: Tensor, *, low: Shape, high: Shape, interior: tuple[int, ...], value: float
    ) -> Tensor:
        """Return the type with sizes of elements, ends and interior summed up."""
        if not len(low) == len(high) == len(interior) == x.rank:
            raise InputError("bad-padding", f"expected one padding per axis of {x}")
        if max(interior, default=0) > _MOST_BETWEEN:
            raise InputError(
                "bad-padding",
                f"expected at most {_MOST_BETWEEN} elements between two; "
                f"got {interior}",
            )
        sizes = [
            dilated_size(n, between) + before + after
            for n, before, after, between in zip(
                x.shape, low, high, interior, strict=True
            )
        ]
        if (
            any(isinstance(n, int) and n < 0 for n in sizes)
            or min(interior, default=0) < 0
        ):
            raise InputError(
                "bad-padding",
                f"expected padding that leaves {x} no size below 0, nothing less than "
                f"0 between its elements; got {low}, {high} and {interior}",
            )
        return x.with_shape(sizes)

    @staticmethod
    def ref(
        x: np.ndarray,
        *,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        value: float,
    ) -> np.ndarray:
        """Return the padded NumPy array: assigned with strides, then cut."""
        sizes: list[Any] = [
            dilated_size(n, k) for n, k in zip(x.shape, interior, strict=True)
        ]
        before = [max(n, 0) for n in low]
        after = [max(n, 0) for n in high]
        full = np.full(np.add(np.add(sizes, before), after).astype(int), value, x.dtype)
        inner = tuple(
            slice(b, b + n, k + 1)
            for b, n, k in zip(before, sizes, interior, strict=True)
        )
        full[inner] = x
        cut = tuple(
            slice(max(-lo, 0), n - max(-hi, 0))
            for lo, hi, n in zip(low, high, full.shape, strict=True)
        )
        return full[cut]

    @staticmethod
    def jvp(b: Builder, op: "Pad", dx: Value) -> Value:
        """Return the tangent padded by zeros, as the padding is constant."""
        return b.pad(dx, low=op.low, high=op.high, interior=op.interior, value=0.0)

    @staticmethod
    def vjp(b: Builder, op: "Pad", dy: Value) -> list[Value]:
        """Return the cotangent padded by the opposite, then strided by interior + 1."""
        x = Tensor.of(op.x)
        none = (0,) * x.rank
        low, high = ([0 - n for n in sizes] for sizes in (op.low, op.high))
        inner = b.pad(dy, low=low, high=high, interior=none, value=0.0)
        strides = tuple(k + 1 for k in op.interior)
        return [b.slice(inner, start=none, sizes=x.shape, strides=strides)]

    batch = leading(low=before(0), high=before(0), interior=before(0))
    reorder = in_any_order(
        low=reorder_sizes, high=reorder_sizes, interior=reorder_sizes
    )

    @staticmethod
    def pad(p: BucketPadding, op: "Pad", operands: Sequence[Value]) -> Any:
        """Emit the padded op, with the value also after the call's elements."""
        if any(map(p.is_padded, (*op.low, *op.high))):
            return None
        rows = enumerate(zip(op.high, op.interior, strict=True))
        axes = [axis for axis, around in rows if around != (0, 0)]
        (x,) = operands
        return p.build(op, [p.hide(x, Tensor.of(op.x), axes, _filler(op))])

    @staticmethod
    def lower(low: Lowering, op: "Pad", x: Value) -> Value:
        """Emit a tensor.pad, or reads of single elements if that is not enough."""
        result = Tensor.of(op.y)
        plain = all(bounds(n)[0] >= 0 for n in (*op.low, *op.high))
        if plain and not any(op.interior):
            return low.pad(x, result, op.low, op.high, _filler(op))
        return _lower_general_pad(low, op, x, result)

    simplify = (
        RewriteRow(
            "x, if nothing is added",
            this(X),
            lambda b, m: m.x,
            given=(f32(3),),
            example=lambda b, x: b.pad(
                x, low=(0,), high=(0,), interior=(0,), value=0.0
            ),
            near_miss=lambda b, x: b.pad(
                x, low=(0,), high=(1,), interior=(0,), value=0.0
            ),
            where=lambda m: all(
                n == 0 for n in (*m.op.low, *m.op.high, *m.op.interior)
            ),
        ),
        RewriteRow(
            "what cuts, as a slice",
            this(X),
            lambda b, m: _cut_by_slice(b, m.op),
            given=(f32(3),),
            example=lambda b, x: b.pad(
                x, low=(-1,), high=(2,), interior=(0,), value=0.0
            ),
            near_miss=lambda b, x: b.pad(
                x, low=(-4,), high=(2,), interior=(0,), value=0.0
            ),
            where=lambda m: _is_cut(m.op) and not _may_cut_too_much(m.op),
        ),
    )

    @staticmethod
    def view(op: "Pad", x: View) -> View | None:
        """Return the view with out-of-range indices; None if it cannot express it."""
        if any(op.interior):
            return None
        return x.pad(op.low, op.high, op.value)

    samples = [
        OpSample(
            (f32(2, 3),),
            {"low": (1, 0), "high": (0, 2), "interior": (0, 0), "value": 0.5},
        ),
        OpSample(
            (f32("n", 4),),
            {"low": (0, -1), "high": (0, 1), "interior": (0, 2), "value": 0.0},
        ),
        OpSample(
            (i32(3),), {"low": (1,), "high": (-1,), "interior": (1,), "value": 7.0}
        ),
        OpSample(
            (f32("n", 2),),
            {"low": ("m", 0), "high": (1, 0), "interior": (0, 0), "value": -1.0},
        ),
        OpSample(
            (f32(4, 5),),
            {"low": (-1, 2), "high": (-2, -3), "interior": (0, 0), "value": 0.5},
        ),
        OpSample(
            (f32(3, "n"),),
            {"low": (-5, 6), "high": (4, -5), "interior": (0, 0), "value": 0.5},
        ),
    ]


def _is_cut(op: Pad) -> bool:
    """Return whether the padding removes elements at an end, without interior."""
    cuts = [n for n in (*op.low, *op.high) if isinstance(n, int) and n < 0]
    return bool(cuts) and not any(op.interior)


def _may_cut_too_much(op: Pad) -> bool:
    """Return whether an axis may be cut by more than its size where it is padded.

    Such a padding stays whole: what a slice would leave has a size below 0.
    """
    axes = zip(Tensor.of(op.x).shape, op.low, op.high, strict=True)
    return any(
        bounds(n)[0] + sum(min(end, 0) for end in ends if isinstance(end, int)) < 0
        and any(bounds(end)[1] > 0 for end in ends)
        for n, *ends in axes
    )


def _cut_by_slice(b: Builder, op: Pad) -> Value:
    """Emit a slice for negative padding, then a padding by the rest."""

    def split(size: Size) -> tuple[int, Size]:
        return (-size, 0) if isinstance(size, int) and size < 0 else (0, size)

    start, low = zip(*map(split, op.low), strict=True)
    end, high = zip(*map(split, op.high), strict=True)
    have = Tensor.of(op.x).shape
    sizes = tuple(n - s - e for n, s, e in zip(have, start, end, strict=True))
    cut = b.slice(op.x, start=start, sizes=sizes, strides=(1,) * len(sizes))
    return b.pad(cut, low=low, high=high, interior=op.interior, value=op.value)


def _filler(op: Pad) -> float | int | bool:
    """Return the padding's value as a Python number of the operand's kind."""
    dtype = Tensor.of(op.x).dtype
    if dtype == "bool":
        return bool(op.value)
    return op.value if dt.is_float(dtype) else int(op.value)


def _lower_general_pad(low: Lowering, op: Pad, x: Value, result: Tensor) -> Value:
    """Emit y[i] = x[(i - low) / (interior + 1)] where that is a whole index of x."""
    source, filler = Tensor.of(op.x), _filler(op)
    if element_count(source.shape) == 0:
        return low.full(result, filler)
    read = element_reader(low, x, source)
    moved = [
        axis
        for axis in range(source.rank)
        if (op.low[axis], op.high[axis], op.interior[axis]) != (0, 0, 0)
    ]

    def element(indices: list[Value]) -> Value:
        inside = low.scalar("bool", True)
        for axis in moved:
            hit, indices[axis] = _source_index(low, op, axis, indices[axis])
            inside = arith.andi(inside, hit)
        value = read(indices)
        return arith.select(inside, value, low.scalar(source.dtype, filler))

    return low.generate(result, element)


def _source_index(
    low: Lowering, op: Pad, axis: int, index: Value
) -> tuple[Value, Value]:
    """Emit whether a result index holds an element of x, and the index of it in x."""
    size = Tensor.of(op.x).shape[axis]
    step = low.index(op.interior[axis] + 1)
    offset = arith.subi(index, low.size(op.low[axis]))
    position = arith.divsi(offset, step)
    below, equal = arith.CmpIPredicate.ult, arith.CmpIPredicate.eq
    exists = arith.cmpi(below, position, low.size(size))
    whole = arith.cmpi(equal, arith.muli(position, step), offset)
    return arith.andi(exists, whole), low.clamp_index(position, size - 1)
