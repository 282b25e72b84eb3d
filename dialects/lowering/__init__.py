"""The builder that `lower` rules use: linalg on tensors, sizes as index values.

A `Lowering` belongs to one function. Lowered values are tensors without encodings and
with signless integers; their symbolic type travels beside them, in the graph op. Sizes
are affine expressions over symbols, and the function's inputs say what each symbol is.
"""

import math as pymath
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from aotc.core import dtypes
from aotc.dialects import iree_text
from aotc.dialects.attributes import DenseElements
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.conversion import conversion
from aotc.dialects.lowering.iterators import iterator_types
from aotc.dialects.lowering.scalars import Body, constant_of
from aotc.dialects.lowering.slices import element_position, element_slice
from aotc.dialects.lowering.sources import filled_with, needs_memory
from aotc.dialects.lowering.variation import Variation
from aotc.dialects.movement.permutations import permute
from aotc.dialects.movement.reshaping import reshape_groups
from aotc.dialects.sizes import affine
from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    Tensor,
    lowered_element,
    lowered_type,
)
from aotc.mlir import (
    AffineExpr,
    AffineMap,
    Block,
    Operation,
    Type,
    Value,
    arith,
    ir,
    linalg,
    tensor,
)

T = TypeVar("T")

LowerRule = Callable[..., Value]


class Lowering:
    """Emits linalg on tensors at the insertion point, for one function.

    Args:
        symbols: the index value of every symbol of the function.
        in_place: results of ops that may write over their first operand.
        on_gpu: whether threads of a GPU share reductions.
    """

    def __init__(
        self,
        symbols: list[Value],
        in_place: Collection[Value] = (),
        *,
        on_gpu: bool = False,
    ) -> None:
        self.symbols = symbols
        self.in_place = in_place
        self.on_gpu = on_gpu
        self._variation = Variation()
        self._known: dict[Value, bool] = {}
        self._written: dict[Block, dict[Hashable, Any]] = {}

    def once(self, key: Hashable, write: Callable[[], T]) -> T:
        """Return what `write` emits, called once per block for each key.

        It moves on to the end of the block only, so what is written is there for all
        that follows. (`cse` would find equal ops to be one; making them takes longer.)

        Args:
            key: what is written.
            write: writes it, and returns it.
        """
        written = self._written.setdefault(ir.InsertionPoint.current.block, {})
        if key not in written:
            written[key] = write()
        found: T = written[key]
        return found

    # ---- sizes and scalars ----------------------------------------------------------

    def index(self, value: int) -> Value:
        """Emit a constant of type index."""
        return constant_of(ir.IntegerAttr.get(ir.IndexType.get(), value))

    def size(self, size: Size) -> Value:
        """Emit a size, which may be symbolic, as an index value."""
        if isinstance(size, int):
            return self.index(size)
        return self.once(size, lambda: self._index_of(size.expr))

    def _index_of(self, expr: AffineExpr) -> Value:
        """Emit an affine expression as affine.apply, and arith for its min or max.

        See Note [multiples less a number] for differences.
        """
        whole = _map_of(expr)
        if whole is not None:
            return apply_map(whole, self.symbols[: whole.n_symbols])
        found = affine.extremum(expr)
        if found is not None:
            kind, *both = found
            return _EXTREMA[kind](*map(self._index_of, both))
        added, taken = affine.as_difference(expr)
        if not affine.is_number(taken) or taken.value != 0:
            return arith.subi(self._index_of(added), self._index_of(taken))
        pair = [ir.AffineSymbolExpr.get(0), ir.AffineSymbolExpr.get(1)]
        assert isinstance(expr, ir.AffineBinaryExpr)
        operation: Any = type(expr)
        node = ir.AffineMap.get(0, 2, [operation.get(*pair)])
        sides = [expr.lhs.maybe_downcast(), expr.rhs.maybe_downcast()]
        return apply_map(node, list(map(self._index_of, sides)))

    def dynamic_sizes(self, shape: Shape) -> list[Value]:
        """Emit the symbolic sizes of `shape` as index values."""
        return [self.size(size) for size in shape if isinstance(size, SymbolicDim)]

    def scalar(self, dtype: str, value: float | int | bool) -> Value:
        """Emit a scalar constant of element type `dtype`."""
        element = lowered_element(dtype)
        attr = (
            ir.FloatAttr.get(element, float(value))
            if dtypes.is_float(dtype)
            else ir.IntegerAttr.get(element, _as_signed(dtype, int(value)))
        )
        return constant_of(attr)

    def constant(self, array: np.ndarray, dtype: str) -> Value:
        """Emit a dense constant tensor."""
        if dtype in dtypes.UNSIGNED:
            array = np.asarray(array).view(dtypes.to_numpy("i" + dtype[1:]))
        return constant_of(DenseElements.encode(array))

    def number(self, x: Value) -> Value:
        """Emit the extraction of the one element of a tensor of rank 0."""
        return tensor.extract(x, [])

    def from_number(self, element: Value) -> Value:
        """Emit a tensor of rank 0 with this element."""
        whole = ir.RankedTensorType.get([], element.type)
        return tensor.from_elements(whole, [element])

    def lowered_type(self, kind: Tensor) -> Type:
        """Return the MLIR type of a lowered value of graph type `kind`."""
        return lowered_type(kind)

    # ---- tensors --------------------------------------------------------------------

    def empty(self, of: Tensor) -> Value:
        """Emit a tensor of type `of` with undefined elements."""
        made: Value = ir.Operation.create(
            "tensor.empty",
            results=[lowered_type(of)],
            operands=self.dynamic_sizes(of.shape),
        ).result
        return made

    def full(self, of: Tensor, value: Value | float) -> Value:
        """Emit a tensor of type `of` with every element `value`, a scalar or number."""
        if isinstance(value, (bool, int, float)):
            value = self.scalar(of.dtype, value)
        init = self.empty(of)
        # The bindings' own function interprets the definition of the op at every call.
        op = _structured_op("linalg.fill", [value], init, {})
        linalg.fill_builtin_region(op)
        return op.results[0]

    def matmul(
        self, lhs: Value, rhs: Value, init: Value, cast: object | None = None
    ) -> Value:
        """Emit a `linalg.matmul` that accumulates into `init`.

        Its maps are those of a product of rows and columns. IREE dies of an op that
        leaves them out, and only the parser of text adds them.

        Args:
            lhs: (m, k).
            rhs: (k, n).
            init: (m, n).
            cast: how narrower factors are widened, of `linalg.TypeFn`; None: signed.
        """
        m, n, k = (ir.AffineDimExpr.get(each) for each in range(3))
        maps = [AffineMap.get(3, 0, axes) for axes in ([m, k], [k, n], [m, n])]
        made: Value = linalg.matmul(
            lhs,
            rhs,
            outs=[init],
            indexing_maps=maps,
            cast=cast,
        )
        return made

    def generic(
        self,
        inputs: Sequence[Value],
        maps: Sequence[AffineMap],
        init: Value,
        iterators: Sequence[str],
        body: Body,
    ) -> Value:
        """Emit a `linalg.generic` with one result.

        Args:
            inputs: tensors read.
            maps: one indexing map per input, and one for the result.
            init: the tensor that the result starts from.
            iterators: `parallel` or `reduction` per loop.
            body: gets the input elements and the accumulator, returns the new element.
        """
        if "reduction" in iterators:
            inputs = self._reducible(inputs, maps, iterators)
        attributes: dict[str, ir.Attribute] = {
            "indexing_maps": _maps_attribute(tuple(maps)),
            "iterator_types": iterator_types(iterators),
        }
        op = _structured_op("linalg.generic", inputs, init, attributes)
        elements = [value.type.element_type for value in [*inputs, init]]
        block = op.regions[0].blocks.append(*elements)
        with ir.InsertionPoint(block):
            ir.Operation.create("linalg.yield", operands=[body(*block.arguments)])
        return op.results[0]

    def _reducible(
        self,
        inputs: Sequence[Value],
        maps: Sequence[AffineMap],
        iterators: Sequence[str],
    ) -> list[Value]:
        """Return inputs of which one at least varies along each reduction loop."""
        inputs = list(inputs)
        for loop, kind in enumerate(iterators):
            if kind == "reduction":
                along = [
                    number
                    for number in range(len(inputs))
                    if ir.AffineDimExpr.get(loop) in maps[number].results
                ]
                answers = (self._variation.varies(inputs[n]) for n in reversed(along))
                if along and not any(answers):
                    inputs[along[0]] = self.vary(inputs[along[0]])
        return inputs

    def vary(self, x: Value) -> Value:
        """Emit `x` so that IREE cannot fold it to one repeated number.

        See Note [sums of what does not vary].
        """
        return self._variation.vary(x)

    def vary_one(self, lhs: Value, rhs: Value) -> tuple[Value, Value]:
        """Return both factors of a product, one made to vary if neither does."""
        # The right one is asked first: it often is an argument, the left one computed.
        either = self._variation.varies(rhs) or self._variation.varies(lhs)
        return lhs, rhs if either else self.vary(rhs)

    def pointwise(self, inputs: Sequence[Value], result: Tensor, body: Body) -> Value:
        """Emit an elementwise op of type `result`; `body` gets an element per input."""
        identity = ir.AffineMap.get_identity(result.rank)
        return self.generic(
            inputs,
            [identity] * (len(inputs) + 1),
            self.empty(result),
            ["parallel"] * result.rank,
            lambda *elements: body(*elements[:-1]),
        )

    def convert(self, x: Value, source: Tensor, dtype: str) -> Value:
        """Emit a cast of `x` to `dtype`; return `x` itself if it has that dtype."""
        if source.dtype == dtype:
            return x
        body = conversion(source.dtype, dtype)
        return self.pointwise([x], source.with_dtype(dtype), body)

    def reduce(
        self,
        x: Value,
        result: Tensor,
        axes: Sequence[int],
        start: Value | float,
        body: Body,
    ) -> Value:
        """Emit a reduction of `axes` by `body(total, element)`, from `start`.

        Args:
            x: the tensor.
            result: the type of the result.
            axes: those that disappear.
            start: an element or a Python number.
            body: returns the new total.
        """
        rank = x.type.rank
        loops = [ir.AffineDimExpr.get(axis) for axis in range(rank)]
        kept = [loops[axis] for axis in range(rank) if axis not in axes]
        return self.generic(
            [x],
            [ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, kept)],
            self.full(result, start),
            ["reduction" if axis in axes else "parallel" for axis in range(rank)],
            lambda element, total: body(total, element),
        )

    def generate(self, result: Tensor, body: Callable[[list[Value]], Value]) -> Value:
        """Emit a tensor of type `result`; `body` computes elements from indices."""
        return self.generic(
            [],
            [ir.AffineMap.get_identity(result.rank)],
            self.empty(result),
            ["parallel"] * result.rank,
            lambda _: body([self.loop_index(axis) for axis in range(result.rank)]),
        )

    def materialize(self, x: Value) -> Value:
        """Return `x`, behind a barrier that stores it if IREE could not index it.

        To index is to read by position or in steps. See Notes [reads with gaps] and
        [widened reads]; `extract` is for nothing else.
        """
        is_needed = needs_memory(x, self._known, on_gpu=self.on_gpu)
        return iree_text.optimization_barrier(x) if is_needed else x

    def loop_index(self, axis: int) -> Value:
        """Emit the index of loop `axis` inside a body."""
        return linalg.IndexOp(ir.IntegerAttr.get(_i64(), axis)).result

    def extract(self, source: Value, indices: Sequence[Value]) -> Value:
        """Emit, in a body, a read of one element without bounds checks.

        The source is no strided view.
        """
        return tensor.extract(source, list(indices))

    def clamp_index(self, index: Value, last: Size) -> Value:
        """Emit an index clamped to 0 … last; 0 if `last` is negative."""
        return arith.maxsi(arith.minsi(index, self.size(last)), self.index(0))

    def slice(
        self, source: Value, result: Tensor, start: Shape, strides: Sequence[int]
    ) -> Value:
        """Emit `source[start::strides]`, cut to the shape of `result`."""
        dynamic = ir.ShapedType.get_dynamic_size()
        return tensor.extract_slice(
            lowered_type(result),
            source,
            self.dynamic_sizes(start),
            self.dynamic_sizes(result.shape),
            [],
            [first if isinstance(first, int) else dynamic for first in start],
            lowered_type(result).shape,
            list(strides),
        )

    def element(self, source: Value, source_type: Tensor, index: Value) -> Value:
        """Emit `source[index]`: the slice at an index of the leading axis.

        See Note [parts of fills].
        """
        result = source_type.with_shape(source_type.shape[1:])
        if 0 in result.shape:  # offset 0 of such an axis is out of bounds to MLIR
            return self.empty(result)
        if (scalar := filled_with(source)) is not None:
            return self.full(result, scalar)
        sizes = lowered_type(result).shape
        return tensor.extract_slice(
            lowered_type(result),
            source,
            [index],
            self.dynamic_sizes(result.shape),
            [],
            [_DYNAMIC, *[0] * result.rank],
            [1, *sizes],
            [1] * (result.rank + 1),
        )

    def element_copy(self, x: Value, of: Tensor) -> Value:
        """Emit a copy of `x` if it is a view of a one-element slice, else return `x`.

        See Note [slices of one element].
        """
        slice_op = element_slice(x)
        if slice_op is None:
            return x
        source = self.materialize(slice_op.operands[0])
        at = element_position(slice_op)
        return self.generate(of, lambda _: self.extract(source, at))

    def pad(
        self,
        source: Value,
        result: Tensor,
        low: Sequence[Size],
        high: Sequence[Size],
        value: Value | float,
    ) -> Value:
        """Emit `source` padded by `low` and `high` elements `value` on each axis."""
        if all(size == 0 for size in (*low, *high)):
            return source
        if isinstance(value, (bool, int, float)):
            value = self.scalar(result.dtype, value)
        dynamic = ir.ShapedType.get_dynamic_size()
        op = tensor.PadOp(
            lowered_type(result),
            source,
            self.dynamic_sizes(tuple(low)),
            self.dynamic_sizes(tuple(high)),
            [size if isinstance(size, int) else dynamic for size in low],
            [size if isinstance(size, int) else dynamic for size in high],
        )
        block = op.regions[0].blocks.append(*[ir.IndexType.get()] * result.rank)
        with ir.InsertionPoint(block):
            tensor.YieldOp(value)
        return op.result

    def reshape(self, source: Value, old: Tensor, new: Tensor) -> Value:
        """Emit a reshape: a tensor.collapse_shape, then a tensor.expand_shape."""
        if old.rank < new.rank and element_slice(source) is not None:
            return self.element_copy(source, new)
        groups = reshape_groups(old.shape, new.shape)
        merged = (permute(old.shape, axes) for axes, _ in groups)
        middle = old.with_shape([pymath.prod(sizes) for sizes in merged])
        value = source
        if middle.rank != old.rank:
            value = tensor.collapse_shape(
                lowered_type(middle), value, [list(axes) for axes, _ in groups]
            )
        if middle.rank != new.rank:
            value = tensor.expand_shape(
                lowered_type(new),
                value,
                [list(axes) for _, axes in groups],
                self.dynamic_sizes(new.shape),
                lowered_type(new).shape,
            )
        return value


_DYNAMIC = -(2**63)  # MLIR's mark for an offset or size that is given as a value


def _structured_op(
    name: str,
    inputs: Sequence[Value],
    init: Value,
    attributes: dict[str, ir.Attribute],
) -> Operation:
    """Emit a linalg op with one result and an empty region."""
    segments = ir.DenseI32ArrayAttr.get([len(inputs), 1])
    made: Operation = ir.Operation.create(
        name,
        results=[init.type],
        operands=[*inputs, init],
        attributes={**attributes, "operandSegmentSizes": segments},
        regions=1,
    )
    return made


@lru_cache(maxsize=2**14)
def _maps_attribute(maps: tuple[AffineMap, ...]) -> ir.ArrayAttr:
    """Return the attribute that holds indexing maps."""
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])


_EXTREMA = {"max": arith.maxsi, "min": arith.minsi}


def apply_map(affine_map: AffineMap, symbols: Sequence[Value]) -> Value:
    """Emit an affine.apply of a map to index values."""
    made: Value = ir.Operation.create(
        "affine.apply",
        results=[ir.IndexType.get()],
        operands=list(symbols),
        attributes={"map": ir.AffineMapAttr.get(affine_map)},
    ).result
    return made


@lru_cache(maxsize=2**14)
def _map_of(expr: AffineExpr) -> AffineMap | None:
    """Return an expression as an affine map of symbols; None if it has a minimum or
    maximum, or IREE would be wrong about it.
    """
    if affine.has_extremum(expr) or affine.is_misjudged(expr):
        return None
    return ir.AffineMap.get(0, affine.symbol_count([expr]), [expr])


def _i64() -> ir.IntegerType:
    """Return the MLIR type i64."""
    return ir.IntegerType.get_signless(64)


def _as_signed(dtype: str, value: int) -> int:
    """Return the signed integer with the bits of an unsigned one."""
    if dtype in dtypes.UNSIGNED and value >= 1 << (dtypes.bits(dtype) - 1):
        return value - (1 << dtypes.bits(dtype))
    return value


def by_kind(**ops: Body) -> LowerRule:
    """Return an elementwise `lower` rule, with a scalar body per kind of dtype.

    Args:
        ops: `f` float, `i` signed, `u` unsigned, `b` bool, `f64` where it differs; each
            maps operand elements to the result element.
    """

    def lower(low: Lowering, op: GraphOp, *operands: Value) -> Value:
        dtype = Tensor.of(op.operands[0]).dtype
        kind = "b" if dtype == "bool" else {"u": "u", "i": "i"}.get(dtype[0], "f")
        body = ops.get(dtype) or ops[kind]
        return low.pointwise(operands, Tensor.of(op.results[0]), body)

    return staticmethod(lower)
