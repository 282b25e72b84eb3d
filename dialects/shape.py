"""Ops that move elements without computing on them."""

from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.elementwise import f32, i32, require_dtype
from aotc.dialects.graph import (
    Float,
    GraphOp,
    Int,
    Ints,
    Operand,
    Pure,
    Result,
    Sample,
    Sizes,
)
from aotc.dialects.lowering import lowered_type
from aotc.dialects.types import Shape, Size, Tensor, element_count, format_shape
from aotc.errors import InputError
from aotc.mlir import arith, ir, linalg, tensor

ALL = ("bool", *dt.NUMBERS)


class Reshape(GraphOp, name="reshape", traits=[Pure]):
    """y = the same elements, in row-major order, in another shape."""

    x: Operand[Any]
    shape: Sizes
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(x: Tensor, *, shape: Shape) -> Tensor:
        """The given shape, which must hold as many elements."""
        if element_count(x.shape) != element_count(shape):
            raise InputError(
                "shape-mismatch",
                f"cannot reshape {format_shape(x.shape)} "
                f"({element_count(x.shape)} elements) to {format_shape(shape)} "
                f"({element_count(shape)} elements)",
            )
        return x.with_shape(shape)

    @staticmethod
    def ref(x: Any, *, shape: Shape) -> Any:
        """np.reshape."""
        return np.reshape(x, shape)

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """Linear."""
        return b.reshape(dx, shape=op.shape)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Back to the operand's shape."""
        return [b.reshape(dy, shape=Tensor.of(op.x).shape)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """tensor.collapse_shape and tensor.expand_shape."""
        return low.reshape(x, Tensor.of(op.x), Tensor.of(op.y))

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """The same shape is nothing; of two reshapes the last counts."""
        source = Tensor.of(op.x)
        if source.shape == op.shape:
            return op.x
        inner = op.x.owner
        if getattr(inner, "name", "") == "graph.reshape":
            return b.reshape(inner.operands[0], shape=op.shape)
        return None

    samples = [
        Sample((f32(2, 6),), {"shape": (3, 4)}),
        Sample((f32("n", 2, 3),), {"shape": ("n", 6)}),
        Sample((f32("n", 6),), {"shape": ("n", 2, 3, 1)}),
        Sample((f32(1, 1),), {"shape": ()}),
        Sample((i32(0, 3),), {"shape": (0,)}),
    ]


class Transpose(GraphOp, name="transpose", traits=[Pure]):
    """y = x with its axes in the order of `permutation`."""

    x: Operand[Any]
    permutation: Ints
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(x: Tensor, *, permutation: tuple[int, ...]) -> Tensor:
        """The permuted shape."""
        if sorted(permutation) != list(range(x.rank)):
            raise InputError(
                "bad-axis",
                f"expected a permutation of the {x.rank} axes; got {tuple(permutation)}",
            )
        return x.with_shape([x.shape[axis] for axis in permutation])

    @staticmethod
    def ref(x: Any, *, permutation: tuple[int, ...]) -> Any:
        """np.transpose."""
        return np.transpose(x, permutation)

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """Linear."""
        return b.transpose(dx, permutation=op.permutation)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """The inverse permutation."""
        inverse = tuple(int(axis) for axis in np.argsort(op.permutation))
        return [b.transpose(dy, permutation=inverse)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """linalg.transpose."""
        result = Tensor.of(op.y)
        if not result.rank:
            return x
        init = low.empty(result)
        return linalg.transpose(x, outs=[init], permutation=op.permutation).results[0]

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """The identity is nothing; two transposes are one."""
        if list(op.permutation) == list(range(len(op.permutation))):
            return op.x
        inner = op.x.owner
        if getattr(inner, "name", "") == "graph.transpose":
            order = inner.opview.permutation
            composed = tuple(order[axis] for axis in op.permutation)
            return b.transpose(inner.operands[0], permutation=composed)
        return None

    samples = [
        Sample((f32(2, 3, 4),), {"permutation": (2, 0, 1)}),
        Sample((f32("n", 3),), {"permutation": (1, 0)}),
        Sample((f32(),), {"permutation": ()}),
    ]


class Broadcast(GraphOp, name="broadcast", traits=[Pure]):
    """y = x repeated: axis i of x becomes axis `axes[i]` of `shape`; size 1 stretches."""

    x: Operand[Any]
    shape: Sizes
    axes: Ints
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(x: Tensor, *, shape: Shape, axes: tuple[int, ...]) -> Tensor:
        """The given shape."""
        rising = sorted(set(axes)) == list(axes) and all(0 <= a < len(shape) for a in axes)
        if len(axes) != x.rank or not rising:
            raise InputError(
                "bad-axis",
                f"expected {x.rank} rising axes of {format_shape(shape)}; got {tuple(axes)}",
            )
        for size, axis in zip(x.shape, axes, strict=True):
            if size not in (1, shape[axis]):
                raise InputError(
                    "shape-mismatch",
                    f"cannot broadcast {format_shape(x.shape)} to {format_shape(shape)}: "
                    f"size {size} is neither 1 nor provably {shape[axis]}",
                )
        return x.with_shape(shape)

    @staticmethod
    def ref(x: Any, *, shape: Shape, axes: tuple[int, ...]) -> Any:
        """A reshape with unit axes, then np.broadcast_to."""
        aligned = [1] * len(shape)
        for size, axis in zip(np.shape(x), axes, strict=True):
            aligned[axis] = size
        return np.broadcast_to(np.reshape(x, aligned), shape)

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """Linear."""
        return b.broadcast(dx, shape=op.shape, axes=op.axes)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """The sum over all repetitions."""
        return [b.sum_to(dy, Tensor.of(op.x).shape, op.axes)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """A generic that reads x through a projection; a fill for a constant."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        value = _scalar_constant(op.x)
        if value is not None:
            return low.full(result, value)
        kept = [
            (size, axis)
            for size, axis in zip(source.shape, op.axes, strict=True)
            if size == result.shape[axis]
        ]
        narrow = source.with_shape([size for size, _ in kept])
        x = low.reshape(x, source, narrow)
        read = ir.AffineMap.get(
            result.rank, 0, [ir.AffineDimExpr.get(axis) for _, axis in kept]
        )
        return low.generic(
            [x],
            [read, ir.AffineMap.get_identity(result.rank)],
            low.empty(result),
            ["parallel"] * result.rank,
            lambda element, _: element,
        )

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """The same shape is nothing; two broadcasts are one."""
        if Tensor.of(op.x).shape == op.shape:
            return op.x
        inner = op.x.owner
        if getattr(inner, "name", "") == "graph.broadcast":
            composed = tuple(op.axes[axis] for axis in inner.opview.axes)
            return b.broadcast(inner.operands[0], shape=op.shape, axes=composed)
        return None

    samples = [
        Sample((f32(3),), {"shape": (2, 3), "axes": (1,)}),
        Sample((f32(1, 3),), {"shape": (4, 3), "axes": (0, 1)}),
        Sample((f32(),), {"shape": ("n", 2), "axes": ()}),
        Sample((f32("n", 1),), {"shape": (2, "n", 5), "axes": (1, 2)}),
    ]


def _scalar_constant(value: Any) -> Any:
    """The Python number of a scalar constant, or None."""
    owner = value.owner
    if getattr(owner, "name", "") != "graph.constant" or Tensor.of(value).rank:
        return None
    return owner.opview.value.item()


class Slice(GraphOp, name="slice", traits=[Pure]):
    """y[i] = x[start + i * stride], `sizes` elements along each axis."""

    x: Operand[Any]
    start: Ints
    sizes: Sizes
    strides: Ints
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(x: Tensor, *, start: Any, sizes: Shape, strides: Any) -> Tensor:
        """The given sizes, which must lie inside x."""
        if not len(start) == len(sizes) == len(strides) == x.rank:
            raise InputError("bad-slice", f"expected one slice per axis of {x}")
        for axis, (first, size, stride) in enumerate(zip(start, sizes, strides, strict=True)):
            have = x.shape[axis]
            if isinstance(have, int) and isinstance(size, int):
                last = first + (size - 1) * stride
                if first < 0 or stride < 1 or (size > 0 and last >= have):
                    raise InputError(
                        "bad-slice",
                        f"{size} elements from {first} in steps of {stride} do not fit "
                        f"into axis {axis} of {x}",
                    )
        return x.with_shape(sizes)

    @staticmethod
    def ref(x: Any, *, start: Any, sizes: Shape, strides: Any) -> Any:
        """Basic indexing."""
        return x[
            tuple(
                slice(first, first + size * stride, stride)
                for first, size, stride in zip(start, sizes, strides, strict=True)
            )
        ]

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """Linear."""
        return b.slice(dx, start=op.start, sizes=op.sizes, strides=op.strides)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Zeros around, and between strided elements."""
        have = Tensor.of(op.x).shape
        covered = [_dilated(n, s - 1) for n, s in zip(op.sizes, op.strides, strict=True)]
        high = [n - c - f for n, c, f in zip(have, covered, op.start, strict=True)]
        interior = [stride - 1 for stride in op.strides]
        return [b.pad(dy, low=op.start, high=high, interior=interior, value=0.0)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """tensor.extract_slice, which refuses to start at the end of an axis."""
        if element_count(op.sizes) == 0:
            return low.empty(Tensor.of(op.y))
        return low.slice(x, Tensor.of(op.y), op.start, op.strides)

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """The whole of x is nothing."""
        return op.x if Tensor.of(op.x).shape == op.sizes else None

    samples = [
        Sample((f32(4, 6),), {"start": (1, 0), "sizes": (2, 3), "strides": (1, 2)}),
        Sample((f32("n", 6),), {"start": (0, 2), "sizes": ("n", 4), "strides": (1, 1)}),
        Sample((f32(4),), {"start": (4,), "sizes": (0,), "strides": (1,)}),
    ]


def _dilated(size: Size, interior: int) -> Size:
    """`size` elements with `interior` more between each two."""
    if interior == 0 or size == 0:
        return size
    return (size - 1) * (interior + 1) + 1


class Pad(GraphOp, name="pad", traits=[Pure]):
    """y = x with `value` before (`low`), after (`high`) and between (`interior`) elements.

    Negative `low` and `high` cut elements off.
    """

    x: Operand[Any]
    low: Sizes
    high: Sizes
    interior: Ints
    value: Float
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(x: Tensor, *, low: Shape, high: Shape, interior: Any, value: float) -> Tensor:
        """The sum of all parts along each axis."""
        if not len(low) == len(high) == len(interior) == x.rank:
            raise InputError("bad-padding", f"expected one padding per axis of {x}")
        sizes = [
            _dilated(n, between) + before + after
            for n, before, after, between in zip(x.shape, low, high, interior, strict=True)
        ]
        if any(isinstance(n, int) and n < 0 for n in sizes) or min(interior, default=0) < 0:
            raise InputError(
                "bad-padding", f"padding {x} by low {low} and high {high} leaves less than 0"
            )
        return x.with_shape(sizes)

    @staticmethod
    def ref(x: Any, *, low: Shape, high: Shape, interior: Any, value: float) -> Any:
        """Strided assignment into a full array, then a cut."""
        sizes = [_dilated(n, k) for n, k in zip(x.shape, interior, strict=True)]
        before = [max(n, 0) for n in low]
        after = [max(n, 0) for n in high]
        full = np.full(np.add(np.add(sizes, before), after).astype(int), value, x.dtype)
        inner = tuple(
            slice(b, b + n, k + 1) for b, n, k in zip(before, sizes, interior, strict=True)
        )
        full[inner] = x
        cut = tuple(
            slice(max(-lo, 0), n - max(-hi, 0))
            for lo, hi, n in zip(low, high, full.shape, strict=True)
        )
        return full[cut]

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """Linear in x; the padding does not change."""
        return b.pad(dx, low=op.low, high=op.high, interior=op.interior, value=0.0)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """The padding with the opposite sign, then every (interior + 1)-th element."""
        x = Tensor.of(op.x)
        none = (0,) * x.rank
        low, high = ([0 - n for n in sizes] for sizes in (op.low, op.high))
        inner = b.pad(dy, low=low, high=high, interior=none, value=0.0)
        strides = tuple(k + 1 for k in op.interior)
        return [b.slice(inner, start=none, sizes=x.shape, strides=strides)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """tensor.pad, or computed element by element where that cannot say it."""
        result = Tensor.of(op.y)
        plain = all(isinstance(n, int) and n >= 0 for n in (*op.low, *op.high))
        if plain and not any(op.interior):
            return low.pad(x, result, op.low, op.high, _filler(op))
        return _lower_general_pad(low, op, x, result)

    @staticmethod
    def simplify(b: Any, op: Any) -> Any:
        """No padding is nothing; a cut is a slice."""
        if not any((*op.low, *op.high, *op.interior)):
            return op.x
        cuts = [n for n in (*op.low, *op.high) if isinstance(n, int) and n < 0]
        return _cut_by_slice(b, op) if cuts and not any(op.interior) else None

    samples = [
        Sample(
            (f32(2, 3),),
            {"low": (1, 0), "high": (0, 2), "interior": (0, 0), "value": 0.5},
        ),
        Sample(
            (f32("n", 4),),
            {"low": (0, -1), "high": (0, 1), "interior": (0, 2), "value": 0.0},
        ),
        Sample(
            (i32(3),), {"low": (1,), "high": (-1,), "interior": (1,), "value": 7.0}
        ),
    ]


def _cut_by_slice(b: Any, op: Any) -> Any:
    """A padding with negative parts as a slice, then a padding without."""

    def split(size: Size) -> tuple[int, Size]:
        return (-size, 0) if isinstance(size, int) and size < 0 else (0, size)

    start, low = zip(*map(split, op.low), strict=True)
    end, high = zip(*map(split, op.high), strict=True)
    have = Tensor.of(op.x).shape
    sizes = tuple(n - s - e for n, s, e in zip(have, start, end, strict=True))
    cut = b.slice(op.x, start=start, sizes=sizes, strides=(1,) * len(sizes))
    return b.pad(cut, low=low, high=high, interior=op.interior, value=op.value)


def _filler(op: Any) -> float | int | bool:
    """The padding's value as a number of the operand's kind."""
    dtype = Tensor.of(op.x).dtype
    if dtype == "bool":
        return bool(op.value)
    return op.value if dt.is_float(dtype) else int(op.value)


def _lower_general_pad(low: Any, op: Any, x: Any, result: Tensor) -> Any:
    """y[i] = x[(i - low) / (interior + 1)] where that is a whole index of x."""
    source = Tensor.of(op.x)
    filler = _filler(op)

    def element(indices: list[Any]) -> Any:
        inside = low.scalar("bool", True)
        positions = []
        for axis, index in enumerate(indices):
            step = low.index(op.interior[axis] + 1)
            offset = arith.SubIOp(index, low.size(op.low[axis])).result
            position = arith.DivSIOp(offset, step).result
            last = low.size(source.shape[axis] - 1)
            clamped = low.clamp_index(position, low_bound_zero(low, last))
            back = arith.MulIOp(clamped, step).result
            hit = arith.CmpIOp(arith.CmpIPredicate.eq, back, offset).result
            inside = arith.AndIOp(inside, hit).result
            positions.append(clamped)
        value = low.extract(x, positions)
        return arith.SelectOp(inside, value, low.scalar(source.dtype, filler)).result

    if element_count(source.shape) == 0:
        return low.full(result, filler)
    return low.computed(result, element)


def low_bound_zero(low: Any, index: Any) -> Any:
    """`max(index, 0)`: the last valid position, also of an empty axis."""
    return arith.MaxSIOp(index, low.index(0)).result


class Reverse(GraphOp, name="reverse", traits=[Pure]):
    """y = x backwards along `axes`."""

    x: Operand[Any]
    axes: Ints
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
        """The operand's type."""
        if any(not 0 <= axis < x.rank for axis in axes):
            raise InputError("bad-axis", f"expected axes of {x}; got {tuple(axes)}")
        return x

    @staticmethod
    def ref(x: Any, *, axes: tuple[int, ...]) -> Any:
        """np.flip."""
        return np.flip(x, axes)

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """Linear."""
        return b.reverse(dx, axes=op.axes)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Its own inverse."""
        return [b.reverse(dy, axes=op.axes)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """Element n - 1 - i."""
        source = Tensor.of(op.x)

        def element(indices: list[Any]) -> Any:
            positions = list(indices)
            for axis in op.axes:
                last = low.size(source.shape[axis] - 1)
                positions[axis] = arith.SubIOp(last, indices[axis]).result
            return low.extract(x, positions)

        return low.computed(source, element)

    samples = [
        Sample((f32(2, 3),), {"axes": (0, 1)}),
        Sample((f32("n", 3),), {"axes": (0,)}),
    ]


class Concatenate(GraphOp, name="concatenate", traits=[Pure]):
    """y = lhs, then rhs along `axis`. More parts are a chain, lowered as one.

    (Two operands because of Note [variadic ops] in transform.py.)
    """

    lhs: Operand[Any]
    rhs: Operand[Any]
    axis: Int
    y: Result[Any]
    dtypes = ALL

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, *, axis: int) -> Tensor:
        """The sizes along `axis` add up; the others are equal."""
        if not 0 <= axis < lhs.rank:
            raise InputError("bad-axis", f"expected an axis of {lhs}; got {axis}")
        require_dtype(rhs, (lhs.dtype,))
        rest = [x.shape[:axis] + x.shape[axis + 1 :] for x in (lhs, rhs)]
        if lhs.rank != rhs.rank or rest[0] != rest[1]:
            raise InputError(
                "shape-mismatch", f"cannot concatenate {lhs} and {rhs} along axis {axis}"
            )
        total = lhs.shape[axis] + rhs.shape[axis]
        return lhs.with_shape([*lhs.shape[:axis], total, *lhs.shape[axis + 1 :]])

    @staticmethod
    def ref(lhs: Any, rhs: Any, *, axis: int) -> Any:
        """np.concatenate."""
        return np.concatenate([lhs, rhs], axis)

    @staticmethod
    def jvp(b: Any, op: Any, dl: Any, dr: Any) -> Any:
        """The tangents one after the other."""
        dl = b.full_like(op.lhs, 0.0) if dl is None else dl
        dr = b.full_like(op.rhs, 0.0) if dr is None else dr
        return b.concatenate(dl, dr, axis=op.axis)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Each operand's part of dy."""
        left, right = Tensor.of(op.lhs).shape[op.axis], Tensor.of(op.rhs).shape[op.axis]
        none: list[Size] = [0] * Tensor.of(dy).rank
        after, before = list(none), list(none)
        after[op.axis], before[op.axis] = 0 - right, 0 - left
        return [
            b.pad(dy, low=none, high=after, interior=none, value=0.0),
            b.pad(dy, low=before, high=none, interior=none, value=0.0),
        ]

    @staticmethod
    def lower(low: Any, op: Any, lhs: Any, rhs: Any) -> Any:
        """tensor.concat, of all parts of a chain at once."""
        parts = [*_concatenated(lhs, op.axis), rhs]
        return tensor.ConcatOp(lowered_type(Tensor.of(op.y)), op.axis, parts).result

    samples = [
        Sample((f32(2, 3), f32(2, 1)), {"axis": 1}),
        Sample((f32("n", 3), f32("n", 3)), {"axis": 0}),
        Sample((i32(0), i32(3)), {"axis": 0}),
    ]


def _concatenated(value: Any, axis: int) -> list[Any]:
    """The parts that a lowered value was concatenated from along `axis`."""
    owner = value.owner
    if getattr(owner, "name", "") != "tensor.concat":
        return [value]
    same = ir.IntegerAttr(owner.attributes["dim"]).value == axis
    return list(owner.operands) if same else [value]
