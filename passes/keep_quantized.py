"""Keep weights that are dequantised as integers, with the scale of each block.

    %1 = graph.cast(graph.subtract(%q, %z))
    %2 = graph.multiply(%1, repeated %s)    →    %2 = graph.dequantize(%q, %s, %z * %s)
    %3 = graph.dot_general(%x, %2)               %3 = graph.dot_general(%x, %2)

where weights decide %q, integers of at most 8 bits, and %s, %z and what may be added
are the same in each block along the axis that is summed up; one block may be all of it.
Of a matrix, blocks may be along the other axis, as where a gradient goes back through a
product.
The scale may be 1, of a product that is scaled afterwards. So kernels can make floats
of integers as they read them, and nothing else is stored. A zero point that is one
known number is subtracted when the model is built. How many bits integers have is found
from the ops that make them: `clip`, `&`, `>>`. Scales, and what is added, may be such
products in turn, of bytes and a scale for some blocks: `graph.dequantize` of their own.

    graph.gather(graph.dequantize(%q, %s), %i)
        →  graph.dequantize(graph.gather(%q, %i), graph.gather(%s, %i))

Rows of a table are dequantised after they are read, and integers of fewer than 8 bits
are stored as that: ops of the graph bring those of some rows apart. (Where products
read the table, too, `gather-packed` lets lookups read what is packed for them.) Where
the rows of a weight are reordered (as by GPTQ's act-order), what they are multiplied by
is put in their order instead.

Ensures: of each such weight, one op.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np

from aotc.core.dtypes import INTEGERS, to_numpy
from aotc.dialects.builder import Builder
from aotc.dialects.functions.entries import entries_of
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.ops.binary import Add, Multiply, Subtract
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.indexing import Gather, IndexMap
from aotc.dialects.ops.quantization import BYTES, SCALES, Dequantize
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.ops.unary import Negate
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Tensor
from aotc.kernels.bit_planes import bits_for, in_planes, pack_rows, unpack_rows
from aotc.kernels.planning.dequantized import COLUMNS_OF_BLOCKS
from aotc.kernels.scopes import scopes_of
from aotc.kernels.transposes import without_transposes
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED
from aotc.passes.quantized.blocks import (
    first_of_blocks,
    run_length,
    value_before_movement,
)
from aotc.passes.quantized.ranges import keeps_values, may_wrap, value_range


class KeepQuantized(Pass):
    """Replace ops that dequantise a weight by one `graph.dequantize`, which kernels can
    fuse.
    """

    name = "keep-quantized"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Run the pass on entries and their loop bodies; return whether anything
        changed.
        """
        functions = functions_of(unit.module)
        scopes: dict[str, set[Value]] = {}
        for entry in entries_of(unit.module):
            scopes.update(scopes_of(functions, entry.name))
        found = [_keep_in(functions[name], weights) for name, weights in scopes.items()]
        return any(found)


def _keep_in(function: Function, weights: set[Value]) -> bool:
    """Rewrite dequantised weights that a function's ops read; return whether anything
    changed.
    """
    changed = False
    for op in [*function.entry_block.operations]:
        if isinstance(op, DotGeneral):
            product, op = op, _in_stored_order(op, weights)
            changed |= op is not product
        read = _table_of(op)
        if read is not None and op.results[0] not in weights:
            value, axis = read
            changed |= value in weights and _keep(op, value, axis)
        if isinstance(op, Gather):
            changed |= _dequantize_rows(op)
        elif isinstance(op, DotGeneral) and _is_turned(op):
            without_transposes(op)
            changed = True
    return changed


def _table_of(op: Operation) -> tuple[Value, int] | None:
    """Return what a gather or product reads as a table, and its axis of blocks; or
    None.
    """
    if isinstance(op, Gather):
        return op.x, Tensor.of(op.x).rank - 1
    if not isinstance(op, DotGeneral) or op.rhs_batch or len(op.rhs_contract) != 1:
        return None
    value, (axis,) = op.rhs, op.rhs_contract
    while (turned := made_by(value, Transpose)) is not None:
        value, axis = turned.x, turned.permutation[axis]
    return value, axis


def _in_stored_order(op: DotGeneral, weights: set[Value]) -> DotGeneral:
    """Return a product by reordered weight rows, rewritten to permute the left operand.

    What a row of the matrix is multiplied by is added up at its place; the order may
    be any. Other products are returned as they are.
    """
    found = _table_of(op)
    ordered = None if found is None else made_by(found[0], Gather)
    if found is None or ordered is None or op.rhs not in weights or op.lhs_batch:
        return op
    axis, at = found[1], IndexMap.of(ordered)
    is_of_rows = at.axes == at.along == (axis,) and at.kept == (1 - axis,)
    if (
        Tensor.of(ordered.x).rank != 2
        or not is_of_rows
        or _match_affine(ordered.x) is None
    ):
        return op
    kind, b = Tensor.of(op.lhs), Builder()
    (summed,) = op.lhs_contract
    others = tuple(n for n in range(kind.rank) if n != summed)
    size = Tensor.of(ordered.x).shape[axis]
    shape = (*kind.shape[:summed], size, *kind.shape[summed + 1 :])
    with before(op):
        left = b.scatter_add(
            b.full(kind.with_shape(shape), 0.0),
            op.lhs,
            *ordered.indices,
            axes=(summed,),
            along=(summed,),
            kept=others,
            mode=at.mode,
        )
        axes = {**DotGeneral.attributes_of(op), "rhs_contract": (axis,)}
        made: Value = b.dot_general(left, ordered.x, **axes)
    op.y.replace_all_uses_with(made)
    op.operation.erase()
    new = made.owner.opview
    assert isinstance(new, DotGeneral)
    return new


def _is_turned(op: DotGeneral) -> bool:
    """Return whether a product's right operand is the transpose of a dequantised
    weight.
    """
    turned = made_by(op.rhs, Transpose)
    return turned is not None and made_by(turned.x, Dequantize) is not None


def _keep(reader: Operation, value: Value, axis: int) -> bool:
    """Replace the ops that dequantise a weight by one op; return whether the form
    matched.

    Args:
        reader: of the weight, or of its transpose.
        value: the weight.
        axis: that the reader sums over, or reads rows along.
    """
    kind = Tensor.of(value)
    if kind.dtype != "f32" or not kind.rank or made_by(value, Dequantize) is not None:
        return False
    found = _match_affine(value)
    if found is None:
        return False
    block = run = found.block(axis)
    if block < 2 and isinstance(reader, DotGeneral) and kind.rank == 2:
        sizes: Any = kind.shape
        run, axis = sizes[axis], 1 - axis
        block = found.block(axis)
        if block % COLUMNS_OF_BLOCKS and block != kind.shape[axis]:
            return False
    if block < 2:
        return False
    with before(value.owner):
        new = found.write(Builder(), axis, block, run)
    value.replace_all_uses_with(new)
    return True


def _dequantize_rows(op: Gather) -> bool:
    """Move a dequantisation behind the gather of its rows; return whether it
    applied.
    """
    table = made_by(op.x, Dequantize)
    at = IndexMap.of(op)
    if table is None or table.axis in at.axes or at.shared_axes:
        return False
    attributes = Gather.attributes_of(op)
    b = Builder()
    axis = at.kept[at.others.index(table.axis)]
    ends = Tensor.of(op.x).rank, Tensor.of(op.y).rank
    is_last = (table.axis + 1, axis + 1) == ends
    # where products read it, too, lookups read what is packed for these
    is_alone = all(isinstance(use.owner.opview, Gather) for use in op.x.uses)

    def rows_of(x: Value) -> Value:
        nested = made_by(x, Dequantize)
        if nested is None:
            rank = Tensor.of(x).rank
            return b.gather(x, *op.indices, **attributes) if rank else x
        q, *parts = nested.operands
        if is_last and is_alone and in_planes(nested.bits):
            packed = rows_of(pack_rows(b, q, nested.bits))
            q = unpack_rows(b, packed, nested.bits)
        else:
            q = rows_of(q)
        found: Value = b.dequantize(
            q, *map(rows_of, parts), axis=axis, bits=nested.bits
        )
        return found

    with before(op):
        op.y.replace_all_uses_with(rows_of(op.x))
    op.operation.erase()
    return True


# ---- what dequantises ---------------------------------------------------------------


@dataclass(frozen=True)
class _AffineQuantization:
    """The matched form `(integers - zero) * scale - less`, all of one shape.

    Args:
        integers: of any integer dtype.
        scale: of f32; None for 1, where sums are scaled afterwards.
        zero: what is subtracted from the integers; None for nothing.
        less: what is subtracted from the product; None for nothing.
        is_added: whether that is added instead.
    """

    integers: Value
    scale: Value | None
    zero: Value | None = None
    less: Value | None = None
    is_added: bool = False

    def block(self, axis: int) -> int:
        """Return the block size along an axis within which scale, zero and `less` are
        constant.
        """
        parts = [x for x in (self.scale, self.zero, self.less) if x is not None]
        size = Tensor.of(self.integers).shape[axis]
        whole = size if isinstance(size, int) else 1
        return gcd(whole, *(run_length(x, axis) for x in parts))

    def write(
        self, b: Builder, axis: int, block: int, terms: int, *, is_scale: bool = False
    ) -> Value:
        """Emit the `dequantize` op with its narrowed operands; return its result.

        Args:
            b: the builder.
            axis: that blocks are along.
            block: elements of one.
            terms: elements that are added up one after the other.
            is_scale: whether these are scales of another: bytes, with floats as scales.
        """
        number = self.known_zero()
        has_zeros = self.zero is not None and number is None

        def part(value: Value) -> Value:
            found = first_of_blocks(b, value, axis, block)
            is_last = is_scale or has_zeros  # those are multiplied by scales
            nested = None if is_last else _as_nested(b, found, axis)
            return nested or _as_narrow(b, found) or found

        ones = Tensor.of(self.integers).with_dtype("f32")
        scale = part(b.full(ones, 1.0) if self.scale is None else self.scale)
        q = _shifted(b, self.integers, number or 0)
        bounds = [bound - (number or 0) for bound in value_range(self.integers)]
        offset = None
        if self.zero is not None and has_zeros:
            zero = b.cast(part(self.zero), dtype="f32")
            offset = b.multiply(zero, b.cast(scale, dtype="f32"))
        if self.less is not None:
            less = part(b.negate(self.less) if self.is_added else self.less)
            wide = b.cast(less, dtype="f32")
            offset = less if offset is None else b.add(offset, wide)
        if offset is None:
            offset = b.constant(value=np.zeros((), np.float32))
        dtype = "u8" if bounds[0] >= 0 else "i8"
        bits = 8 if is_scale else bits_for(bounds[0], bounds[1], terms)
        if Tensor.of(q).dtype != dtype:
            q = b.cast(q, dtype=dtype)
        found: Value = b.dequantize(q, scale, offset, axis=axis, bits=bits)
        return found

    def known_zero(self) -> int | None:
        """Return a known zero point that can be subtracted from the stored bytes; else
        None.
        """
        number = None if self.zero is None else splat_of(self.zero)
        if number is None or not float(number).is_integer():
            return None
        low, high = (bound - int(number) for bound in value_range(self.integers))
        return int(number) if _are_bytes(low, high) else None


def _as_narrow(b: Builder, value: Value) -> Value | None:
    """Emit a value without its cast from a narrow dtype; None if it has none."""
    op = defining_op(value)
    if isinstance(op, Cast):
        return op.x if Tensor.of(op.x).dtype in SCALES else None
    if isinstance(op, (Broadcast, Negate, Reshape, Slice, Transpose)):
        x = _as_narrow(b, op.x)
        if x is not None:
            found: Value = type(op).build(x, **type(op).attributes_of(op))
            return found
    return None


def _as_nested(b: Builder, value: Value, axis: int) -> Value | None:
    """Emit block scales as a dequantisation of bytes themselves; None unless of that
    form.

    Args:
        b: the builder.
        value: the scales, one for each block.
        axis: that blocks are along.
    """
    value, is_negated = value_before_movement(value)
    found = _match_affine(value)
    if found is None or found.scale is None or found.less is not None:
        return None
    if found.zero is not None and found.known_zero() is None:
        return None
    block = found.block(axis)
    if block < 2:
        return None
    if is_negated:
        found = replace(found, scale=b.negate(found.scale))
    return found.write(b, axis, block, block, is_scale=True)


def _are_bytes(low: int, high: int) -> bool:
    """Return whether the range from `low` to `high` fits i8 or u8."""
    known = map(integer_bounds, BYTES)
    return any(least <= low and high <= greatest for least, greatest in known)


def _shifted(b: Builder, integers: Value, number: int) -> Value:
    """Emit `integers - number` in the byte dtype that holds it; return the result.

    Of bytes the difference wraps around to itself: nothing wider is made on the way.
    """
    if not number:
        return integers
    low, _ = (bound - number for bound in value_range(integers))
    dtype = "u8" if low >= 0 else "i8"
    if Tensor.of(integers).dtype not in BYTES:
        less = b.subtract(integers, b.full_like(integers, number))
        found: Value = b.cast(less, dtype=dtype)
        return found
    same = b.bitcast(integers, dtype=dtype)
    wrapped = np.array(number).astype(to_numpy(dtype))
    return b.subtract(same, b.full_like(same, int(wrapped)))


def is_dequantized(value: Value) -> bool:
    """Return whether a value, or its transpose, is dequantised from integers."""
    while (turned := made_by(value, Transpose)) is not None:
        value = turned.x
    return made_by(value, Dequantize) is not None or _match_affine(value) is not None


def _match_affine(value: Value) -> _AffineQuantization | None:
    """Match a value as affine dequantisation of integers; None if it is none."""
    difference, total = made_by(value, Subtract), made_by(value, Add)
    if difference is not None:
        found = _match_scaled(difference.lhs)
        return found and replace(found, less=difference.rhs)
    if total is not None:
        for product, more in (total.operands, reversed(list(total.operands))):
            found = _match_scaled(product)
            if found is not None:
                return replace(found, less=more, is_added=True)
        return None
    found = _match_scaled(value)
    steps = _match_shifted(value) if found is None else None
    return found if steps is None else _AffineQuantization(steps[0], None, steps[1])


def _match_scaled(value: Value) -> _AffineQuantization | None:
    """Match a value as `(integers - zero) * scale`, or as `integers * scale`; else
    None.
    """
    product = made_by(value, Multiply)
    if product is None:
        return None
    for steps, scale in (product.operands, reversed(list(product.operands))):
        found = _match_shifted(steps)
        if found is not None:
            integers, zero = found
            return _AffineQuantization(integers, scale, zero)
    return None


def _match_shifted(value: Value) -> tuple[Value, Value | None] | None:
    """Match floats as cast integers less a zero point; return both, or None."""
    zero = None
    difference = made_by(value, Subtract)
    if difference is not None:
        value, zero = difference.operands
    cast = made_by(value, Cast)
    if cast is None or Tensor.of(cast.x).dtype not in INTEGERS:
        return None
    value = cast.x
    inner = made_by(value, Subtract)
    if zero is None and inner is not None and not may_wrap(inner):
        value, zero = inner.operands
    while (cast := made_by(value, Cast)) is not None and keeps_values(cast):
        value = cast.x
    return (value, zero) if _are_bytes(*value_range(value)) else None
