"""Groups of products of one left operand that one kernel computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotc.dialects.functions.walking import in_order
from aotc.dialects.graph import GraphOp
from aotc.kernels.machine import Machine
from aotc.kernels.planning.contraction import plan_joined
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Operation, Value
from aotc.passes.joining.products import ProductCall, is_computed_from


@dataclass(frozen=True)
class JoinedProducts:
    """Matrix products that one kernel computes, with the tile that it uses.

    Args:
        products: in order; one that is read by another comes before it.
        tile: of the kernel.
    """

    products: tuple[ProductCall, ...]
    tile: ContractionTile


def groups_of(
    products: Sequence[ProductCall], machine: Machine
) -> Iterator[JoinedProducts]:
    """Yield groups to join among matrix products that share a left operand.

    The caller writes each before it asks for the next: then that may be impossible.

    Args:
        products: in order.
        machine: that computes them.
    """
    rest = list(products)
    for product in reversed(products):  # the last reader of others first
        together = _read_together(product, rest) if product in rest else []
        if len(together) > 1:
            tile = _joined_tile(together, machine, interleaved=True)
            if tile is not None:
                rest = [each for each in rest if each not in together]
                yield JoinedProducts(tuple(together), tile)
    while len(rest) > 1:
        chosen = _independent(rest)
        rest = [each for each in rest if each not in chosen]
        group = group_of(chosen, machine)
        if group is not None:
            yield group


def _read_together(
    product: ProductCall, products: Sequence[ProductCall]
) -> list[ProductCall]:
    """Return a product and those whose results it reads, transitively, in program
    order.
    """
    found = [product]
    for reader in found:  # which grows
        for each in products:
            if (
                len(found) < product.most_joined
                and each not in found
                and reads(reader, each)
            ):
                found.append(each)
    calls = in_order([each.call for each in found])
    return sorted(found, key=lambda each: calls.index(each.call))


def group_of(
    products: Sequence[ProductCall], machine: Machine
) -> JoinedProducts | None:
    """Return independent products as a group, if one kernel is faster; else None."""
    if len(products) == 1:
        return None
    tile = _joined_tile(products, machine, interleaved=False)
    return None if tile is None else JoinedProducts(tuple(products), tile)


def _joined_tile(
    products: Sequence[ProductCall], machine: Machine, *, interleaved: bool
) -> ContractionTile | None:
    """Plan the tile of a joined kernel; None if joining does not pay or fit the
    weights.
    """
    tile = plan_joined(
        [each.anchor for each in products],
        [each.tile for each in products],
        machine,
        interleaved=interleaved,
    )
    if tile is None:
        return None
    features = [each.geometry.features for each in products]
    return tile if products[0].is_stored_by(tile, features) else None


def reads(product: ProductCall, source: ProductCall) -> bool:
    """Return whether a region reads the result of `source` elementwise, at its own
    indices.

    All else that it reads does not depend on that.
    """
    if len(source.call.results) > 1:
        return False
    result, operands = source.call.results[0], list(product.call.operands)
    if result not in operands[2:]:
        return False
    if result.type != product.anchor.results[0].type or result in operands[:2]:
        return False
    arguments = product.function.entry_block.arguments
    argument = arguments[operands.index(result)]
    if not all(_is_elementwise(use.owner.opview) for use in argument.uses):
        return False
    others = [value for value in operands if value != result]
    return not is_computed_from(others, {result}, source.call)


def _is_elementwise(op: Operation) -> bool:
    return isinstance(op, GraphOp) and bool(type(op).on_vectors)


def _independent(products: Sequence[ProductCall]) -> list[ProductCall]:
    """Return the first product, and later ones that depend on none chosen before."""
    first, *rest = products
    chosen, made = [first], set[Value](first.call.results)
    for each in rest:
        if len(chosen) == first.most_joined:
            break
        if not is_computed_from(each.call.operands, made, first.call):
            chosen.append(each)
            made.update(each.call.results)
    return chosen
