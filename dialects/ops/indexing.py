"""Reading at positions that are only known when the model runs.

Note [index maps]: gather and the scatters describe with three attributes how the axes
of x, of the indices and of what is read (or written) belong together:

    read[r] = x[p]    p at axes[k] is indices[k][r at along],  p elsewhere is r at kept

There is one array of indices for each axis in `axes`, all of one type. `along` says
which axes of `read` the indices have, `kept` which of them x has. An axis in both is a
batch: every index reads from its own part of x. So np.take along axis 1 of a 3-D array
by a vector is axes (1), along (1), kept (0, 2), and np.take_along_axis is axes (1),
along (0, 1, 2), kept (0, 2). No index array that only counts is ever needed, and a
`batch` rule is one more entry in the maps.

Note [out of bounds]: IREE checks no index, so every lowering does. With mode "clip" an
index out of bounds stands for the nearest element; with "drop" it takes no part: it
reads zero and writes nothing. Negative indices are out of bounds; the frontends count
them from the end where NumPy does. An axis without elements has no nearest one: with
"clip" too every read is zero and every write is dropped. A static axis of size 0 is
refused; one of symbolic size is found empty only when the model runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Ints, Str
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import conversion
from aotc.dialects.lowering.reads import element_reader
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, this
from aotc.dialects.patterns.values import repeated_scalar
from aotc.dialects.rules.batching import add_leading_axes
from aotc.dialects.rules.checks import require_axes, require_dtype, require_equal
from aotc.dialects.rules.counters import counter_of
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Size, Tensor, bounds, element_count, format_shape
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir

if TYPE_CHECKING:
    from aotc.dialects.ops.scattering import Scatter

MODES = ("clip", "drop")


@dataclass(frozen=True)
class IndexMap:
    """The axis mapping of a gather or scatter; see Note [index maps]."""

    axes: tuple[int, ...]
    along: tuple[int, ...]
    kept: tuple[int, ...]
    mode: str

    @staticmethod
    def of(op: "Gather | Scatter") -> "IndexMap":
        """Return the index map in the attributes of a gather or scatter."""
        return IndexMap(op.axes, op.along, op.kept, op.mode)

    @property
    def rank(self) -> int:
        """The number of axes of `read` in Note [index maps], a gather's result."""
        return len({*self.along, *self.kept})

    @property
    def others(self) -> list[int]:
        """The axes of x that are not indexed, in the order of `kept`."""
        count = len(self.axes) + len(self.kept)
        return [axis for axis in range(count) if axis not in self.axes]

    @property
    def shared_axes(self) -> list[int]:
        """The axes of `read` that both x and the indices have."""
        return [axis for axis in self.kept if axis in self.along]

    @property
    def window(self) -> list[int]:
        """The axes of `read` that only x has."""
        return [axis for axis in self.kept if axis not in self.along]

    def source(self, axis: int) -> int:
        """Return the axis of x that becomes `axis` of `read`, one of `kept`."""
        return self.others[self.kept.index(axis)]

    def batch_attributes(self, *, x: bool, indices: bool) -> dict[str, Any]:
        """Return the attributes for x or the indices with a further axis in front."""
        along, kept = (tuple(n + 1 for n in part) for part in (self.along, self.kept))
        return {
            "axes": tuple(axis + x for axis in self.axes),
            "along": (0, *along) if indices else along,
            "kept": (0, *kept) if x else kept,
            "mode": self.mode,
        }


def read_type(x: Tensor, indices: Sequence[Tensor], index_map: IndexMap) -> Tensor:
    """Return the type of what indices read from x; raise InputError for a misfit."""
    require_axes(x, index_map.axes)
    if len(indices) != len(index_map.axes) or not indices:
        raise InputError(
            "bad-index",
            f"expected an array of indices for each of the axes {index_map.axes}; "
            f"got {len(indices)}",
        )
    require_dtype(indices[0], dt.INTEGERS)
    require_equal(*indices)
    _require_maps(x, indices[0], index_map)
    sizes = {r: x.shape[index_map.source(r)] for r in index_map.kept}
    for r, size in zip(index_map.along, indices[0].shape, strict=True):
        if sizes.setdefault(r, size) != size:
            raise InputError(
                "shape-mismatch",
                f"expected indices {format_shape(indices[0].shape)} to match {x} where "
                f"both have an axis; size {size} is not provably {sizes[r]}",
            )
    result = x.with_shape([sizes[r] for r in range(index_map.rank)])
    empty = any(x.shape[axis] == 0 for axis in index_map.axes)
    if empty and index_map.mode == "clip" and element_count(result.shape) != 0:
        raise InputError(
            "bad-index",
            f"axes {index_map.axes} of {x} have no element to read or write",
        )
    return result


def _require_maps(x: Tensor, indices: Tensor, index_map: IndexMap) -> None:
    """Raise InputError for axis maps or a mode that do not fit the operands."""
    if index_map.mode not in MODES:
        raise InputError(
            "bad-attribute",
            f"expected a mode out of {', '.join(MODES)}; got {index_map.mode!r}",
        )
    rising = all(
        sorted(set(part)) == list(part) for part in (index_map.along, index_map.kept)
    )
    dense = {*index_map.along, *index_map.kept} == set(range(index_map.rank))
    counts = (len(index_map.along), len(index_map.kept)) == (
        indices.rank,
        x.rank - len(index_map.axes),
    )
    if not (rising and dense and counts):
        raise InputError(
            "bad-axis",
            f"expected rising axes of the result for the {indices.rank} axes of the "
            f"indices and the {x.rank - len(index_map.axes)} other axes of x; "
            f"got along={index_map.along}, kept={index_map.kept}",
        )


# ---- in NumPy -----------------------------------------------------------------------


def numpy_index(
    shape: tuple[int, ...], indices: Sequence[np.ndarray], index_map: IndexMap
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return NumPy index arrays, one for each axis of x, and a mask of those inside.

    The positions are in range and broadcast to what is read.
    """
    positions = [
        _align(np.arange(shape[axis]), (r,), index_map.rank)
        for axis, r in zip(index_map.others, index_map.kept, strict=True)
    ]
    inside = np.array(True)
    for axis, numbers in zip(index_map.axes, indices, strict=True):
        wanted = _align(numbers, index_map.along, index_map.rank)
        inside = inside & (wanted >= 0) & (wanted < shape[axis])
        nearest = np.clip(wanted, 0, max(shape[axis] - 1, 0)).astype(np.int64)
        positions.insert(axis, nearest)
    return tuple(positions), inside


def _align(array: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
    """Return `array` reshaped to `rank`, its axes at `axes`, to be broadcast."""
    shape = [1] * rank
    for axis, size in zip(axes, np.shape(array), strict=True):
        shape[axis] = size
    return np.reshape(array, shape)


# ---- in padded tensors --------------------------------------------------------------


def within_call(
    p: BucketPadding, exact: Tensor, indices: Sequence[Value], index_map: IndexMap
) -> list[Value]:
    """Emit indices into a padded tensor that select what they would in the call's.

    Args:
        p: the padding.
        exact: the type of what is indexed in the call.
        indices: for each axis that is indexed.
        index_map: how, and what becomes of those out of bounds.
    """
    b, (kind, wide) = p.b, wide_indices(p.b, indices)
    found = []
    for number, axis in zip(wide, index_map.axes, strict=True):
        size = exact.shape[axis]
        if p.is_padded(size):
            end = b.number(kind, size)
            beyond = b.compare(number, end, direction="ge")
            last = b.subtract(end, b.full(kind, 1))
            outside = b.number(kind, p.shape((size,))[0])
            number = b.select(
                beyond, last if index_map.mode == "clip" else outside, number
            )
        found.append(number)
    return found


def wide_indices(b: Builder, indices: Sequence[Value]) -> tuple[Tensor, list[Value]]:
    """Return the type of indices and these, cast to i32 if they are narrower."""
    kind = Tensor.of(indices[0])
    if dt.bits(kind.dtype) >= 32:
        return kind, list(indices)
    return kind.with_dtype("i32"), [b.cast(each, dtype="i32") for each in indices]


# ---- in linalg ----------------------------------------------------------------------


def in_range(
    low: Lowering, number: Value, size: Size, *, signed: bool = True
) -> tuple[Value, Value]:
    """Emit, in a body, a position clamped to an axis, and whether it was inside."""
    count, last = low.size(size), low.size(size - 1)
    if not isinstance(size, int):
        last = arith.maxsi(last, low.index(0))
    if not isinstance(number.type, ir.IndexType):
        count, last = (arith.index_cast(number.type, n) for n in (count, last))
    inside = arith.cmpi(arith.CmpIPredicate.ult, number, count)
    if not signed:
        return arith.minui(number, last), inside
    zero = arith.ConstantOp(number.type, 0).result
    return arith.maxsi(arith.minsi(number, last), zero), inside


def checked_index(
    low: Lowering, number: Value, dtype: str, size: Size
) -> tuple[Value, Value]:
    """Emit an integer clamped to an index of an axis, and whether it was inside.

    It is compared as an integer: index values may have 32 bits, and VMVX casts an
    unsigned i8 to an index by its sign.
    """
    if dt.bits(dtype) < 32:
        number, dtype = conversion(dtype, "i32")(number), "i32"
    nearest, inside = in_range(low, number, size, signed=dtype in dt.SIGNED)
    return arith.index_cast(ir.IndexType.get(), nearest), inside


def checked_indices(
    low: Lowering,
    x: Tensor,
    indices: Tensor,
    index_map: IndexMap,
    numbers: Sequence[Value],
) -> tuple[list[Value], Value]:
    """Emit, in a body, the clamped index of each axis, and whether all were inside."""
    found = [
        checked_index(low, number, indices.dtype, x.shape[axis])
        for number, axis in zip(numbers, index_map.axes, strict=True)
    ]
    inside = found[0][1]
    for _, each in found[1:]:
        inside = arith.andi(inside, each)
    return [place for place, _ in found], inside


# ---- the op -------------------------------------------------------------------------


class Gather(GraphOp, name="gather", traits=[Pure]):
    """y = x at `indices` along `axes`; see Note [index maps].

    With mode "clip" an index out of bounds reads the nearest element, with "drop" zero.
    """

    selects = True
    why = "reads at positions that the model computes, never out of bounds"

    x: Operand[Any]
    indices: Sequence[Operand[Any]]
    axes: Ints
    along: Ints
    kept: Ints
    mode: Str
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, *indices: Tensor, **attributes: Any) -> Tensor:
        """Return the result type: axes of the indices, and axes of x not indexed."""
        return read_type(x, indices, IndexMap(**attributes))

    @staticmethod
    def ref(x: np.ndarray, *indices: np.ndarray, **attributes: Any) -> np.ndarray:
        """Return the elements in NumPy, by indices in range."""
        at = IndexMap(**attributes)
        where, inside = numpy_index(x.shape, indices, at)
        if not x.size:  # every index is past the end
            return np.zeros(np.broadcast_shapes(*map(np.shape, where)), x.dtype)
        y = x[where]
        return y if at.mode == "clip" else np.where(inside, y, np.zeros((), x.dtype))

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Tangent, *_: Tangent) -> Tangent:
        """Return the gathered tangent, as the op is linear in x."""
        if dx is None:
            return None
        return b.gather(dx, *op.indices, **cls.attributes_of(op))

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Tangent]:
        """Return dy scatter-added at the indices that were read."""
        indices, zeros = op.indices, b.full_like(op.x, 0.0)
        dx = b.scatter_add(zeros, dy, *indices, **cls.attributes_of(op))
        return [dx, *(None for _ in indices)]

    @staticmethod
    def batch(
        b: Builder,
        op: "Gather",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> Value:
        """Emit the op with an axis added to the map of each batched operand."""
        x, *indices = operands
        in_x, *in_indices = batched
        if any(in_indices):
            indices = add_leading_axes(b, indices, in_indices, size)
        maps = IndexMap.of(op).batch_attributes(x=in_x, indices=any(in_indices))
        return b.gather(x, *indices, **maps)

    @staticmethod
    def pad(p: BucketPadding, op: "Gather", operands: Sequence[Value]) -> Any:
        """Emit a read of the call's elements only; of an empty axis zeros."""
        (x, *indices), exact, b = operands, Tensor.of(op.x), p.b
        indexed = p.axes(exact, op.axes)
        if not indexed:
            return p.build(op, operands)
        y = p.build(op, [x, *within_call(p, exact, indices, IndexMap.of(op))])
        empty = [n for n in indexed if bounds(exact.shape[n])[0] < 1]
        for axis in empty if op.mode == "clip" else ():
            count = b.number(Tensor((), "i64"), exact.shape[axis])
            some = b.compare(count, b.full_like(count, 0), direction="gt")
            some = b.broadcast(some, shape=Tensor.of(y).shape, axes=())
            y = b.select(some, y, b.full_like(y, 0))
        return y

    @staticmethod
    def lower(low: Lowering, op: "Gather", x: Value, *indices: Value) -> Value:
        """Emit a linalg.generic over the result that extracts from x.

        It reads the indices as inputs, so that what computes them fuses into it.
        """
        source, result, at = Tensor.of(op.x), Tensor.of(op.y), IndexMap.of(op)
        if element_count(source.shape) == 0:
            return low.full(result, 0)
        extract = element_reader(low, x, source)
        read = ir.AffineMap.get(
            result.rank, 0, [ir.AffineDimExpr.get(axis) for axis in at.along]
        )

        def body(*elements: Value) -> Value:
            kind = Tensor.of(op.indices[0])
            found, inside = checked_indices(low, source, kind, at, elements[:-1])
            where = dict(zip(at.axes, found, strict=True))
            for axis, r in zip(at.others, at.kept, strict=True):
                where[axis] = low.loop_index(r)
            element = extract([where[axis] for axis in range(source.rank)])
            if at.mode == "clip":
                return element
            return arith.select(inside, element, low.scalar(source.dtype, 0))

        maps = [read] * len(indices) + [ir.AffineMap.get_identity(result.rank)]
        loops = ["parallel"] * result.rank
        return low.generic(indices, maps, low.empty(result), loops, body)

    simplify = (
        RewriteRow(
            "of equal elements, copies",
            this(X),
            lambda b, m: _broadcast_equal_elements(b, m.op),
            given=(f32(3), i32(4)),
            example=lambda b, x, i: _gather_from_vector(b, b.full_like(x, 2.0), i),
            near_miss=lambda b, x, i: _gather_from_vector(b, x, i),
            where=lambda m: m.op.mode == "clip" and 0 not in Tensor.of(m.x).shape,
        ),
        RewriteRow(
            "at positions that count from 0, what is only moved",
            this(X),
            lambda b, m: _read_in_order(b, m.op),
            given=(f32(3), i32(3)),
            example=lambda b, x, i: _gather_from_vector(
                b, x, b.iota(shape=(3,), axis=0, dtype="i32")
            ),
            near_miss=lambda b, x, i: _gather_from_vector(b, x, i),
        ),
    )

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether x is not negative; reads out of bounds give 0."""
        return is_known(op.x)

    samples = [
        OpSample(
            (f32(5, 3), np.array([0, 4, 4, -3, 9], "i4")),
            {"axes": (0,), "along": (0,), "kept": (1,), "mode": "clip"},
        ),
        OpSample(
            (f32(2, 4, 3), np.array([[1, 0], [-1, 9]], "i8")),
            {"axes": (1,), "along": (1, 2), "kept": (0, 3), "mode": "drop"},
        ),
        OpSample(
            (f32(3, 4), np.array([[0, 3], [2, 2], [1, 7]], "u1")),
            {"axes": (1,), "along": (0, 1), "kept": (0,), "mode": "clip"},
        ),
        OpSample(
            (f32(3, 2, 4), np.array([2, 0, 7], "i1"), np.array([-1, 3, 2], "i1")),
            {"axes": (0, 2), "along": (0,), "kept": (1,), "mode": "drop"},
        ),
        OpSample(
            (f32("n", 3), i32("m", "n")),
            {"axes": (1,), "along": (0, 1), "kept": (1,), "mode": "clip"},
        ),
        OpSample(
            (f32("n", 3), i32("m")),
            {"axes": (0,), "along": (0,), "kept": (1,), "mode": "clip"},
        ),
        OpSample(
            (f32(4), np.array(2**63 + 1, "u8")),
            {"axes": (0,), "along": (), "kept": (), "mode": "clip"},
        ),
        OpSample(
            (f32(0, 2), np.array([1, 0], "i4")),
            {"axes": (0,), "along": (0,), "kept": (1,), "mode": "drop"},
        ),
    ]


def _gather_from_vector(b: Builder, x: Value, i: Value) -> Value:
    """Emit the elements of a vector at some indices, for examples."""
    return b.gather(x, i, axes=(0,), along=(0,), kept=(), mode="clip")


def _broadcast_equal_elements(b: Builder, op: Gather) -> Value | None:
    """Emit a broadcast in the place of a gather from equal elements, else None."""
    scalar = repeated_scalar(b, op.x)
    if scalar is None:
        return None
    return b.broadcast(scalar, shape=Tensor.of(op.y).shape, axes=())


def _read_in_order(b: Builder, op: Gather) -> Value | None:
    """Emit a slice in the place of a gather at 0, 1, 2, … along axes, else None."""
    at, source = IndexMap.of(op), Tensor.of(op.x)
    sizes = list(source.shape)
    goes_to = dict(zip(at.others, at.kept, strict=True))
    for axis, index in zip(at.axes, op.indices, strict=True):
        counter = counter_of(index)
        if counter is None or bounds(source.shape[axis] - counter.limit)[0] < 0:
            return None
        sizes[axis] = Tensor.of(index).shape[counter.axis]
        goes_to[axis] = at.along[counter.axis]
    if len({*goes_to.values()}) < source.rank:  # a diagonal
        return None
    part = b.cut_to(op.x, tuple(sizes))
    axes = [goes_to[axis] for axis in range(source.rank)]
    return b.spread(part, Tensor.of(op.y).shape, axes)
