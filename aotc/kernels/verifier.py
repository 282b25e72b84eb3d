"""Whether regions in IR that was read can have the kernels that they say.

A build states schedules that fit; what an editor has made of them may not, and must not
become a kernel that reads past the end of an operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotc.dialects.function_table import name_of
from aotc.dialects.functions import functions_of
from aotc.dialects.fusion import Fused, fused_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.kernels import movement
from aotc.kernels.capabilities import Capabilities, NoKernels
from aotc.kernels.chain.schedule import ChainSchedule
from aotc.kernels.chain.stages import stages_of
from aotc.kernels.contraction.joined import Joined
from aotc.kernels.families import FAMILIES, anchor_of, fetch_ahead, schedule_of
from aotc.kernels.geometry import known_geometry
from aotc.kernels.machine import Machine
from aotc.kernels.movement import transposing
from aotc.kernels.movement.schedule import MovementBlocks
from aotc.kernels.packing import packed_shape
from aotc.kernels.prologue import is_computed, why_no_prologue
from aotc.kernels.schedule import Schedule
from aotc.kernels.schedules import candidates_of
from aotc.kernels.tile import Tile, terms_at_a_time
from aotc.mlir import Function, Module, Value


def impossible_regions(
    module: Module, capabilities: Capabilities | NoKernels
) -> Iterator[str]:
    """Yield what is wrong with the regions of a module for a target, in words.

    Raises:
        KeyError, TypeError, ValueError: an attribute is malformed.
    """
    for function in functions_of(module).values():
        fused = fused_of(function)
        if fused is not None:
            with known_contracts(contracts_of(function)):
                why = _why_impossible(function, fused, capabilities)
            if why:
                yield f"'{name_of(function)}' (graph.fused): {why}"


def _why_impossible(
    function: Function, fused: Fused, capabilities: Capabilities | NoKernels
) -> str:
    if isinstance(capabilities, NoKernels):
        return f"there are no kernels for its target (graph.target): {capabilities.why}"
    machine, families = capabilities.machine, capabilities.families
    family = families.get(fused.kernel)
    if family is None:
        known = ", ".join(families)
        return f"expected a family of kernels, one of {known}; got '{fused.kernel}'"
    operations = function.entry_block.operations
    anchors = [
        op
        for op in operations
        if isinstance(op, GraphOp) and isinstance(op, family.anchors)
    ]
    if not anchors:
        return f"it has no op that kernels of the family '{fused.kernel}' compute"
    try:
        schedule = schedule_of(fused)
    except InputError as error:
        return error.message
    if isinstance(schedule, Tile) and len(anchors) > 1:
        why = _why_not_joined(anchors, schedule, machine)
    else:
        why = _why_no_schedule(anchor_of(fused, function), fused, machine)
    return why or _why_misread(function, anchors, fused, schedule)


def _why_no_schedule(anchor: GraphOp, fused: Fused, machine: Machine) -> str:
    """Why a kernel cannot be cut up as it says; "" if it can."""
    known = _schedules(anchor, fused.kernel, machine)
    if fused.tile in known:
        return ""
    such_as = f", such as {known[0]}" if known else ""
    return (
        f"expected one of the {len(known)} schedules that its kernel can have"
        f"{such_as}; got {fused.tile}"
    )


def _schedules(anchor: GraphOp, family: str, machine: Machine) -> list[dict[str, int]]:
    """The schedules that a build may choose for an op, measured ones among them."""
    found: list[dict[str, int]] = []
    for plan in (FAMILIES[family].plan, FAMILIES[family].plan_unpacked):
        planned = None if plan is None else plan(anchor, machine)
        if planned is not None:
            first = Fused(family, planned.to_plain())
            for each in (first, fetch_ahead(anchor, first)):
                known = candidates_of(each, anchor, machine)
                found += (schedule for schedule in known if schedule not in found)
    return found


def _why_not_joined(anchors: Sequence[GraphOp], tile: Tile, machine: Machine) -> str:
    """Why products cannot be cut up together so; "" if they can.

    Their schedule is that of a product that they are not, and may be another's.
    """
    sizes = tile.vectors, tile.rows, tile.block, tile.products
    are_apart = tile.interleaved == 1
    are_beside = tile.interleaved == len(anchors) and not tile.vectors % len(anchors)
    fits = tile.lanes == machine.lanes and tile.packed == 1 and tile.ahead in (0, 1)
    fits = fits and all(
        tile.terms == terms_at_a_time(known_geometry(anchor), machine)
        for anchor in anchors
    )
    if fits and min(sizes) >= 1 and (are_apart or are_beside):
        return ""
    return f"{len(anchors)} products cannot be joined as {tile.to_plain()}"


def _why_misread(
    function: Function, anchors: Sequence[GraphOp], fused: Fused, schedule: Schedule
) -> str:
    """Why a kernel would take an operand for what it is not; "" if it would not."""
    if isinstance(schedule, Tile):
        return _why_product_misread(function, anchors, schedule)
    anchor = anchor_of(fused, function)
    if isinstance(schedule, ChainSchedule):
        return _why_chain_misread(function, anchor, schedule)
    if fused.kernel == "movement":
        assert isinstance(schedule, MovementBlocks)
        is_right = movement.is_computed(function, anchor, schedule)
        return "" if is_right else "expected parts of its arguments in a concatenation"
    if fused.kernel == "transpose":
        is_right = transposing.is_computed(function, anchor)
        return "" if is_right else "expected a transpose of its argument alone"
    return ""


def _why_product_misread(
    function: Function, anchors: Sequence[GraphOp], tile: Tile
) -> str:
    """The same of products: operands are read where the first arguments are."""
    left, right = list(function.entry_block.arguments)[:2]
    first, *_ = anchors
    for anchor in anchors:
        views = FAMILIES["contraction"].views(anchor)
        lhs, rhs = (views.get(value, value) for value in anchor.operands)
        if lhs != left:
            return "expected its first argument to be the left operand of its product"
        if is_computed(anchor):
            if why := why_no_prologue(anchor, right, is_packed=bool(tile.packed)):
                return why
        elif not tile.packed and rhs not in (left, right):
            return "expected its second argument to be the right operand of its product"
    expected = Tensor.of(first.operands[1]).shape
    if tile.packed and len(anchors) == 1:
        expected = packed_shape(first, tile)
    elif tile.packed:
        own = packed_shape(first, tile.own)
        rank = len(own) - (3 if tile.terms == 1 else 4)
        _, steps, _, *pairs = own[rank:]
        panels = Joined.of(first, tile).panels
        expected = (*own[:rank], panels, steps, tile.columns, *pairs)
    found = Tensor.of(right).shape
    if found == expected:
        return ""
    return f"expected a right operand of the shape {expected}; got {found}"


def _why_chain_misread(
    function: Function, anchor: GraphOp, schedule: ChainSchedule
) -> str:
    """The same of a chain of convolutions.

    Its kernel reads the weight of the last stage, packed, where the first argument is,
    and the image and the other weights where the arguments are that its stages name.
    """
    stages, tile = stages_of(anchor), schedule.project
    arguments = list(function.entry_block.arguments)
    assert stages is not None  # or it would have no schedule
    first = stages.expand or stages.depthwise
    read: list[Value] = [first.x, first.kernel, stages.depthwise.kernel]
    if tile is not None:
        packed, *arguments = arguments
        expected = packed_shape(anchor, tile)
        if Tensor.of(packed).shape != expected:
            found = Tensor.of(packed).shape
            return f"expected a weight of the shape {expected} first; got {found}"
    if all(value in arguments for value in read):
        return ""
    return "expected its stages to read its arguments"
