"""An order that no data says: a tensor that is read only after another is known."""

from typing import Any

from aotc.dialects.lowering.scalars import constant, never
from aotc.mlir import arith, ir, linalg, tensor


def after(x: Any, event: Any) -> Any:
    """`x`, read after `event`; what is computed from either is not merged.

    An element of `event` decides between x and zero, and always says x. IREE orders
    what it runs by data alone, and a barrier of its own ends a submission of work.

    Args:
        x: a lowered tensor.
        event: another, which has elements, of any type but i1.
    """
    rank = x.type.rank
    here, none = ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, [])
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    op = linalg.GenericOp(
        [x.type],
        [x, _first(event)],
        [_empty(x)],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in (here, none, here)]),
        ir.ArrayAttr.get([parallel] * rank),
    )
    element = x.type.element_type
    block = op.regions[0].blocks.append(element, event.type.element_type, element)
    with ir.InsertionPoint(block):
        value, number, _ = block.arguments
        zero = constant(element, 0)
        linalg.YieldOp([arith.select(never(number), zero, value)])
    return op.results[0]


def _first(source: Any) -> Any:
    """The first element as a tensor of rank 0."""
    kind = source.type
    whole = ir.RankedTensorType.get([], kind.element_type)
    places = ([number] * kind.rank for number in (0, 1, 1))
    return tensor.extract_slice(whole, source, [], [], [], *places)


def _empty(like: Any) -> Any:
    """A tensor of the same type without defined elements."""
    kind = like.type
    sizes = [
        tensor.dim(like, _index(axis)) if kind.is_dynamic_dim(axis) else size
        for axis, size in enumerate(kind.shape)
    ]
    return tensor.EmptyOp(sizes, kind.element_type).result


def _index(value: int) -> Any:
    """A constant of type index."""
    return arith.ConstantOp(ir.IndexType.get(), value).result
