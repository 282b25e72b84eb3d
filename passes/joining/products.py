"""Calls of regions whose kernels multiply by a packed weight."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace

from aotc.core.dtypes import bits
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import callee_of
from aotc.dialects.functions.fusion import Fused, fused_of
from aotc.dialects.functions.walking import (
    Visit,
    backward_slice,
    clone,
    copy_value,
    in_order,
    walk,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Tensor, element_count
from aotc.kernels.capabilities import Capabilities
from aotc.kernels.geometry import ConvolutionGeometry, known_geometry
from aotc.kernels.packing import unpack
from aotc.kernels.planning.dequantized import (
    argument_behind,
    blocks_of,
    views,
)
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Function, Operation, Value, func, ir
from aotc.passes.build_time_values import most_extra


@dataclass(frozen=True, eq=False)
class ProductCall:
    """A call of a region with exactly one matrix product or convolution, by a packed
    weight.

    Args:
        call: of the left operand, the packed right one, and others.
        function: the region.
        anchor: the product in it.
        fused: how it is computed.
        capabilities: of the target.
    """

    call: func.CallOp
    function: Function
    anchor: GraphOp
    fused: Fused
    capabilities: Capabilities

    @property
    def tile(self) -> ContractionTile:
        """The tile of the product's kernel."""
        return ContractionTile.of_plain(self.fused.tile)

    @property
    def most_joined(self) -> int:
        """The largest number of products that one kernel of this family can compute."""
        return self.capabilities.family_of(self.fused).most_joined

    @property
    def geometry(self) -> ConvolutionGeometry:
        """The product as a convolution geometry: loops, strides, features."""
        return known_geometry(self.anchor)

    @property
    def left(self) -> Hashable:
        """Key of the left operand and how the product reads it; equal keys can be
        joined.
        """
        rows = self.call.operands[0], _left_of(self.geometry)
        kinds = [Tensor.of(value) for value in self.packed]
        counts = [kind.shape[1] for kind in kinds[1:]]  # of scales, in each column
        dtypes, tile = [kind.dtype for kind in kinds], self.tile
        blocks = tile.group, tile.across
        return (*rows, tile.terms, *blocks, tile.bits, *dtypes, *counts)

    @property
    def packed_arguments(self) -> list[Value]:
        """The region's arguments that hold the packed right operand.

        That of the elements first, then those of what there is for each block.
        """
        found: list[Value] = [self.function.entry_block.arguments[1]]
        for part in blocks_of(self.anchor):
            argument = argument_behind(part)
            assert argument is not None
            found.append(argument)
        return found

    @property
    def packed(self) -> list[Value]:
        """The call's operands for the packed right operand."""
        operands = self.call.operands
        return [
            operands[ir.BlockArgument(argument).arg_number]
            for argument in self.packed_arguments
        ]

    def right_of(self, packed: Sequence[Value], tile: ContractionTile) -> Value:
        """Emit the unpacking of `packed` values; return the right operand as the
        product reads it.
        """
        if self.tile.dequantizes:  # whose panels do not depend on the tile
            known = dict(zip(self.packed_arguments, packed, strict=True))
            return copy_value(self.anchor.operands[1], known)
        return unpack(Builder(), self.anchor, packed[0], tile)

    def is_stored_by(self, tile: ContractionTile, features: Iterable[int]) -> bool:
        """Return whether storing the weights padded for `tile` stays within the allowed
        growth.

        Args:
            tile: how products like this one are cut up together.
            features: of each of them.
        """
        counts = list(features)
        padded = sum(tile.panels(count) * tile.own.columns for count in counts)
        kind = Tensor.of(self.call.operands[1])
        elements = element_count(kind.shape)
        assert isinstance(elements, int)
        own = self.tile.panels(self.geometry.features) * self.tile.own.columns
        column = elements * bits(kind.dtype) / 8 / own
        wanted = column * sum(counts)
        most = most_extra(wanted)
        return column * padded - wanted <= most

    def write(
        self,
        given: Sequence[Value],
        right: Callable[[], Value],
        write: Visit[Value] = clone,
    ) -> list[Value]:
        """Emit the region's ops on other arguments and right operand; return the
        results.

        Args:
            given: what the region takes.
            right: writes the right operand of the product.
            write: writes any other op.
        """
        packing = ops_behind(self.anchor.operands[1])

        def visit(op: Operation, operands: list[Value]) -> Sequence[Value]:
            if op in packing:
                return list(op.results)  # which only the product reads
            if op == self.anchor:
                operands = [operands[0], right()]
            return write(op, operands)

        return walk(self.function.entry_block, given, visit)

    def unpacked(self) -> Value:
        """Emit the call's right operand as it was before packing, in the caller.

        It is written at the insertion point, in the function that calls.
        """
        right = self.anchor.operands[1]
        packed = self.function.entry_block.arguments[1]
        return copy_value(right, {packed: self.call.operands[1]})


def products_in(
    function: Function,
    functions: Mapping[str, Function],
    weights: Container[Value],
    capabilities: Capabilities,
) -> Iterator[ProductCall]:
    """Yield the calls of products by weights in an entry or a loop body, in order."""
    for op in [*function.entry_block.operations]:
        product = product_of(op, functions, capabilities)
        if product is not None and product.call.operands[1] in weights:
            yield product


def product_of(
    op: Operation, functions: Mapping[str, Function], capabilities: Capabilities
) -> ProductCall | None:
    """Return an op as a `ProductCall`; None if it calls no region with one joinable
    product.
    """
    if not isinstance(op, func.CallOp):
        return None
    function = functions[callee_of(op)]
    fused = fused_of(function)
    if fused is None:
        return None
    family = capabilities.family_of(fused)
    packing = family.packing_of(fused)
    if packing is None or family.most_joined == 1:
        return None
    ops = function.entry_block.operations
    anchors = [each for each in ops if isinstance(each, family.anchors)]
    left = anchors[0].operands[0]
    left = views(anchors[0]).get(left, left)
    is_read_whole = left == function.entry_block.arguments[0]
    if len(anchors) > 1 or not is_read_whole:
        return None
    if known_geometry(anchors[0]).groups > 1:  # which have panels of their own
        return None
    return ProductCall(op, function, anchors[0], fused, capabilities)


def ops_behind(value: Value) -> list[GraphOp]:
    """Return the ops that compute a value (its backward slice), in program order."""
    values = backward_slice([value])
    return in_order(
        [each.owner.opview for each in values if not isinstance(each.owner, ir.Block)]
    )


def is_computed_from(
    values: Iterable[Value], sources: set[Value], first: Operation
) -> bool:
    """Return whether any of `values` depends on any of `sources`.

    Args:
        values: of a block.
        sources: the others, which are computed by `first` and ops after it.
        first: an op of the block.
    """
    behind = backward_slice(
        values, lambda each: first.operation.is_before_in_block(each.owner)
    )
    return any(each in sources for each in behind)


def _left_of(geometry: ConvolutionGeometry) -> ConvolutionGeometry:
    """Return a geometry without the right operand: only left strides and summed
    loops.
    """
    layout = geometry.layout
    if layout is not None:
        sums, batch = (
            tuple(replace(loop, steps=(loop.steps[0], 0)) for loop in loops)
            for loops in (layout.sums, layout.batch)
        )
        layout = replace(layout, sums=sums, batch=batch, is_readable=False)
    return replace(geometry, features=0, layout=layout)
