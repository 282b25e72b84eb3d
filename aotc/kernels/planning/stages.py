"""Stages of a chain: a depthwise convolution, and those of pixels around it.

    expand:    pixels, or windows, by a weight → (N, H, W, E)     may be missing
    depthwise: windows over each of the E channels → (N, H', W', E)
    project:   pixels by a weight → (N, H', W', F)                may be missing

Between two of them lie elementwise ops, which read nothing of the shape of an image but
what they make themselves. Nothing else reads what one stage makes for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from aotc.dialects.functions.walking import defining_op, in_order
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.types import Tensor
from aotc.kernels.elementwise import ALIKE, Elementwise
from aotc.kernels.operands import Whole
from aotc.mlir import Value

_MOST_BETWEEN = 12  # elementwise ops from one stage to the next


@dataclass(frozen=True)
class ChainStages:
    """The ops of a chain of convolutions: expand, depthwise and project.

    Args:
        expand: makes the image that the windows see.
        depthwise: the windows.
        project: reads what they make.
        between: the elementwise ops after each stage but the last, in order.
    """

    expand: ConvGeneral | None
    depthwise: ConvGeneral
    project: ConvGeneral | None
    between: Sequence[GraphOp]

    @property
    def anchor(self) -> ConvGeneral:
        """The last convolution, whose result is that of the chain."""
        return self.project or self.depthwise

    @property
    def ops(self) -> list[ConvGeneral]:
        """The convolutions that the chain has, in order."""
        return [*filter(None, (self.expand, self.depthwise, self.project))]

    @property
    def before(self) -> list[GraphOp]:
        """The ops of the chain before its last convolution, in order."""
        first = filter(None, [self.expand, self.project and self.depthwise])
        found: list[GraphOp] = in_order([*first, *self.between])
        return found


def stages_of(op: GraphOp) -> ChainStages | None:
    """Return the longest chain of convolutions that an op ends; None if none."""
    if _is_depthwise(op):
        made = _producer(op, _is_dense)
        return ChainStages(made[0], op, None, made[1]) if made else None
    if not _is_of_pixels(op):
        return None
    made = _producer(op, _is_depthwise)
    if made is None:
        return None
    depthwise, between = made
    first = _producer(depthwise, _is_dense)
    found = ChainStages(None, depthwise, op, between)
    if first is not None:
        found = ChainStages(first[0], depthwise, op, [*first[1], *between])
    # a weight that two stages read would have to be packed and as it is
    is_tied = any(op.kernel in each.operands for each in found.before)
    return None if is_tied else found


def _is_dense(op: object) -> TypeGuard[ConvGeneral]:
    """Return whether an op is a convolution of images in one group."""
    return isinstance(op, ConvGeneral) and op.groups == 1 and Tensor.of(op.x).rank == 4


def _is_of_pixels(op: object) -> TypeGuard[ConvGeneral]:
    """Return whether an op is a pointwise (1×1) convolution of images."""
    if not _is_dense(op):
        return False
    window = Tensor.of(op.kernel).shape[:-2]
    return {*window, *op.strides} == {1} and not any(op.padding)


def _is_depthwise(op: object) -> TypeGuard[ConvGeneral]:
    """Return whether an op is a depthwise convolution of images."""
    if not isinstance(op, ConvGeneral) or Tensor.of(op.x).rank != 4:
        return False
    channels = Tensor.of(op.x).shape[-1]
    return op.groups == channels == Tensor.of(op.y).shape[-1] and channels != 1


def _producer(
    op: ConvGeneral, is_wanted: Callable[[object], bool]
) -> tuple[ConvGeneral, list[GraphOp]] | None:
    """Return the convolution behind another's image, and the ops between; or None.

    None where that is no convolution that is wanted, or where something else reads what
    one of them makes.
    """
    made: ConvGeneral | None = None
    between: list[GraphOp] = []
    values: set[Value] = {op.x}
    rest: list[Value] = [op.x]
    while rest:
        found = defining_op(rest.pop())
        if isinstance(found, ConvGeneral):
            if made is not None or not is_wanted(found):
                return None
            made = found
            continue
        if not isinstance(found, GraphOp) or not _elementwise_on(op.x).takes(found):
            return None
        between.append(found)
        if len(between) > _MOST_BETWEEN:
            return None
        inner = [value for value in found.operands if _is_of_image(value)]
        rest += [value for value in dict.fromkeys(inner) if value not in values]
        values.update(inner)
    if made is None:
        return None
    for use in (use for value in values for use in value.uses):
        reader = use.owner.opview
        if reader != op and not any(result in values for result in reader.results):
            return None
    return None if op.kernel in values else (made, between)


def _is_of_image(value: Value) -> bool:
    """Return whether an elementwise operand has an element for each pixel.

    Others are vectors along the channels and numbers, which all pixels read alike.
    """
    read = _elementwise_on(value).operand(value)
    return read is None or isinstance(read, Whole)


def _elementwise_on(image: Value) -> Elementwise:
    """Return the constraints on elementwise ops between stages, for an image."""
    rank = Tensor.of(image).rank
    return Elementwise(ALIKE, range(rank - 1, rank))
