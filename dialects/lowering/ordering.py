"""Control dependences, which IREE cannot express, as it orders work by data."""

from collections.abc import Sequence

from aotc.dialects import iree_text
from aotc.dialects.lowering.iterators import iterator_types
from aotc.dialects.lowering.scalars import Body, constant, never
from aotc.mlir import AffineMap, Value, arith, ir, linalg, tensor


def after(x: Value, event: Value) -> Value:
    """Emit `x` with a data dependence on `event`, so that IREE runs it afterwards.

    Computations on either are not merged.

    An element of `event` decides between x and zero, and always says x. IREE orders
    what it runs by data alone, and a barrier of its own ends a submission of work.

    Args:
        x: a lowered tensor.
        event: another, which has elements, of any type but i1.
    """
    here = ir.AffineMap.get_identity(x.type.rank)
    none = ir.AffineMap.get(x.type.rank, 0, [])
    return _elementwise(
        [x, _first(event)],
        [here, none, here],
        x,
        lambda value, number: arith.select(never(number), _zero(value), value),
    )


def _zero(value: Value) -> Value:
    """Emit 0 in the type of a scalar."""
    return constant(value.type, 0)


def _elementwise(
    inputs: Sequence[Value],
    maps: Sequence[AffineMap],
    like: Value,
    body: Body,
) -> Value:
    """Emit an elementwise linalg.generic whose result has the type of `like`."""
    op = linalg.GenericOp(
        [like.type],
        list(inputs),
        [_empty(like)],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        iterator_types(["parallel"] * like.type.rank),
    )
    elements = [value.type.element_type for value in (*inputs, like)]
    block = op.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(*list(block.arguments)[:-1])])
    return op.results[0]


def starts(values: Sequence[Value]) -> list[Value]:
    """Emit the initial values of a loop, each behind a barrier."""
    return [iree_text.optimization_barrier(x) for x in values]


def _first(source: Value) -> Value:
    """Emit the first element of a tensor as a tensor of rank 0."""
    kind = source.type
    whole = ir.RankedTensorType.get([], kind.element_type)
    places = ([number] * kind.rank for number in (0, 1, 1))
    return tensor.extract_slice(whole, source, [], [], [], *places)


def _empty(like: Value) -> Value:
    """Emit a tensor of the type of `like` with undefined elements."""
    kind = like.type
    sizes = [
        tensor.dim(like, _index(axis)) if kind.is_dynamic_dim(axis) else size
        for axis, size in enumerate(kind.shape)
    ]
    return tensor.EmptyOp(sizes, kind.element_type).result


def _index(value: int) -> Value:
    """Emit a constant of type index."""
    return arith.ConstantOp(ir.IndexType.get(), value).result
