"""The region of joined products, and its call in the place of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import call, define, find
from aotc.dialects.functions.fusion import Fused, mark_fused
from aotc.dialects.functions.walking import in_order
from aotc.dialects.types import Tensor
from aotc.kernels.packing import join, pack, split
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Value, ir
from aotc.passes.joining.groups import JoinedProducts
from aotc.passes.joining.products import ProductCall, is_computed_from
from aotc.passes.outlining import Outlining, replace_by_call


def write_group(group: JoinedProducts, outlining: Outlining) -> bool:
    """Replace the calls of a group by one of a joined region; return False if
    impossible.

    Args:
        group: the products.
        outlining: the functions so far.

    Returns:
        Whether that was possible: what has an effect, and has to come after one of
        them, may have to come before another.
    """
    products, tile = group.products, group.tile
    calls = [each.call for each in products]
    first, *_, last = in_order(calls)
    made = [value for each in calls for value in each.results]
    late = outlining.readers_between(first, last, calls)
    moved = {value for op in late for value in op.results}
    if any(is_computed_from(each.operands, moved, first) for each in calls):
        return False
    results = [x for x in made if any(use.owner.opview not in calls for use in x.uses)]
    operands = _operands(products)
    with ir.InsertionPoint(last), first.location:
        operands[1:1] = _joined(products, tile)
        name = _define(products, tile, operands, results)
        kernel = products[0].fused.kernel
        mark_fused(find(name), Fused(kernel, tile.to_plain()))
        found = call(outlining.share_function(name), operands)
    replace_by_call(in_order(calls), results, found, late)
    return True


def _operands(products: Sequence[ProductCall]) -> list[Value]:
    """Return the joined region's operands without the weights: left operand first."""
    made = {value for each in products for value in each.call.results}
    packed = {value for each in products for value in each.packed}
    given = (value for each in products for value in [*each.call.operands][2:])
    left, no = products[0].call.operands[0], made | packed
    return [*dict.fromkeys([left, *(value for value in given if value not in no)])]


def _joined(products: Sequence[ProductCall], tile: ContractionTile) -> list[Value]:
    """Emit the packed weights of all products in a row, as joined kernels read them."""
    if tile.group:
        b, parts = Builder(), zip(*(each.packed for each in products), strict=True)
        elements, *blocks = [*parts]
        in_blocks = replace(tile, terms=1)
        return [join(b, elements, tile), *(join(b, x, in_blocks) for x in blocks)]
    found = []
    for product in products:
        if product.tile.columns == tile.own.columns:
            found.append(product.call.operands[1])
        else:
            right = product.unpacked()
            found.append(pack(Builder(), product.anchor, tile.own, right))
    return [join(Builder(), found, tile)]


def _split(
    products: Sequence[ProductCall], tile: ContractionTile, arguments: Sequence[Value]
) -> list[tuple[Value, ...]]:
    """Emit the split of joined packed weights; return those of each product."""
    b, parts = Builder(), []
    counts = [tile.panels(each.geometry.features) for each in products]
    for place, _ in enumerate(products[0].packed):
        of_blocks = replace(tile, terms=1) if place else tile
        parts.append(split(b, arguments[1 + place], counts, of_blocks))
    return [*zip(*parts, strict=True)]


def _define(
    products: Sequence[ProductCall],
    tile: ContractionTile,
    operands: Sequence[Value],
    results: Sequence[Value],
) -> str:
    """Define the region that computes all products; return its name."""

    def body(arguments: list[Value]) -> list[Value]:
        known = dict(zip(operands, arguments, strict=True))
        own = _split(products, tile, arguments)
        for product, packed in zip(products, own, strict=True):
            known.update(zip(product.packed, packed, strict=True))
            given = [known[value] for value in product.call.operands]
            made = product.write(given, partial(product.right_of, packed, tile.own))
            known.update(zip(product.call.results, made, strict=True))
        return [known[value] for value in results]

    return define("joined", [Tensor.of(value) for value in operands], body)
