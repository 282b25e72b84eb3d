"""Ops that read or write at positions which are only known when the model runs.

IREE checks no index, so every lowering clamps positions into range: an index out of
bounds reads or writes the nearest element ("clip" in NumPy's words).
"""

from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.attributes import Int, Ints
from aotc.dialects.checks import require_dtype
from aotc.dialects.graph import GraphOp, Operand, Pure, Result
from aotc.dialects.samples import Sample, f32
from aotc.dialects.types import Tensor, format_shape
from aotc.errors import InputError
from aotc.mlir import arith, ir


def _require_indices(indices: Tensor) -> None:
    require_dtype(indices, dt.INTEGERS)


class Gather(GraphOp, name="gather", traits=[Pure]):
    """y = x taken at `indices` along `axis`, as np.take with mode "clip"."""

    x: Operand[Any]
    indices: Operand[Any]
    axis: Int
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
        """The axis gives way to the axes of the indices."""
        _require_indices(indices)
        if not 0 <= axis < x.rank or x.shape[axis] == 0:
            raise InputError(
                "bad-axis", f"expected an axis of {x} that is not empty; got {axis}"
            )
        return x.with_shape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])

    @staticmethod
    def ref(x: Any, indices: Any, *, axis: int) -> Any:
        """np.take."""
        return np.take(x, indices, axis, mode="clip")

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any, _: Any) -> Any:
        """Linear in x."""
        return None if dx is None else b.gather(dx, op.indices, axis=op.axis)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Dy added up at the places that were read."""
        zeros = b.full(Tensor.of(op.x), 0.0)
        return [b.scatter_add(zeros, op.indices, dy, axis=op.axis), None]

    @staticmethod
    def lower(low: Any, op: Any, x: Any, indices: Any) -> Any:
        """A generic over the result that extracts from x."""
        source, where = Tensor.of(op.x), Tensor.of(op.indices)

        def element(loops: list[Any]) -> Any:
            inner = loops[op.axis : op.axis + where.rank]
            number = low.extract(indices, inner)
            last = source.shape[op.axis] - 1
            position = low.clamp_index(low.to_index(number, where.dtype), last)
            return low.extract(
                x, [*loops[: op.axis], position, *loops[op.axis + where.rank :]]
            )

        return low.computed(Tensor.of(op.y), element)

    samples = [
        Sample((f32(5, 3), np.array([0, 4, 4, -3, 9], "i4")), {"axis": 0}),
        Sample((f32(2, 4), np.array([[1, 0], [3, 3]], "i4")), {"axis": 1}),
        Sample((f32("n", 3), np.array(0, "i4")), {"axis": 0}),
    ]


class ScatterAdd(GraphOp, name="scatter_add", traits=[Pure]):
    """y = x with `updates` added at `indices` along `axis`; the adjoint of gather.

    Computed as a sum over all indices for each element, which no race can disturb, at a
    cost of size(axis) * size(updates).
    """

    x: Operand[Any]
    indices: Operand[Any]
    updates: Operand[Any]
    axis: Int
    y: Result[Any]

    @staticmethod
    def infer(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> Tensor:
        """The type of x."""
        expected = Gather.infer(x, indices, axis=axis)
        require_dtype(x, dt.FLOATS)
        if updates != expected:
            raise InputError(
                "shape-mismatch", f"expected updates of type {expected}; got {updates}"
            )
        return x

    @staticmethod
    def ref(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
        """np.add.at on clipped indices."""
        y = np.moveaxis(x.copy(), axis, 0)
        order = [*range(axis, axis + indices.ndim)]
        moved = np.moveaxis(updates, order, range(indices.ndim))
        np.add.at(y, np.clip(indices, 0, y.shape[0] - 1), moved)
        return np.moveaxis(y, 0, axis)

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any, _: Any, du: Any) -> Any:
        """Linear in x and updates."""
        dx = b.full_like(op.x, 0.0) if dx is None else dx
        if du is None:
            return dx
        return b.scatter_add(dx, op.indices, du, axis=op.axis)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Dy, and dy where updates went."""
        return [dy, None, b.gather(dy, op.indices, axis=op.axis)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any, indices: Any, updates: Any) -> Any:
        """y[v, …] = x[v, …] + sum over k of (indices[k] == v) * updates[k, …]."""
        source, where = Tensor.of(op.x), Tensor.of(op.indices)
        outer, inner = source.rank, where.rank
        loops = [ir.AffineDimExpr.get(i) for i in range(outer + inner)]
        window = loops[outer:]
        target = loops[:outer]
        read = [*target[: op.axis], *window, *target[op.axis + 1 :]]
        maps = [
            ir.AffineMap.get(len(loops), 0, exprs) for exprs in (window, read, target)
        ]

        def body(number: Any, update: Any, total: Any) -> Any:
            last = source.shape[op.axis] - 1
            position = low.clamp_index(low.to_index(number, where.dtype), last)
            here = low.loop_index(op.axis)
            hit = arith.cmpi(arith.CmpIPredicate.eq, position, here)
            zero = low.scalar(source.dtype, 0.0)
            return arith.addf(total, arith.select(hit, update, zero))

        kinds = ["parallel"] * outer + ["reduction"] * inner
        return low.generic([indices, updates], maps, x, kinds, body)

    samples = [
        Sample((f32(4, 3), np.array([0, 3, 3], "i4"), f32(3, 3)), {"axis": 0}),
        Sample(
            (f32(2, 4), np.array([[1, 9], [1, -1]], "i4"), f32(2, 2, 2)), {"axis": 1}
        ),
    ]


def _require_starts(x: Tensor, starts: Tensor, sizes: Any) -> None:
    _require_indices(starts)
    if starts.shape != (x.rank,) or len(sizes) != x.rank:
        raise InputError(
            "shape-mismatch",
            f"expected one start and one size per axis of {x}; got starts "
            f"{format_shape(starts.shape)}, sizes {tuple(sizes)}",
        )
    for size, have in zip(sizes, x.shape, strict=True):
        if isinstance(have, int) and size > have:
            raise InputError(
                "bad-slice", f"a slice of {tuple(sizes)} does not fit into {x}"
            )


def _clamped_starts(
    low: Any, x: Tensor, starts: Any, dtype: str, sizes: Any
) -> list[Any]:
    """Inside a body: the start along each axis, moved so that the slice fits."""
    positions = []
    for axis, size in enumerate(sizes):
        number = low.extract(starts, [low.index(axis)])
        room = x.shape[axis] - size
        positions.append(low.clamp_index(low.to_index(number, dtype), room))
    return positions


class DynamicSlice(GraphOp, name="dynamic_slice", traits=[Pure]):
    """y = `sizes` elements of x from `starts` (an integer vector), moved to fit."""

    x: Operand[Any]
    starts: Operand[Any]
    sizes: Ints
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, starts: Tensor, *, sizes: Any) -> Tensor:
        """The given sizes."""
        _require_starts(x, starts, sizes)
        return x.with_shape(sizes)

    @staticmethod
    def ref(x: Any, starts: Any, *, sizes: Any) -> Any:
        """Basic indexing from clipped starts."""
        return x[_numpy_window(x, starts, sizes)]

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any, _: Any) -> Any:
        """Linear in x."""
        return None if dx is None else b.dynamic_slice(dx, op.starts, sizes=op.sizes)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Dy in place, zeros around."""
        zeros = b.full(Tensor.of(op.x), 0.0)
        return [b.dynamic_update_slice(zeros, dy, op.starts), None]

    @staticmethod
    def lower(low: Any, op: Any, x: Any, starts: Any) -> Any:
        """A generic over the result that extracts from x."""
        source, dtype = Tensor.of(op.x), Tensor.of(op.starts).dtype

        def element(loops: list[Any]) -> Any:
            first = _clamped_starts(low, source, starts, dtype, op.sizes)
            pairs = zip(first, loops, strict=True)
            return low.extract(x, [arith.addi(a, i) for a, i in pairs])

        return low.computed(Tensor.of(op.y), element)

    samples = [
        Sample((f32(4, 5), np.array([1, 9], "i4")), {"sizes": (2, 3)}),
        Sample((f32("n", 3), np.array([0, 1], "i4")), {"sizes": (1, 2)}),
    ]


def _numpy_window(x: Any, starts: Any, sizes: Any) -> tuple[slice, ...]:
    rooms = [max(n - size, 0) for n, size in zip(x.shape, sizes, strict=True)]
    first = np.clip(starts, 0, rooms).astype(int)
    return tuple(slice(a, a + size) for a, size in zip(first, sizes, strict=True))


class DynamicUpdateSlice(GraphOp, name="dynamic_update_slice", traits=[Pure]):
    """y = x with `update` written from `starts` (an integer vector), moved to fit."""

    x: Operand[Any]
    update: Operand[Any]
    starts: Operand[Any]
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, update: Tensor, starts: Tensor) -> Tensor:
        """The type of x."""
        require_dtype(update, (x.dtype,))
        if not update.is_static:
            raise InputError(
                "symbolic-size", f"expected an update of fixed size; got {update}"
            )
        _require_starts(x, starts, update.shape)
        return x

    @staticmethod
    def ref(x: Any, update: Any, starts: Any) -> Any:
        """Basic assignment from clipped starts."""
        y = x.copy()
        y[_numpy_window(x, starts, update.shape)] = update
        return y

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any, du: Any, _: Any) -> Any:
        """Linear in x and update."""
        dx = b.full_like(op.x, 0.0) if dx is None else dx
        du = b.full_like(op.update, 0.0) if du is None else du
        return b.dynamic_update_slice(dx, du, op.starts)

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Dy outside of the window for x, inside of it for the update."""
        zeros = b.full_like(op.update, 0.0)
        sizes = Tensor.of(op.update).shape
        return [
            b.dynamic_update_slice(dy, zeros, op.starts),
            b.dynamic_slice(dy, op.starts, sizes=sizes),
            None,
        ]

    @staticmethod
    def lower(low: Any, op: Any, x: Any, update: Any, starts: Any) -> Any:
        """A generic that chooses between x and the update."""
        source, dtype = Tensor.of(op.x), Tensor.of(op.starts).dtype
        sizes = Tensor.of(op.update).shape
        if 0 in sizes:
            return x

        def element(loops: list[Any]) -> Any:
            first = _clamped_starts(low, source, starts, dtype, sizes)
            inside = low.scalar("bool", True)
            positions = []
            for axis, index in enumerate(loops):
                offset = arith.subi(index, first[axis])
                clamped = low.clamp_index(offset, sizes[axis] - 1)
                hit = arith.cmpi(arith.CmpIPredicate.eq, clamped, offset)
                inside = arith.andi(inside, hit)
                positions.append(clamped)
            written = low.extract(update, positions)
            return arith.select(inside, written, low.extract(x, loops))

        return low.computed(source, element)

    samples = [
        Sample((f32(4, 5), f32(2, 3), np.array([1, 9], "i4"))),
        Sample((f32("n", 3), f32(1, 2), np.array([0, 1], "i4"))),
    ]
