"""Compute products of one operand by several weights with one kernel.

    %q = call @contraction(%x, %wq, %bq)
    %k = call @contraction_1(%x, %wk)        →    %q, %k = call @joined(%x, %w, %bq)

%w is the packed weights one after the other, which `fold-parameters` makes at build
time, and each product keeps what is computed with it. So are the query, the key and the
value of an attention one dispatch, and the results are tensors of their own. Where one
of two products is read with the other, as the gate of a SwiGLU is with its values, they
are computed side by side, and the one goes into the other's epilogue. A product that is
read in slices of its columns only becomes several, which are joined again.

Weights of integers that kernels dequantise are joined with what there is for each of
their blocks. Their panels do not depend on the number of rows, so that entries of
different numbers of rows join them alike.

Sums are made in the order in which they were. At most four products are joined, so that
results do not wait long for their readers. A weight that something else reads, too,
stays by itself: the build would have to store it twice.

Joined regions are not joined again. On GPUs, products are joined as they lie
(`joining.launches`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aotc.dialects.calls.callees import callees
from aotc.dialects.functions.entries import Entry, entries_of, weight_ports
from aotc.dialects.functions.function_table import erase, index_functions
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.functions.walking import backward_slice, users_of
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, element_count
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.kernels.machine import Machine
from aotc.kernels.scopes import scopes_of
from aotc.kernels.shared_work import note_shared_work
from aotc.mlir import Function, Module, Value, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.joining.groups import group_of, groups_of
from aotc.passes.joining.launches import join_launches
from aotc.passes.joining.products import ProductCall, products_in
from aotc.passes.joining.slices import column_slices, split_columns
from aotc.passes.joining.writing import write_group
from aotc.passes.outlining import Outlining
from aotc.passes.properties import REGIONS_UNIQUE

_Functions: TypeAlias = Mapping[str, Function]


class JoinProducts(Pass):
    """Join matrix products (or convolutions) of one left operand into one kernel."""

    name = "join-products"
    level = 2
    keeps_graph = True
    requires = (REGIONS_UNIQUE,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether any products were
        joined.
        """
        capabilities = capabilities_of(unit.target)
        if isinstance(capabilities, NoTargetKernels):
            return False
        if capabilities.emitted.on_gpus:
            return _join_launches(unit.module, capabilities)
        if not capabilities.joins_products:
            return False
        with index_functions(unit.module) as functions:
            outlining = Outlining()
            joining = _ProductJoiner(functions, capabilities.machine, outlining)
            for family in _families(unit.module, functions, capabilities):
                joining.join(family)
            if not outlining.is_empty:
                _erase_uncalled(functions)
                note_shared_work(unit.module, capabilities)
        return not outlining.is_empty


def _join_launches(module: Module, capabilities: Capabilities) -> bool:
    """Join products of one left operand in GPU code, weights unchanged; return whether
    any did.
    """
    changed, outlining = False, Outlining()
    with index_functions(module) as functions:
        for entry in entries_of(module):
            for name in scopes_of(functions, entry.name):
                given = functions[name], functions, capabilities, outlining
                changed |= join_launches(*given)
        if changed:
            _erase_uncalled(functions)
    return changed


@dataclass(frozen=True)
class _Family:
    """Matrix products of one left operand, by weights that nothing else reads.

    Args:
        function: that has them.
        products: in order.
        weights: the names of their weights; empty in the body of a loop.
    """

    function: Function
    products: Sequence[ProductCall]
    weights: Sequence[str]

    @property
    def signature(self) -> Hashable:
        """Key of the way a family is joined; entries whose keys are equal can share
        weights.
        """
        slices = (column_slices(product) for product in self.products)
        columns = (tuple((x.start, x.sizes) for x in each) for each in slices)
        return (*self.weights, *columns, *map(_packing_of, self.products))


def _families(
    module: Module, functions: _Functions, capabilities: Capabilities
) -> list[_Family]:
    """Return the groups of products that may be joined, alike in all entries.

    Where several entries read a weight, each of them joins it alike, or none does.
    """
    entries = entries_of(module)
    scopes: dict[str, list[_Family]] = {}  # a loop may be one of several entries
    for entry in entries:
        scopes_here = scopes_of(functions, entry.name, with_invariants=True)
        for name, weights in scopes_here.items():
            if name not in scopes:
                inside = _families_in(entry, name, weights, functions, capabilities)
                scopes[name] = [*inside]
    found = [family for families in scopes.values() for family in families]
    readers = Counter(name for entry in entries for name in _read(entry, functions))
    claims: dict[str, list[Hashable]] = {}
    for family in found:
        for name in family.weights:
            claims.setdefault(name, []).append(family.signature)

    def is_alike_in_all(name: str) -> bool:
        return len(claims[name]) == readers[name] and len({*claims[name]}) == 1

    return [each for each in found if all(map(is_alike_in_all, each.weights))]


def _read(entry: Entry, functions: _Functions) -> Iterator[str]:
    """Yield the names of the weights that an entry uses."""
    for value, port in weight_ports(functions[entry.name], entry):
        if any(True for _ in value.uses):
            yield port.name


def _families_in(
    entry: Entry,
    name: str,
    weights: Container[Value],
    functions: _Functions,
    capabilities: Capabilities,
) -> Iterator[_Family]:
    """Yield the groups of products with one left operand in an entry or a loop body.

    Args:
        entry: that runs it.
        name: of the function.
        weights: what weights alone decide in it.
        functions: of the module.
        capabilities: of the target.
    """
    function = functions[name]
    arguments = entry.arguments if name == entry.name else ()
    stored_once: dict[Value, bool] = {}
    with known_contracts(contracts_of(function)):
        by_left: dict[Hashable, list[tuple[ProductCall, ir.BlockArgument]]] = {}
        for product in products_in(function, functions, weights, capabilities):
            weight = _weight_of(product, stored_once)
            if weight is not None:
                by_left.setdefault(product.left, []).append((product, weight))
        for alike in by_left.values():
            names = [arguments[x.arg_number].name for _, x in alike if arguments]
            products = [product for product, _ in alike]
            yield _Family(function, products, [*dict.fromkeys(names)])


def _weight_of(
    product: ProductCall, stored_once: dict[Value, bool]
) -> ir.BlockArgument | None:
    """Return the weight argument if only this product packs it, or a slice of it; else
    None.

    Args:
        product: of it.
        stored_once: what `_is_stored_once` said of other values; is added to.
    """
    value: Value = product.call.operands[1]
    if product.tile.group:
        return _only_weight_of(value)
    while True:
        if value not in stored_once:
            stored_once[value] = _is_stored_once(value)
        if not stored_once[value]:
            return None
        if isinstance(value.owner, ir.Block):
            return ir.BlockArgument(value)
        if len(value.owner.operands) != 1:
            return None
        value = value.owner.operands[0]


def _only_weight_of(packed: Value) -> ir.BlockArgument | None:
    """Return the only weight that packed integers are made of; None if they are made
    of others, too, or others read it.
    """
    behind = [x for x in backward_slice([packed]) if not _is_constant(x)]
    arguments = [x for x in behind if isinstance(x.owner, ir.Block)]
    readers = users_of([x for x in behind if x != packed])
    is_alone = all(value in behind for op in readers for value in op.results)
    is_only = is_alone and len(arguments) == 1
    return ir.BlockArgument(arguments[0]) if is_only else None


def _is_constant(value: Value) -> bool:
    """Return whether a value is made by an op without operands."""
    return not isinstance(value.owner, ir.Block) and not value.owner.operands


def _is_stored_once(value: Value) -> bool:
    """Return whether a value has one reader, or slices in total no larger than
    itself.
    """
    readers = users_of([value])
    if len(readers) == 1:
        return True
    slices = [each for each in readers if isinstance(each, Slice)]
    stored = sum(_size(each.y) for each in slices)
    return len(slices) == len(readers) and stored <= _size(value)


def _size(weight: Value) -> int:
    """Return the number of elements of a weight of static shape."""
    count = element_count(Tensor.of(weight).shape)
    assert isinstance(count, int)
    return count


def _packing_of(product: ProductCall) -> Hashable:
    """Return the part of a product's tile that decides its packed layout, as a hashable
    key.
    """
    tile = product.tile
    return tile.columns if tile.group else tile


@dataclass(frozen=True)
class _ProductJoiner:
    """Writes joined regions in the place of several products.

    Args:
        functions: of the module, as a table that knows new ones.
        machine: that computes them.
        outlining: the regions so far.
    """

    functions: _Functions
    machine: Machine
    outlining: Outlining

    def join(self, family: _Family) -> None:
        """Replace the products of a family by joined regions, as many as can be
        joined.
        """
        whole = []
        with known_contracts(contracts_of(family.function)):
            for product in family.products:
                slices = column_slices(product)
                if not slices:
                    whole.append(product)
                    continue
                parts = split_columns(product, slices, self.functions)
                group = group_of(parts, self.machine)
                assert group is not None  # their tile is that of the whole
                write_group(group, self.outlining)
            for group in groups_of(whole, self.machine):
                write_group(group, self.outlining)


def _erase_uncalled(functions: _Functions) -> None:
    """Erase regions that no function calls any more."""
    called = {name for each in functions.values() for name in callees(each)}
    for name, function in [*functions.items()]:
        if name not in called and is_region(function):
            erase(function)
