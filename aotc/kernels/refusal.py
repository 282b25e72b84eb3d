"""Reasons why products, convolutions, attentions, norms and softmaxes have no
kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.entries import entries_of
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.functions.walking import users_of
from aotc.dialects.graph import GraphOp, where_of
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.contraction import DotGeneral, free_axes, is_summed_in_parts
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.normalization import AlongAxis, Normalize
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Size, SymbolicDim, Tensor
from aotc.kernels.capabilities import Capabilities, NoTargetKernels
from aotc.kernels.geometry import geometry_of
from aotc.kernels.gpu.families import why_no_schedule as why_no_schedule_on_gpus
from aotc.kernels.layout import layout_of
from aotc.kernels.machine import Machine
from aotc.kernels.planning import dequantized
from aotc.kernels.planning.reductions import reduced_axes
from aotc.kernels.scopes import scopes_of
from aotc.mlir import Function, Module, Value

OF_WEIGHTS = "it is of weights alone"


@dataclass(frozen=True)
class KernelRefusal:
    """An op without kernel, left to IREE's code generation, with the reason.

    Args:
        op: its name.
        why: it has no kernel.
        where: the user's line, or "".
    """

    op: str
    why: str
    where: str


def weights_dequantized_in(
    module: Module, capabilities: Capabilities | NoTargetKernels
) -> list[KernelRefusal]:
    """Return the weights of a module that each call dequantises, with reasons.

    Args:
        module: with its regions.
        capabilities: of the target that they are for.
    """
    functions = functions_of(module)
    scopes: dict[str, Container[Value]] = {}
    for entry in entries_of(module):
        scopes.update(scopes_of(functions, entry.name))
    return [
        each
        for name, weights in scopes.items()
        for each in dequantized_in(functions[name], weights, capabilities)
    ]


def refusals_in(
    module: Module,
    capabilities: Capabilities | NoTargetKernels,
    left_out: Container[str] = (),
    *,
    folds_weights: bool = False,
) -> dict[str, list[KernelRefusal]]:
    """Return, by entry, the ops left without kernel after fusion, with reasons.

    Args:
        module: with its regions.
        capabilities: of the target that they are for.
        left_out: families of kernels that no region was formed for.
        folds_weights: whether the build computes what is of weights alone
            (`fold-parameters`), so that nothing of it is left to anyone.
    """
    functions = functions_of(module)
    found: dict[str, list[KernelRefusal]] = {}
    for entry in entries_of(module):
        scopes = scopes_of(functions, entry.name)
        found[entry.name] = [
            refusal
            for name in reachable_functions(functions, entry.name)
            for refusal in _refusals_in(
                functions[name], scopes.get(name), capabilities, left_out
            )
            if not (folds_weights and refusal.why == OF_WEIGHTS)
        ]
    return found


def _refusals_in(
    function: Function,
    weights: Container[Value] | None,
    capabilities: Capabilities | NoTargetKernels,
    left_out: Container[str],
) -> list[KernelRefusal]:
    """Return the ops without kernel of a function, under its symbols' contracts."""
    with function.context, known_contracts(contracts_of(function)):
        return [*_refusals(function, weights, capabilities, left_out)]


def _refusals(
    function: Function,
    weights: Container[Value] | None,
    capabilities: Capabilities | NoTargetKernels,
    left_out: Container[str],
) -> Iterator[KernelRefusal]:
    """Yield the ops without kernel of a function; `weights` is None in branches."""
    if function.is_external or is_region(function):
        return
    yield from dequantized_in(function, weights or (), capabilities, left_out)
    for op in function.entry_block.operations:
        if isinstance(op, GraphOp) and isinstance(op, tuple(_EXPECTED)):
            if weights is None:
                why = "in a branch or a function that stays a call"
            elif op.results[0] in weights:
                why = OF_WEIGHTS
            else:
                why = why_refused(op, capabilities, left_out)
            name = op.operation.name.removeprefix("graph.")
            yield KernelRefusal(name, why, where_of(op) or "")


# ---- weights that are dequantised ---------------------------------------------------


def dequantized_in(
    function: Function,
    weights: Container[Value],
    capabilities: Capabilities | NoTargetKernels,
    left_out: Container[str] = (),
) -> Iterator[KernelRefusal]:
    """Yield the weights that each call of a function dequantises to floats.

    Args:
        function: an entry, or the body of a loop, once its regions are formed.
        weights: what weights alone decide in it.
        capabilities: of the target.
        left_out: families of kernels that no region was formed for.
    """
    for op in function.entry_block.operations:
        if not isinstance(op, Dequantize) or op.y not in weights:
            continue
        readers = users_of([op.y])
        if not all(isinstance(each, Dequantize) for each in readers):  # of its scales
            why = _why_dequantized(op, capabilities, left_out)
            yield KernelRefusal("dequantize", why, where_of(op) or "")


def _why_dequantized(
    op: Dequantize,
    capabilities: Capabilities | NoTargetKernels,
    left_out: Container[str],
) -> str:
    """Return the reason why no kernel reads the integers of a weight itself."""
    if isinstance(capabilities, NoTargetKernels):
        return capabilities.why
    readers = users_of([op.y])
    products = [each for each in readers if isinstance(each, DotGeneral)]
    if len(products) < len(readers):
        return "something else than a product reads it"
    if capabilities.emitted.on_gpus:
        return "there is no code for the product and the ops around it"
    for product in products:
        geometry = geometry_of(product)
        why = geometry and dequantized.why_not(product, op, geometry)
        return why or why_refused(product, capabilities, left_out)
    return "nothing reads it"


def why_refused(
    op: GraphOp,
    capabilities: Capabilities | NoTargetKernels,
    left_out: Container[str] = (),
) -> str:
    """Return the reason why an op outside of all regions has no kernel."""
    if isinstance(capabilities, NoTargetKernels):
        return capabilities.why
    if not any(isinstance(op, x.anchors) for x in capabilities.families.values()):
        return "the target has no kernels for such an op"
    return _why_no_schedule(op, capabilities, left_out)


def _why_no_schedule(
    op: GraphOp, capabilities: Capabilities, left_out: Container[str]
) -> str:
    """Return the reason why no kernel family plans a schedule for an op."""
    fused = capabilities.choose(op, by_weight=True)
    if fused is not None and fused.kernel in left_out:
        return f"kernels of the family '{fused.kernel}' are left out"
    if fused is not None and capabilities.emitted.on_gpus:
        return "there is no code for what it and the ops around it compute"
    if fused is not None:
        return (
            "its right operand is no weight, its columns are not side by side, and its "
            "rows are too few to bring it into another order in each call"
        )
    if capabilities.emitted.on_gpus:
        return why_no_schedule_on_gpus(op)
    types = [Tensor.of(value) for value in (*op.operands, *op.results)]
    expected = next(row for kind, row in _EXPECTED.items() if isinstance(op, kind))
    if any(isinstance(size, SymbolicDim) for size in expected.sizes_of_one(op)):
        return f"only a call decides a size, beside the number of {expected.many}"
    *first, last = known = _dtypes_of(op, capabilities)
    others = sorted({kind.dtype for kind in types} - {*known})
    if others:
        needed = f"{', '.join(first)} or {last}" if first else last
        return f"its elements are {', '.join(others)}, not {needed}"
    if any(0 in kind.shape for kind in types):
        return "it has no elements"
    return expected.why(op, capabilities.machine)


def _dtypes_of(op: GraphOp, capabilities: Capabilities) -> Sequence[str]:
    """Return the dtypes of elements that kernels for an op read and write."""
    machine, families = capabilities.machine, capabilities.families.values()
    apt = [each for each in families if isinstance(op, each.anchors)]
    found = max((each.dtypes(op, machine) for each in apt), key=len)
    dtypes = [Tensor.of(value).dtype for value in op.operands]
    if isinstance(op, DotGeneral):
        known = machine.multipliers_of(dtypes[0], dtypes[1])
        if any(mma.sums == "i32" for mma in known):
            return (*found, *dtypes)
    return [kind for kind in found if kind != "i32"]


_OTHER = "it is too small or narrow to gain by a kernel, or no schedule fits its shape"


def _sizes_of_columns(op: DotGeneral) -> list[Size]:
    """Return the sizes of the columns of a product's right operand (N)."""
    sizes = Tensor.of(op.rhs).shape
    return [sizes[n] for n in free_axes(len(sizes), op.rhs_batch, op.rhs_contract)]


def _why_product(op: DotGeneral, machine: Machine) -> str:
    """Return the reason why a product of known dtypes and sizes has no kernel."""
    if not op.lhs_contract:
        return "it sums over no axis"
    geometry = geometry_of(op)
    if geometry is not None and not geometry.is_float:
        known = machine.multipliers_of(geometry.dtype, geometry.right_dtype)
        terms = [mma.terms for mma in known]
        if not any(map(geometry.has_runs_of, terms)):
            return (
                f"its terms do not lie beside each other by {min(terms)}, as they are "
                "multiplied"
            )
    layout = layout_of(op)
    if layout is None or layout.splits_rows:
        return "rows of its left operand do not lie at one distance from each other"
    if layout.right is None and isinstance(layout.terms, SymbolicDim):
        return "its right operand has columns of a length that only a call decides"
    return "it is added in parts, for precision" if is_summed_in_parts(op) else _OTHER


def _sizes_of_row(op: AlongAxis | Normalize) -> list[Size]:
    """Return the sizes of the axes that a reduction, norm or softmax goes along."""
    return [Tensor.of(op.x).shape[axis] for axis in reduced_axes(op)]


def _why_rows(op: AlongAxis | Normalize, _: Machine) -> str:
    """Return the reason why a norm or softmax of known sizes has no kernel."""
    axes, rank = reduced_axes(op), Tensor.of(op.x).rank
    if axes != tuple(range(rank - len(axes), rank)):
        return "it does not go along the last axes"
    if not any(True for _ in op.results[0].uses):
        return "only its mean or its variance is read"
    return _OTHER


def _sizes_of_image(op: ConvGeneral) -> list[Size]:
    """Return the sizes of an image of a convolution, and of its weight."""
    return [*Tensor.of(op.x).shape[1:], *Tensor.of(op.kernel).shape]


def _why_convolution(op: ConvGeneral, _: Machine) -> str:
    """Return the reason why a convolution of known sizes has no kernel."""
    if Tensor.of(op.x).rank not in (3, 4):
        return "it has other than one or two spatial axes"
    if min(op.padding) < 0:
        return "its padding is negative"
    kernel: Any = Tensor.of(op.kernel).shape
    dtype = Tensor.of(op.x).dtype
    is_depthwise = op.groups == kernel[-1] and kernel[-2] == 1
    if op.groups != 1 and dtype != "f32" and not is_depthwise:
        return f"it has {op.groups} groups, of {dtype}"
    channels, features = kernel[-2], kernel[-1] // op.groups
    if op.groups == 1 or features >= channels:
        return _OTHER
    return (
        f"{op.groups} groups of {channels} channels and {features} features fill too "
        "little of a vector"
    )


def _sizes_of_heads(op: Attention) -> list[Size]:
    """Return an attention's sizes but for batch and positions."""
    return [*Tensor.of(op.query).shape[2:], *Tensor.of(op.key).shape[2:]]


def _why_attention(op: Attention, _: Machine) -> str:
    """Return the reason why an attention of known sizes has no kernel."""
    is_read = any(True for _ in op.y.uses)
    return _OTHER if is_read else "only the logarithms of its sums are read"


@dataclass(frozen=True)
class _Expected:
    """A row of the table of op classes that are expected to have a kernel.

    Args:
        many: what there are many of: a call may decide their number.
        sizes_of_one: those of one of them, which are to be known.
        why: no kernel is for it, though sizes and dtypes fit.
    """

    many: str
    sizes_of_one: Callable[[Any], Sequence[Size]]
    why: Callable[[Any, Machine], str]


_OF_ROWS = _Expected("rows", _sizes_of_row, _why_rows)

# reductions are not expected to: many are small parts of something else
_EXPECTED: dict[type[GraphOp], _Expected] = {
    DotGeneral: _Expected("rows", _sizes_of_columns, _why_product),
    ConvGeneral: _Expected("images", _sizes_of_image, _why_convolution),
    Attention: _Expected("positions", _sizes_of_heads, _why_attention),
    AlongAxis: _OF_ROWS,
    Normalize: _OF_ROWS,
}
