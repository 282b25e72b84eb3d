"""Families of kernels for GPUs: the ops that each takes, and its planning.

An op is planned as the term that it is by itself: a form of kernels (`emitter.FORMS`)
takes terms, whatever ops they come of. What elementwise ops follow changes nothing of
how it is cut up. What only moves elements is left to IREE, which writes parts where
they are to lie, and so are reductions of few elements, which it computes with others.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotc.core.dtypes import bits, is_float
from aotc.core.numerics import RELAXED, STRICT
from aotc.dialects.functions.fusion import fused_of, is_region
from aotc.dialects.functions.walking import (
    backward_slice,
    clone,
    copy_value,
    defining_op,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.binary import Binary
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.normalization import LogSoftmax, Normalize, Softmax
from aotc.dialects.ops.ordering import Argsort
from aotc.dialects.ops.pooling import MaxPool, SumPool
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.reduction import (
    Argmax,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
)
from aotc.dialects.ops.scattering import ScatterAdd
from aotc.dialects.ops.selection import Cast, Clamp, Select
from aotc.dialects.ops.shape import Reshape
from aotc.dialects.ops.unary import Unary
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Size, Tensor
from aotc.kernels.elementwise import (
    ALIKE,
    BY_ROWS,
    NARROW,
    OF_COLUMNS,
    OF_NUMBERS,
)
from aotc.kernels.family import KernelFamily
from aotc.kernels.gpu import movement, products, splitting, updates
from aotc.kernels.gpu.attention import GpuAttentionTile
from aotc.kernels.gpu.candidates import candidates
from aotc.kernels.gpu.elements import ElementTile
from aotc.kernels.gpu.emitter import FORMS, NoTermKernel, emit_planned
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.lifting import can_lift
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.matrices import (
    START,
    Counts,
    ProductTile,
    factor_dtype,
    nanoseconds,
)
from aotc.kernels.gpu.nibbles import pack_nibbles
from aotc.kernels.gpu.rows import ReduceTile
from aotc.kernels.gpu.scatter import ScatterTile
from aotc.kernels.gpu.selection import SelectTile
from aotc.kernels.gpu.sums import sums_before
from aotc.kernels.gpu.views import (
    dequantizing_ops,
    views_of_factors,
    views_of_parts,
    views_of_reshapes,
)
from aotc.kernels.planning.reductions import leading_axes, reduced_axes
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Term
from aotc.kernels.typical import typical_size
from aotc.mlir import Function, Value, func, ir

_FLOATS = ("f32", "bf16", "f16")
_BYTES = ("i8", "i32")  # of factors and sums
_LEAST = 1 << 12  # elements of a reduction that is worth a launch of its own
_SAVED = 0.5  # of the time of a product whose right factor is transposed
_ALONG_ROWS: tuple[type[GraphOp], ...] = (
    *(Softmax, LogSoftmax, Normalize),
    *(ReduceSum, ReduceProd, ReduceMax, ReduceMin),
)


@dataclass(frozen=True)
class _Planning:
    """A planner of ops for a GPU by one form of kernels.

    Args:
        form: its name, a key of `FORMS`.
        dtypes: that elements may have.
        precision: of products of f32, as Triton names it.
    """

    form: str
    dtypes: Sequence[str] = _FLOATS
    precision: str = "ieee"

    def plan(self, op: GraphOp, machine: Gpu) -> Any:
        """Return an op's schedule by this form of kernels; None if it has none."""
        is_known = self.precision in ("ieee", machine.relaxed)
        if not (is_known and self._is_apt(op)):
            return None
        with op.operation.context:
            term, form = _planned_term(op), FORMS[self.form]
            if term is None or not form.takes(term):
                return None
            return form.plan(term, machine.multiplying(self.precision))

    def candidates(self, op: GraphOp, machine: Gpu, planned: object) -> Sequence[Any]:
        """Return the schedules to measure for an op, the planned one first."""
        with op.operation.context:
            term = _planned_term(op)
            if term is None or not FORMS[self.form].takes(term):
                return [planned]
            own = machine.multiplying(self.precision)
            return candidates(term, self.form, own, planned)

    def _is_apt(self, op: GraphOp) -> bool:
        """Return whether an op's dtypes fit, and it is worth a launch of its own."""
        kinds = [Tensor.of(value) for value in (*op.operands, op.results[0])]
        if not all(kind.dtype in self.dtypes and 0 not in kind.shape for kind in kinds):
            return False
        if not isinstance(op, (Reduction, Argmax, Argsort)):
            return True
        if _adds_parts(op) or is_region(op.operation.block.owner.opview):
            return True
        is_small = typical_size(kinds[0].elements, _LEAST) < _LEAST
        view = defining_op(op.x)
        read = [op.x, view.x] if isinstance(view, Reshape) else [op.x]
        return not is_small and any(
            movement.is_made_in_memory(value, for_sums=True) for value in read
        )

    def workgroups(self, op: GraphOp, schedule: object) -> tuple[Size, Size]:
        """Return the number of program instances that compute an op, and 1."""
        with op.operation.context:
            term = term_of_op(op)
            assert term is not None
            return FORMS[self.form].programs(term, schedule), 1


def _adds_parts(op: GraphOp) -> bool:
    """Return whether a reduction adds up partial sums that other kernels computed."""
    if not isinstance(op, Reduction) or tuple(op.axes) != (0,):
        return False

    def is_computed(value: Value) -> bool:
        made = defining_op(value)
        return isinstance(made, GraphOp) and can_lift(made) and len(shape) > 1

    shape = Tensor.of(op.x).shape
    return any(
        isinstance(defining_op(value), (Reduction, DotGeneral))
        for value in backward_slice([op.x], is_computed)
        if Tensor.of(value).shape == shape
    )


def term_of_op(op: GraphOp) -> Term | None:
    """Return the term (loop nests) that computes an op's first result; None if none."""
    return _term_of_ops([op], [*dict.fromkeys(op.operands)])


def _planned_term(op: GraphOp) -> Term | None:
    """Return the term that an op is planned by, with its weight's dequantisation."""
    before = dequantizing_ops(op)
    if not before:
        return term_of_op(op)
    return _term_of_ops([*before, op], movement.operands_of([*before, op]))


def _term_of_ops(ops: Sequence[GraphOp], inputs: Sequence[Value]) -> Term | None:
    """Return the term that computes the last op's first result; None if there is none.

    Args:
        ops: in order.
        inputs: what they read of memory.
    """
    result = ops[-1].results[0]
    with ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            kinds = [value.type for value in inputs]
            function = func.FuncOp("alone", (kinds, [result.type]))
        block = function.add_entry_block()
        values = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for op in ops:
                made = clone(op, [copy_value(x, values) for x in op.operands])
                values.update(zip(op.results, made, strict=True))
            func.ReturnOp([values[result]])
        found = term_of(function)
    if found is None or found.module is not None:
        return found
    return Term(found.function, found.statements, module)  # which lives as long


def _row_axes(op: GraphOp) -> int:
    """Return how many of the operand's last axes form a row."""
    return len(reduced_axes(op)) if isinstance(op, _ALONG_ROWS) else 1


def _column_axes(op: GraphOp) -> int:
    """Return how many of the result's last axes form a row; 0 for a reduction."""
    return 0 if isinstance(op, Reduction) else _row_axes(op)


def _ops_of_rows(op: GraphOp) -> list[GraphOp]:
    """Return the ops before a reduction or product that its kernel computes too."""
    return sums_before(op) if isinstance(op, ReduceSum) else dequantizing_ops(op)


_PRODUCTS = _Planning("product", (*_FLOATS, *_BYTES))
_ROWS, _ATTENTION = _Planning("rows"), _Planning("attention")
_SELECTIONS = _Planning("selection", (*_FLOATS, *_BYTES, "u8"))
_SCATTERS = _Planning("scatter", (*_FLOATS, "i32", "i64"))
# f32 as three products of TF32, whose sum differs by some 2**-21 of the largest term
_RELAXED_PRODUCTS = _Planning("product", ("f32",), "tf32x3")
_RELAXED_ATTENTION = _Planning("attention", ("f32",), "tf32x3")


def _plan_joined(ops: Sequence[GraphOp], machine: Gpu) -> ProductTile | None:
    """Return the schedule of one kernel for several products; None if no faster."""
    with ops[0].operation.context:
        terms = [term for op in ops if (term := term_of_op(op)) is not None]
        anchors = map(products.anchor_of, terms)
        known = [each for each in anchors if each is not None]
        if len(known) < len(ops):
            return None
        counts, dtypes = map(Counts.of, known), map(factor_dtype, known)
        if len({replace(x, columns=0) for x in counts}) > 1 or len({*dtypes}) > 1:
            return None
        return products.plan_joined(known, machine)


def _why_not_joined(ops: Sequence[GraphOp], schedule: ProductTile, machine: Any) -> str:
    """Return why a schedule does not fit several products at once; "" if it does."""
    if _plan_joined(ops, machine) == schedule:
        return ""
    return f"{len(ops)} products cannot be joined as {schedule.to_plain()}"


def _contraction(planner: _Planning, numerics_level: str) -> KernelFamily[Any, Any]:
    """Return the family of products and convolutions allowed from a numerics level."""
    return KernelFamily(
        anchors=(DotGeneral, ConvGeneral),
        schedule=ProductTile,
        plan=planner.plan,
        candidates=planner.candidates,
        workgroups=planner.workgroups,
        epilogue=OF_COLUMNS,
        floats=_FLOATS,
        stored=lambda op: NARROW,
        lifts=can_lift,
        views=views_of_factors,
        ops_before=dequantizing_ops,
        plan_joined=_plan_joined,
        why_not_joined=_why_not_joined,
        numerics=numerics_level,
    )


def _attention(planner: _Planning, numerics_level: str) -> KernelFamily[Any, Any]:
    """Return the family of attentions allowed from a numerics level."""
    return KernelFamily(
        anchors=(Attention,),
        schedule=GpuAttentionTile,
        views=views_of_parts,
        plan=planner.plan,
        candidates=planner.candidates,
        workgroups=planner.workgroups,
        floats=_FLOATS,
        all_results=True,
        numerics=numerics_level,
    )


_PLANNING = {
    "movement": _Planning("elements"),
    "updates": _Planning("updates"),
    "scatter": _SCATTERS,
    "selection": _SELECTIONS,
    "contraction-tf32x3": _RELAXED_PRODUCTS,
    "attention-tf32x3": _RELAXED_ATTENTION,
    "contraction": _PRODUCTS,
    "attention": _ATTENTION,
    "pooling": _ROWS,
    "rows": _ROWS,
}

# of those that compute one op, the first with a plan for it is taken
FAMILIES: dict[str, KernelFamily[Any, Any]] = {
    "contraction-tf32x3": _contraction(_RELAXED_PRODUCTS, RELAXED),
    "attention-tf32x3": _attention(_RELAXED_ATTENTION, RELAXED),
    "contraction": _contraction(_PRODUCTS, STRICT),
    "attention": _attention(_ATTENTION, STRICT),
    "pooling": KernelFamily(
        anchors=(MaxPool, SumPool),
        schedule=ReduceTile,
        plan=_ROWS.plan,
        workgroups=_ROWS.workgroups,
        epilogue=BY_ROWS,
        floats=_FLOATS,
        lifts=can_lift,
    ),
    # softmax, norms and reductions, and products of few rows or columns
    "rows": KernelFamily(
        anchors=(*_ALONG_ROWS, DotGeneral, ConvGeneral),
        schedule=ReduceTile,
        plan=_ROWS.plan,
        candidates=_ROWS.candidates,
        workgroups=_ROWS.workgroups,
        epilogue=BY_ROWS,
        floats=_FLOATS,
        lifts=can_lift,
        views=views_of_reshapes,
        ops_before=_ops_of_rows,
        column_axes=_column_axes,
        all_results=True,
        prologue=ALIKE,
        prologue_axes=_row_axes,
    ),
    "scatter": KernelFamily(
        anchors=(ScatterAdd,),
        schedule=ScatterTile,
        plan=_SCATTERS.plan,
        workgroups=_SCATTERS.workgroups,
        epilogue=BY_ROWS,
        floats=_FLOATS,
        lifts=can_lift,
        knows_constants=True,
    ),
    # argmax, and the first few of rows
    "selection": KernelFamily(
        anchors=(Argmax, Argsort),
        schedule=SelectTile,
        plan=_SELECTIONS.plan,
        workgroups=_SELECTIONS.workgroups,
        epilogue=BY_ROWS,
        floats=_FLOATS,
        stored=lambda op: ("i64",),
        lifts=can_lift,
        prologue=ALIKE,
        prologue_axes=_row_axes,
    ),
    "movement": KernelFamily(
        anchors=movement.ANCHORS,
        schedule=ElementTile,
        plan=lambda op, machine: movement.plan(op, machine, _term_of_ops),
        workgroups=lambda op, tile: movement.workgroups(op, tile, _term_of_ops),
        floats=_FLOATS,
        lifts=can_lift,
        views=movement.views_of_repeats,
        ops_before=movement.ops_before,
        knows_constants=True,
        leaves_states=False,
        is_last=True,
    ),
    "updates": KernelFamily(
        anchors=(Unary, Binary, Select, Clamp, Cast),
        schedule=ElementTile,
        plan=updates.plan_op,
        workgroups=updates.workgroups,
        epilogue=OF_NUMBERS,
        floats=_FLOATS,
        lifts=can_lift,
        memory_parts=updates.safe_parts,
        why_misread=updates.why_misread,
        is_formed_apart=True,
    ),
}


def part_count(op: GraphOp, machine: Gpu) -> int:
    """Return how many partial sums make a reduction fastest on a chip; 1 for others.

    Of a norm, those of its statistics.
    """
    if not isinstance(op, (DotGeneral, Reduction, Normalize)):
        return 1
    dtypes = (*_FLOATS, *_BYTES) if isinstance(op, DotGeneral) else _FLOATS
    kinds = [Tensor.of(value) for value in (*op.operands, op.results[0])]
    if not all(kind.dtype in dtypes and 0 not in kind.shape for kind in kinds):
        return 1
    if not isinstance(op, DotGeneral) and not leading_axes(op):
        return 1
    return splitting.part_count(op, machine, term_of_op)


def factor_orders(
    op: DotGeneral, machine: Gpu, numerics: str, *, by_weight: bool
) -> dict[int, tuple[int, ...]]:
    """Return {1: axis order} in which a product reads its right factor faster; else {}.

    Threads that multiply numbers one by one read neighbours of shared memory where
    columns are neighbours there; where they are not, products of f32 took 1.5 to 3.2
    times as long on an H200. Instructions for matrices take either order. A product of
    few rows took 1.9 times as long in f32, and 2.6 in bf16, where what it sums over did
    not lie side by side; only weights are worth a transpose for that.

    Args:
        op: the product.
        machine: the chip.
        numerics: what results may be.
        by_weight: whether the build transposes the factor, and no call.
    """
    kind = Tensor.of(op.rhs)
    if Tensor.of(op.lhs).dtype != kind.dtype or not is_float(kind.dtype):
        return {}
    if kind.rank == 0 or dequantizing_ops(op):
        return {}
    free = free_axes(kind.rank, op.rhs_batch, op.rhs_contract)
    is_along_depth = kind.rank - 1 in op.rhs_contract
    schedule = _PRODUCTS.plan(op, machine)
    if schedule is None:
        is_thin = by_weight and not is_along_depth and free and op.rhs_contract
        is_more = typical_size(kind.elements, 0) > typical_size(
            Tensor.of(op.lhs).elements, 1
        )
        if is_thin and is_more and _ROWS.plan(op, machine) is not None:
            return {1: (*op.rhs_batch, *free, *op.rhs_contract)}
        return {}
    own = machine.multiplying(machine.precision(numerics))
    if kind.dtype not in own.scalar or not is_along_depth:
        return {}
    if by_weight or _gains_by_transposing(op, schedule, machine):
        return {1: (*op.rhs_batch, *op.rhs_contract, *free)}
    return {}


def pack_factors(op: GraphOp, weights: Container[Value]) -> None:
    """Rewrite a product's 4-bit weight to two integers in a byte, in place.

    Args:
        op: the product, or another op.
        weights: what weights alone decide.
    """
    for each in dequantizing_ops(op):
        if isinstance(each, Dequantize):
            pack_nibbles(each, weights)


def _gains_by_transposing(op: DotGeneral, tile: ProductTile, machine: Gpu) -> bool:
    """Return whether transposing the right factor in each call makes it faster."""
    kind = Tensor.of(op.rhs)
    with op.operation.context:
        term = term_of_op(op)
        anchor = None if term is None else products.anchor_of(term)
        if anchor is None:
            return False
        counts = Counts.of(anchor)
    saved = _SAVED * nanoseconds(tile, counts, kind.dtype, machine)
    moved = 2 * typical_size(kind.elements, 1 << 20) * bits(kind.dtype) // 8
    return saved > START + moved / machine.bandwidth


def kernel_of_region(function: Function) -> GpuKernel | NoTermKernel:
    """Return the GPU kernel of a region by its schedule, or why it has none."""
    fused = fused_of(function)
    assert fused is not None
    with function.context, known_contracts(contracts_of(function)):
        term = term_of(function)
    if term is None:
        return NoTermKernel("an op of it is no nest of loops")
    planning, schedule = (
        _PLANNING[fused.kernel],
        FAMILIES[fused.kernel].schedule_of(fused),
    )
    name = f"aotc_{fused.kernel}".replace("-", "_")
    return emit_planned(term, name, planning.form, schedule, planning.precision)


def why_unwritten(function: Function) -> str:
    """Return why no GPU kernel can be written for a region; "" if one can."""
    found = kernel_of_region(function)
    return found.why if isinstance(found, NoTermKernel) else ""


def why_no_schedule(op: GraphOp) -> str:
    """Return the reason why no GPU kernel family plans an op."""
    kinds = [Tensor.of(value) for value in (*op.operands, op.results[0])]
    others = sorted({kind.dtype for kind in kinds} - {*_FLOATS, *_BYTES})
    if others:
        return f"its elements are {', '.join(others)}, not {', '.join(_FLOATS)}"
    if any(0 in kind.shape for kind in kinds):
        return "it has no elements"
    return "no form of kernels has its loops, or it is too small to gain by one"
