"""Writing at positions that are only known when the model runs.

`updates` are like what a gather with the same attributes reads; see the notes in
indexing.py. Duplicates are all combined, and of those that replace the last one counts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Ints, Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.ops.indexing import (
    IndexMap,
    numpy_index,
    read_type,
    wide_indices,
    within_call,
)
from aotc.dialects.ops.one_hot import sum_of_own_updates
from aotc.dialects.ops.reduction import (
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
)
from aotc.dialects.ops.scatter_lowering import Scattering, lower_scatter
from aotc.dialects.ops.single_updates import is_single, write_window
from aotc.dialects.rules.batching import add_leading_axes
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Size, Tensor, element_count
from aotc.errors import InputError
from aotc.mlir import Value


def _sample(
    operands: tuple[object, ...],
    axes: tuple[int, ...],
    along: tuple[int, ...],
    kept: tuple[int, ...],
    mode: str = "clip",
) -> OpSample:
    """Return a sample of a scatter op."""
    maps = {"axes": axes, "along": along, "kept": kept, "mode": mode}
    return OpSample(operands, maps)


def _nearest(p: BucketPadding, number: Value, size: Size) -> Value:
    """Emit indices clamped to the bucket's size of a padded axis."""
    b, kind = p.b, Tensor.of(number)
    last = b.number(kind, p.shape((size,))[0] - 1)
    found = b.minimum(number, last)
    if kind.dtype in dt.SIGNED:
        found = b.maximum(found, b.full(kind, 0))
    return found


class Scatter(GraphOp, traits=[Pure]):
    """Base of scatters; subclasses give `ref`, `jvp`, `vjp` and a lowering."""

    x: Operand[Any]
    updates: Operand[Any]
    indices: Sequence[Operand[Any]]
    axes: Ints
    along: Ints
    kept: Ints
    mode: Str
    y: Result[Any]
    in_memory = True

    @classmethod
    def infer(
        cls, x: Tensor, updates: Tensor, *indices: Tensor, **attributes: Any
    ) -> Tensor:
        """Return the result type, that of x."""
        require_dtype(x, cls.dtypes)
        expected = read_type(x, indices, IndexMap(**attributes))
        if updates != expected:
            raise InputError(
                "shape-mismatch", f"expected updates of type {expected}; got {updates}"
            )
        return x

    @staticmethod
    def batch(
        b: Builder,
        op: "Scatter",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> Value:
        """Emit the op with one more axis of x and updates, and perhaps of indices."""
        in_indices = any(batched[2:])
        x, updates = add_leading_axes(b, operands[:2], batched[:2], size)
        indices = list(operands[2:])
        if in_indices:
            indices = add_leading_axes(b, indices, batched[2:], size)
        maps = IndexMap.of(op).batch_attributes(x=True, indices=in_indices)
        y: Value = type(op).build(x, updates, *indices, **maps)
        return y

    @staticmethod
    def pad(p: BucketPadding, op: "Scatter", operands: Sequence[Value]) -> Any:
        """Emit writes of the call's updates only: those of padding are dropped."""
        x, updates, *indices = operands
        exact, _, places, *_ = map(Tensor.of, op.operands)
        if p.axes(exact, op.axes):
            indices = within_call(p, exact, indices, IndexMap.of(op))
        inside = p.inside(places, range(places.rank))
        if inside is None:
            return p.build(op, [x, updates, *indices])
        b, (kind, numbers) = p.b, wide_indices(p.b, indices)
        if op.mode == "clip":
            numbers = [
                _nearest(p, each, exact.shape[axis])
                for each, axis in zip(numbers, op.axes, strict=True)
            ]
        outside = b.number(kind, p.shape((exact.shape[op.axes[0]],))[0])
        numbers[0] = b.select(inside, numbers[0], outside)
        return p.build(op, [x, updates, *numbers], mode="drop")

    samples = [
        _sample(
            (f32(5, 3), f32(5, 3), np.array([0, 4, 4, -3, 9], "i4")), (0,), (0,), (1,)
        ),
        _sample(
            (f32(2, 4, 3), f32(2, 2, 2, 3), np.array([[1, 9], [1, -1]], "i8")),
            (1,), (1, 2), (0, 3), "drop",
        ),
        _sample(
            (f32(3, 4), f32(3, 2), np.array([[0, 3], [2, 2], [1, 7]], "u1")),
            (1,), (0, 1), (0,), "drop",
        ),
        _sample(
            (
                f32(3, 2, 4), f32(3, 2),
                np.array([2, 0, 7], "i1"), np.array([-1, 3, 2], "i1"),
            ),
            (0, 2), (0,), (1,),
        ),
        _sample(
            (f32("k", 3, "n"), f32("k", "m", "n"), i32("m", "n")),
            (1,), (1, 2), (0, 2),
        ),
        _sample((f32("n", 3), f32("m", 3), i32("m")), (0,), (0,), (1,), "drop"),
        _sample((f32(4), f32(), np.array(2**63 + 1, "u8")), (0,), (), ()),
        _sample((f32(4, 2), f32(0, 2), np.zeros(0, "i4")), (0,), (0,), (1,)),
        _sample(
            (f32(0, 2), f32(3, 2), np.array([1, 0, -1], "i4")),
            (0,), (0,), (1,), "drop",
        ),
    ]  # fmt: skip


def _maps(op: GraphOp) -> dict[str, Any]:
    """Return the attributes of a scatter."""
    attributes: dict[str, Any] = type(op).attributes_of(op)
    return attributes


# ---- updates that are combined ------------------------------------------------------


class Combining(Scatter, traits=[Pure]):
    """Base of scatters that combine by a `reduction` op, and its `ufunc` in NumPy."""

    if TYPE_CHECKING:
        reduction: type[Reduction]
        ufunc: np.ufunc
    dtypes = dt.NUMBERS

    @classmethod
    def ref(
        cls, x: np.ndarray, updates: np.ndarray, *indices: np.ndarray, **attributes: Any
    ) -> np.ndarray:
        """Return the result of the ufunc's `at`; half-precision floats in f32."""
        if not x.size:  # every update goes past the end
            return x.copy()
        at = IndexMap(**attributes)
        where, inside = numpy_index(x.shape, indices, at)
        chosen = np.broadcast_to(inside | (at.mode == "clip"), updates.shape)
        where = tuple(np.broadcast_to(part, updates.shape)[chosen] for part in where)
        y = x.astype(dt.to_numpy(accumulator(dt.canonical_dtype(x.dtype))))
        cls.ufunc.at(y, where, updates[chosen].astype(y.dtype))
        return y

    @classmethod
    def lower(
        cls, low: Lowering, op: Self, x: Value, updates: Value, *indices: Value
    ) -> Value:
        """Emit a scatter; see scatter_lowering.py."""
        kinds = [Tensor.of(value) for value in op.operands]
        if 0 in (element_count(kind.shape) for kind in kinds[:2]):
            return x
        to = Scattering(kinds[0], kinds[1], kinds[2], IndexMap.of(op), cls.reduction)
        return lower_scatter(low, to, x, updates, indices)


class ScatterAdd(Combining, name="scatter_add"):
    """y = x with `updates` added at `indices`; the adjoint of gather."""

    why = "the adjoint of gather; every update counts"

    reduction, ufunc = ReduceSum, np.add
    cascade = staticmethod(sum_of_own_updates)

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Tangent, du: Tangent, *_: Tangent) -> Value:
        """Return the tangent of x with those of updates added, as the op is linear."""
        dx = b.full_like(op.x, 0.0) if dx is None else dx
        if du is None:
            return dx
        return b.scatter_add(dx, du, *op.indices, **_maps(op))

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Tangent]:
        """Return dy for x, and dy gathered at the indices for the updates."""
        indices = op.indices
        return [dy, b.gather(dy, *indices, **_maps(op)), *(None for _ in indices)]


class ScatterMul(Combining, name="scatter_mul"):
    """y = x multiplied by `updates` at `indices`."""

    why = "every update counts; a derivative that is right at zeros"

    reduction, ufunc = ReduceProd, np.multiply

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Tangent, du: Tangent, *_: Tangent) -> Value:
        """Return dx times the factors, plus each factor's tangent times all others."""
        indices, maps = op.indices, _maps(op)
        dy = b.full_like(op.x, 0.0)
        if du is not None:
            terms = b.multiply(du, _other_factors(b, op))
            dy = b.multiply(op.x, b.scatter_add(dy, terms, *indices, **maps))
        if dx is not None:
            dy = b.add(dy, b.scatter_mul(dx, op.updates, *indices, **maps))
        return dy

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Tangent]:
        """Return dy times the factors; for updates, times x and all other factors."""
        indices, maps = op.indices, _maps(op)
        dx = b.scatter_mul(dy, op.updates, *indices, **maps)
        read = b.gather(b.multiply(dy, op.x), *indices, **maps)
        du = b.multiply(read, _other_factors(b, op))
        return [dx, du, *(None for _ in indices)]


def _other_factors(b: Builder, op: ScatterMul) -> Value:
    """Emit, for each update, the product of the others at its index."""
    indices, maps, updates = op.indices, _maps(op), op.updates
    zero, one = (b.full_like(updates, value) for value in (0.0, 1.0))
    none, ones = (b.full_like(op.x, value) for value in (0.0, 1.0))
    is_zero = b.compare(updates, zero, direction="eq")
    nonzero = b.select(is_zero, one, updates)
    product = b.scatter_mul(ones, nonzero, *indices, **maps)
    zeros = b.scatter_add(none, b.select(is_zero, one, zero), *indices, **maps)
    product, zeros = (b.gather(part, *indices, **maps) for part in (product, zeros))
    usual = b.select(
        b.compare(zeros, zero, direction="eq"), b.divide(product, nonzero), zero
    )
    alone = b.select(b.compare(zeros, one, direction="eq"), product, zero)
    return b.select(is_zero, alone, usual)


class Extremum(Combining, traits=[Pure]):
    """Base of scatters of an extreme. Ties, x among them, share the derivative."""

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Tangent, du: Tangent, *_: Tangent) -> Value:
        """Return the mean of the tangents of the extreme elements."""
        of_x, of_updates, share = _shares(b, op)
        dy = b.full_like(op.x, 0.0) if dx is None else b.multiply(of_x, dx)
        if du is not None:
            chosen = b.multiply(of_updates, du)
            dy = b.scatter_add(dy, chosen, *op.indices, **_maps(op))
        return b.multiply(dy, share)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Tangent]:
        """Return dy in equal shares to the extreme elements."""
        indices = op.indices
        of_x, of_updates, share = _shares(b, op)
        shared = b.multiply(dy, share)
        read = b.gather(shared, *indices, **_maps(op))
        chosen = [b.multiply(of_x, shared), b.multiply(of_updates, read)]
        return [*chosen, *(None for _ in indices)]


def _shares(b: Builder, op: Extremum) -> tuple[Value, Value, Value]:
    """Emit masks of extremes in x and in the updates, and 1 / their number per element.

    An update that is dropped may seem extreme; what goes to it or comes from it is
    dropped as well.
    """
    indices, maps = op.indices, _maps(op)
    ones, extreme = b.full_like(op.x, 1.0), b.gather(op.y, *indices, **maps)
    of_x = b.where_true(b.compare(op.x, op.y, direction="eq"), ones)
    chosen = b.compare(op.updates, extreme, direction="eq")
    of_updates = b.where_true(chosen, b.full_like(op.updates, 1.0))
    count = b.scatter_add(of_x, of_updates, *indices, **maps)
    return of_x, of_updates, b.divide(ones, count)


class ScatterMax(Extremum, name="scatter_max"):
    """y = the larger of x and the `updates` at `indices`; NaN if any is."""

    why = "every update counts; ties share the derivative"

    reduction, ufunc = ReduceMax, np.maximum


class ScatterMin(Extremum, name="scatter_min"):
    """y = the smaller of x and the `updates` at `indices`; NaN if any is."""

    why = "every update counts; ties share the derivative"

    reduction, ufunc = ReduceMin, np.minimum


# ---- updates that replace -----------------------------------------------------------


class ScatterSet(Scatter, name="scatter"):
    """y = x with `updates` in the place of what is at `indices`; of several the last.

    The last in row-major order of the indices, on every target.
    """

    selects = True
    why = "the last update wins, and alone gets the derivative"

    dtypes = dt.NAMES
    samples = [
        *Scatter.samples,
        _sample(
            (f32(2, 4, 3), f32(2, 1, 3), np.array([4], "i4")),
            (1,), (1,), (0, 2), "drop",
        ),
        _sample(
            (f32(3, 2, 4), f32(2), np.array(2, "i1"), np.array(-5, "i1")),
            (0, 2), (), (0,),
        ),
    ]  # fmt: skip

    @staticmethod
    def ref(
        x: np.ndarray, updates: np.ndarray, *indices: np.ndarray, **attributes: Any
    ) -> np.ndarray:
        """Return, in NumPy, the update with the highest number at each element."""
        at = IndexMap(**attributes)
        where, inside = numpy_index(x.shape, indices, at)
        numbers = np.arange(updates.size).reshape(updates.shape)
        if at.mode == "drop":
            numbers = np.where(inside, numbers, -1)
        last = np.full(x.shape, -1)
        if updates.size and x.size:
            np.maximum.at(last, where, numbers)
        y = x.copy()
        y[last >= 0] = updates.ravel()[last[last >= 0]]
        return y

    @staticmethod
    def jvp(
        b: Builder, op: "ScatterSet", dx: Tangent, du: Tangent, *_: Tangent
    ) -> Value:
        """Return the tangent of x with those of the updates written in."""
        dx = b.full_like(op.x, 0.0) if dx is None else dx
        du = b.full_like(op.updates, 0.0) if du is None else du
        return b.scatter(dx, du, *op.indices, **_maps(op))

    @staticmethod
    def vjp(b: Builder, op: "ScatterSet", dy: Value) -> list[Tangent]:
        """Return dy where x is kept, and dy for each update that is the last one."""
        indices, updates = op.indices, Tensor.of(op.updates)
        last = _LastUpdates(b, op)
        read = b.gather(dy, *indices, **_maps(op))
        du = b.where_true(last.stays(updates), read)
        dx = b.select(last.replaced_mask, b.full_like(dy, 0.0), dy)
        return [dx, du, *(None for _ in indices)]

    @staticmethod
    def decompose(b: Builder, op: "ScatterSet") -> Value:
        """Emit the number of the last update of each element, then its value.

        A single update is a window of x.
        """
        kinds = [Tensor.of(value) for value in (op.x, op.updates)]
        if 0 in (element_count(kind.shape) for kind in kinds):
            return op.x
        if is_single(op):
            return write_window(b, op)
        last = _LastUpdates(b, op)
        return b.select(last.replaced_mask, last.read(op.updates), op.x)


class _LastUpdates:
    """The last update of each element of x: the highest number, by a scatter_max.

    Updates are numbered without the batches, and places without the windows.
    """

    def __init__(self, b: Builder, op: "ScatterSet") -> None:
        """Emit the number of the last update of each element, -1 without one."""
        self.b, self.at, self.x = b, IndexMap.of(op), Tensor.of(op.x)
        self.indices = op.indices
        at = self.at
        self.rows = sorted([*map(at.source, at.shared_axes), *at.axes])
        self.numbers = self._numbers(Tensor.of(self.indices[0]))
        places = Tensor(tuple(self.x.shape[axis] for axis in self.rows), "i32")
        self.maps = {
            "axes": tuple(map(self.rows.index, at.axes)),
            "along": tuple(range(len(at.along))),
            "kept": tuple(map(at.along.index, at.shared_axes)),
        }
        self.last = b.scatter_max(
            b.full(places, -1), self.numbers, *self.indices, **self.maps, mode=at.mode
        )

    def _numbers(self, indices: Tensor) -> Value:
        """Emit the numbers of the updates of each batch, from 0 on."""
        own = [
            i for i, axis in enumerate(self.at.along) if axis not in self.at.shared_axes
        ]
        sizes = tuple(indices.shape[i] for i in own)
        line = self.b.iota(shape=(element_count(sizes),), axis=0, dtype="i32")
        numbers = self.b.reshape(line, shape=sizes)
        return self.b.broadcast(numbers, shape=indices.shape, axes=tuple(own))

    @property
    def replaced_mask(self) -> Value:
        """Emit the mask of elements of x that an update replaces."""
        zero = self.b.full_like(self.last, 0)
        found = self.b.compare(self.last, zero, direction="ge")
        return self.b.broadcast(found, shape=self.x.shape, axes=tuple(self.rows))

    def stays(self, updates: Tensor) -> Value:
        """Emit the mask of updates that are the last ones of their element.

        For updates that are dropped it may have any value.
        """
        last = self.b.gather(self.last, *self.indices, **self.maps, mode=self.at.mode)
        stays = self.b.compare(last, self.numbers, direction="eq")
        return self.b.broadcast(stays, shape=updates.shape, axes=self.at.along)

    def read(self, updates: Value) -> Value:
        """Emit the last update of each element, in the shape of x."""
        own = [axis for axis in self.at.along if axis not in self.at.shared_axes]
        order = (*own, *self.at.kept)
        sizes = [Tensor.of(updates).shape[axis] for axis in order]
        flat = self.b.reshape(
            self.b.transpose(updates, permutation=order),
            shape=(element_count(tuple(sizes[: len(own)])), *sizes[len(own) :]),
        )
        rows, kept = tuple(self.rows), tuple(self.at.others)
        return self.b.gather(
            flat, self.last, axes=(0,), along=rows, kept=kept, mode="drop"
        )
