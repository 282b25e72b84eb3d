"""Joins the kernels for GPUs of products of one left operand: one launch computes all.

    %q = call @contraction(%x, %wq, %bq)
    %k = call @contraction_1(%x, %wk)        →    %q, %k = call @contraction(%x, %wq, …)

Each program has a tile of one of them, so that weights stay as they are and small
products fill a chip together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.functions.function_table import erase
from aotc.dialects.functions.functions import call, callee_of, define, find
from aotc.dialects.functions.fusion import Fused, fused_of, mark_fused
from aotc.dialects.functions.walking import clone, defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.shape import Reshape
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.kernels.capabilities import Capabilities
from aotc.mlir import Function, Operation, Value, func, ir
from aotc.passes.outlining import Outlining

_MOST = 4  # products that a kernel computes


@dataclass(frozen=True, eq=False)
class _ProductLaunch:
    """A call of a GPU kernel's region that has exactly one matrix product.

    Args:
        call: of it.
        function: the region.
        fused: how it is computed.
        anchor: the product.
    """

    call: func.CallOp
    function: Function
    fused: Fused
    anchor: DotGeneral

    @property
    def left(self) -> Hashable:
        """Key of the left operand and how the matrix product reads it; None if the
        region computes it.
        """
        value, view = self.anchor.lhs, defining_op(self.anchor.lhs)
        if isinstance(view, Reshape):
            value = view.x
        if not isinstance(value.owner, ir.Block):
            return None
        operand = self.call.operands[ir.BlockArgument(value).arg_number]
        kind, anchor = Tensor.of(self.anchor.lhs), self.anchor
        return operand, kind, anchor.lhs_batch, anchor.lhs_contract, self.fused.kernel


def join_launches(
    function: Function,
    functions: Mapping[str, Function],
    capabilities: Capabilities,
    outlining: Outlining,
) -> bool:
    """Join GPU matrix products of one left operand in a function; return whether any
    were joined.
    """
    changed = False
    with known_contracts(contracts_of(function)):
        alike: dict[Hashable, list[_ProductLaunch]] = {}
        for product in _products_in(function, functions, capabilities):
            if product.left is not None:
                alike.setdefault(product.left, []).append(product)
        for products in alike.values():
            rest = products
            while len(rest) > 1:
                chosen = _beside(rest)
                rest = [each for each in rest if each not in chosen]
                changed |= _join(chosen, capabilities, outlining)
    return changed


def _products_in(
    function: Function, functions: Mapping[str, Function], capabilities: Capabilities
) -> list[_ProductLaunch]:
    """Return the calls in a function of regions with exactly one joinable matrix
    product.
    """
    found = []
    for op in function.entry_block.operations:
        if not isinstance(op, func.CallOp):
            continue
        region = functions[callee_of(op)]
        fused = fused_of(region)
        if fused is None:
            continue
        family = capabilities.family_of(fused)
        if family.plan_joined is not None:
            anchors = family.anchors_in(region)
            if len(anchors) == 1 and isinstance(anchors[0], DotGeneral):
                found.append(_ProductLaunch(op, region, fused, anchors[0]))
    return found


def _beside(products: Sequence[_ProductLaunch]) -> list[_ProductLaunch]:
    """Return the first matrix product, and up to three others whose operands are
    computed before it.
    """
    first, *others = products
    apt = [each for each in others if _can_move_to(each, first.call)]
    return [first, *apt[: _MOST - 1]]


def _can_move_to(product: _ProductLaunch, place: Operation) -> bool:
    """Return whether all operands of a matrix product are computed before the op
    `place`.
    """
    made = [value.owner for value in product.call.operands if defining_op(value)]
    return all(each.operation.is_before_in_block(place.operation) for each in made)


def _join(
    products: Sequence[_ProductLaunch], capabilities: Capabilities, outlining: Outlining
) -> bool:
    """Replace several calls by one, if the cost model says it is faster; return whether
    it did.
    """
    if len(products) == 1:
        return False
    fused, anchors = products[0].fused, [each.anchor for each in products]
    family = capabilities.family_of(fused)
    assert family.plan_joined is not None
    schedule = family.plan_joined(anchors, capabilities.machine)
    operands = [*dict.fromkeys(x for each in products for x in each.call.operands)]
    results = [value for each in products for value in each.call.results]
    most = capabilities.emitted.most_tensors
    if schedule is None or len(operands) + len(results) > most:
        return False
    place = products[0].call
    with ir.InsertionPoint(place), place.location:
        name = _define(products, operands, Fused(fused.kernel, schedule.to_plain()))
        if capabilities.emitted.why_unwritten(find(name)):
            erase(find(name))
            return False
        made = call(outlining.share_function(name), operands)
    for old, new in zip(results, made, strict=True):
        old.replace_all_uses_with(new)
    for each in products:
        each.call.operation.erase()
    return True


def _define(
    products: Sequence[_ProductLaunch], operands: Sequence[Value], fused: Fused
) -> str:
    """Define a region that runs the given regions in sequence; return its name."""

    def body(arguments: list[Value]) -> list[Value]:
        given, results = dict(zip(operands, arguments, strict=True)), list[Value]()
        for each in products:
            results += _copy(each.function, [given[x] for x in each.call.operands])
        return results

    name = define(fused.kernel, [Tensor.of(value) for value in operands], body)
    mark_fused(find(name), fused)
    return name


def _copy(function: Function, arguments: Sequence[Value]) -> list[Value]:
    """Emit copies of a function's ops on other arguments; return the values it would
    return.
    """
    block = function.entry_block
    values = dict(zip(block.arguments, arguments, strict=True))
    *ops, end = block.operations
    for op in ops:
        assert isinstance(op, GraphOp)
        copied = clone(op, [values[value] for value in op.operands])
        values.update(zip(op.results, copied, strict=True))
    return [values[value] for value in end.operands]
