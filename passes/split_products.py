"""Compute columns of a product that are read apart by products of their own.

    %1 = graph.dot_general(%x, %w)        %a = graph.dot_general(%x, graph.slice(%w))
    %2 = graph.add(%1, %z)           →    %b = graph.dot_general(%x, graph.slice(%w))
    %3 = graph.slice(%2)                  %3 = graph.add(%a, graph.slice(%z))
    %4 = graph.slice(%2)                  %4 = graph.add(%b, graph.slice(%z))
    %5 = graph.multiply(%3, %4)           %5 = graph.multiply(%3, %4)

So are the gates of an LSTM or a GRU written: as columns of one product. Where they meet
element by element, `fuse-regions` and `join-products` make one kernel of the products
and of all that is computed of them, in which a panel has the same columns of each.

Nothing changes where the target has no
kernel for the parts, where columns do not meet, or where something else reads the
weight, which the build would have to store twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import (
    backward_slice,
    has_one_use,
    in_order,
    users_of,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.shape import Broadcast, varying_axes
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.dialects.weight_values import is_expanded
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.kernels.scopes import functions_with_weights
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED


class SplitProducts(Pass):
    """Split a matrix product read in column slices into one product for each slice."""

    name = "split-products"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        capabilities = capabilities_of(unit.target)
        if isinstance(capabilities, NoTargetKernels) or not capabilities.joins_products:
            return False
        changed = False
        scopes = functions_with_weights(unit.module, with_invariants=True)
        for function, weights in scopes:
            changed |= _split_in(function, weights, capabilities)
        return changed


def _split_in(
    function: Function, weights: Container[Value], capabilities: Capabilities
) -> bool:
    """Split the sliced matrix products of a function; return whether there were any."""
    operations = function.entry_block.operations
    changed, unsliced = False, set[Operation]()
    for product in reversed([op for op in operations if isinstance(op, DotGeneral)]):
        # looked for one by one: splitting a product erases what two may have in common
        columns = _columns_of(product, weights, unsliced)
        if columns is not None and columns.split(capabilities):
            changed = True
            unsliced.clear()
    return changed


@dataclass(frozen=True)
class _SlicedProduct:
    """A matrix product of which only column slices are read, possibly after elementwise
    ops.

    Args:
        product: by a weight that nothing else reads.
        axis: of the weight, along which its columns are.
        after: ops that are applied to all columns, one after the other.
        slices: of the last of them, each of other columns.
    """

    product: DotGeneral
    axis: int
    after: Sequence[GraphOp]
    slices: Sequence[Slice]

    def split(self, capabilities: Capabilities) -> bool:
        """Replace each slice by a matrix product of its own; return False if no kernel
        computes them.
        """
        if not self._has_kernel(capabilities):
            return False
        for each in self.slices:
            with before(self.slices[0]):
                value = self._write(Builder(), each)
            each.y.replace_all_uses_with(value)
        for op in reversed((self.product, *self.after, *self.slices)):
            op.operation.erase()
        return True

    def _has_kernel(self, capabilities: Capabilities) -> bool:
        """Return whether one kernel can compute matrix products as wide as the
        slices.
        """
        with before(self.product):
            product = self._write_product(Builder(), self.slices[0])
        found = capabilities.choose(product, by_weight=True)
        right = product.rhs.owner
        product.operation.erase()
        right.erase()
        if found is None:
            return False
        return len(self.slices) <= capabilities.families[found.kernel].most_joined

    def _write_product(self, b: Builder, columns: Slice) -> DotGeneral:
        """Emit the matrix product by the weight's columns that a slice reads."""
        right = _cut(b, self.product.rhs, self.axis, columns)
        value = self.product.rebuild(self.product.lhs, right)
        product: DotGeneral = value.owner.opview
        return product

    def _write(self, b: Builder, columns: Slice) -> Value:
        """Emit one slice: its matrix product, and the elementwise ops after it; return
        the value.
        """
        whole = self.product.results[0]
        value = self._write_product(b, columns).results[0]
        for op in self.after:
            taken = [
                value if x == whole else _cut(b, x, len(columns.sizes) - 1, columns)
                for x in op.operands
            ]
            value = op.rebuild(*taken)
            whole = op.results[0]
        return value


def _cut(b: Builder, value: Value, axis: int, columns: Slice) -> Value:
    """Emit the slice of another operand that matches a slice of columns along
    `axis`.
    """
    first, count = columns.start[-1], columns.sizes[-1]
    repeated = made_by(value, Broadcast)
    if repeated is None:
        return b.part(value, axis, first, count)
    source: Value = repeated.x
    shape = repeated.shape
    if axis in varying_axes(repeated):
        source = _cut(b, source, repeated.axes.index(axis), columns)
    sizes = (*shape[:axis], count, *shape[axis + 1 :])
    return b.broadcast(source, shape=sizes, axes=repeated.axes)


def _columns_of(
    op: DotGeneral, weights: Container[Value], unsliced: set[Operation]
) -> _SlicedProduct | None:
    """Match a matrix product that is read in column slices only; return it with these,
    or None.

    Args:
        op: the product.
        weights: what weights alone decide.
        unsliced: elementwise ops that have no slices at the end, from products before;
            is added to.
    """
    if op.results[0] in weights or is_expanded(op.rhs):
        return None
    rank = Tensor.of(op.rhs).rank
    axes = free_axes(rank, op.rhs_batch, op.rhs_contract)
    if op.rhs not in weights or not has_one_use(op.rhs) or len(axes) != 1:
        return None
    after: list[GraphOp] = []
    for each in _ops_after(op):
        if each in unsliced:
            unsliced.update(after)
            return None
        after.append(each)
    readers = in_order(users_of((after[-1] if after else op).results))
    slices = [each for each in readers if isinstance(each, Slice)]
    if not 1 < len(slices) == len(readers):
        unsliced.update(after)
        return None
    if not _are_disjoint(slices) or not _are_combined(slices):
        return None
    if any(_is_read_beside_a_product(each) for each in slices):
        return None
    return _SlicedProduct(op, axes[0], after, slices)


def _ops_after(op: GraphOp) -> Iterator[GraphOp]:
    """Yield the chain of elementwise ops after an op, each the only reader of the
    last.
    """
    kind = Tensor.of(op.results[0])
    while True:
        readers = in_order(users_of(op.results))
        if len(readers) != 1 or not isinstance(readers[0], GraphOp):
            return
        reader = readers[0]
        if not type(reader).on_vectors or isinstance(reader, Broadcast):
            return
        values = (*reader.operands, *reader.results)
        if any(Tensor.of(value) != kind for value in values):
            return
        yield reader
        op = reader


def _are_disjoint(slices: Sequence[Slice]) -> bool:
    """Return whether slices have equal widths and do not overlap."""
    columns = set[int]()
    for each in slices:
        first, count = each.start[-1], each.sizes[-1]
        rows = Tensor.of(each.x).shape[:-1]
        if not isinstance(first, int) or not isinstance(count, int) or not count:
            return False
        if each.sizes[:-1] != rows or any(step != 1 for step in each.strides):
            return False
        own = range(first, first + count)
        if count != slices[0].sizes[-1] or not columns.isdisjoint(own):
            return False
        columns.update(own)
    return True


def _is_read_beside_a_product(columns: Slice) -> bool:
    """Return whether a reader of the slice also reads another matrix product
    elementwise.

    Then the kernel of that product reads them where they are.
    """

    def is_computed_with(value: Value) -> bool:
        op = value.owner.opview
        is_elementwise = isinstance(op, GraphOp) and bool(op.on_vectors)
        return is_elementwise and not isinstance(op, Broadcast)

    readers = users_of([columns.y])
    others = [x for op in readers for x in op.operands if x != columns.y]
    behind = backward_slice(others, is_computed_with)
    return any(made_by(value, DotGeneral) is not None for value in behind)


def _are_combined(slices: Sequence[Slice]) -> bool:
    """Return whether elementwise ops combine all of the slices into one value."""
    kind = Tensor.of(slices[0].y)
    sources: dict[Value, frozenset[int]] = {
        each.y: frozenset([number]) for number, each in enumerate(slices)
    }
    rest = in_order(users_of(each.y for each in slices))
    while rest:
        op = rest.pop(0)
        if not isinstance(op, GraphOp) or not type(op).on_vectors:
            continue
        if [Tensor.of(x) for x in op.results] != [kind]:
            continue
        known = [sources.get(x, frozenset()) for x in op.operands]
        found = frozenset[int]().union(*known)
        if len(found) == len(slices):
            return True
        sources[op.results[0]] = found
        rest = in_order([*rest, *users_of(op.results)])
    return False
