"""Reductions of a tensor as those of matrices that it has, and of what these give.

    %m, %v = graph.normalize(%x) {axes = (0, 1, 2)}            // of a batch of images
  →
    %ms, %vs = graph.normalize(%x) {axes = (1, 2)}             // of each image
    %m = graph.mean(%ms) {axes = (0)}
    %v = graph.mean(%vs + (%ms - %m)**2) {axes = (0)}

The means and the variances of equally many numbers each are put together so (Chan,
Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances", 1979): variances are sums of squares of what is left without a mean, never
differences of larger numbers. Which matrices, the target says (`inner_axes`); GPUs have
sums of any parts (`part_count`).
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.ops.contraction import cast
from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.types import Shape, Tensor, element_count
from aotc.mlir import Operation, Value


def reduce_by_parts(op: Reduction, inner: Sequence[int]) -> None:
    """Reduce over some axes first, and then over the others.

    Floats that are narrower than f32 are rounded at the end.
    """
    kind, left = Tensor.of(op.y).dtype, _others(op.axes, inner)
    with before(op):
        b = Builder()
        x: Value = op.x
        wide = accumulator(kind)
        if wide != kind:
            x = b.cast(x, dtype=wide)
        parts = op.rebuild(x, axes=tuple(inner))
        value = op.rebuild(parts, axes=_places(left, inner))
        if wide != kind:
            value = b.cast(value, dtype=kind)
    op.y.replace_all_uses_with(value)
    op.operation.erase()


def normalize_by_parts(op: Normalize, inner: Sequence[int]) -> None:
    """Normalise by statistics of some axes, which are put together over the others."""
    with before(op):
        b = Builder()
        _, means, variances = b.normalize(
            op.x, axes=tuple(inner), epsilon=op.epsilon, centered=op.centered
        )
        _normalize_by(b, op, means, variances, _places(_others(op.axes, inner), inner))


def normalize_by_sums(op: Normalize, parts: int) -> list[Value]:
    """Normalise over the first axes by sums of elements and of squares, in parts.

    Args:
        op: of a tensor whose first axes are those that it normalises over.
        parts: into which their elements are divided, evenly.

    Returns:
        The sums that it is made of.
    """
    axes, left = tuple(op.axes), tuple[int, ...]()
    with before(op):
        b = Builder()
        x: Value = op.x
        if parts > 1:
            x = b.reshape(x, shape=split_first(Tensor.of(x).shape, len(axes), parts))
            axes, left = (1,), (0,)
        x = cast(b, x, Tensor.of(op.mean).dtype)
        _, means, variances = Normalize.moments(b, x, axes, centered=op.centered)
        own = [means, variances] if op.centered else [variances]
        found = [*own, *_normalize_by(b, op, means, variances, left)]
    return [each.owner.operands[0] for each in found]


def split_first(shape: Shape, axes: int, parts: int) -> Shape:
    """Return a shape with the first axes as two: parts, and the elements of each."""
    count = element_count(shape[:axes])
    assert isinstance(count, int)
    return (parts, count // parts, *shape[axes:])


def _normalize_by(
    b: Builder, op: Normalize, means: Value, variances: Value, axes: tuple[int, ...]
) -> tuple[Value, ...]:
    """Put the statistics of parts together over axes, and normalise by what is found.

    Returns the means that this takes.

    Each reader computes what it reads of the normal values from what they are made of:
    in a training step, the derivative would have them stored until then.
    """
    mean, variance = means, variances
    if axes and op.centered:
        mean = _mean(b, means, axes)
        rest = b.subtract(means, b.expand(mean, Tensor.of(means), axes))
        variances = b.add(variances, b.multiply(rest, rest))
    elif axes:
        mean = b.number(Tensor.of(op.mean), 0)
    if axes:
        variance = _mean(b, variances, axes)
    r = b.rsqrt(b.offset(variance, op.epsilon))
    for old, new in ((op.mean, mean), (op.variance, variance)):
        old.replace_all_uses_with(new)
    readers: dict[Operation, None] = {use.owner: None for use in op.y.uses}
    for reader in readers:
        with before(reader):
            y = _normal(Builder(), op, mean, r)
        for place, value in enumerate(reader.operands):
            if value == op.y:
                reader.operands[place] = y
    is_centered = op.centered
    op.operation.erase()
    if not axes:
        return ()
    return (mean, variance) if is_centered else (variance,)


def _normal(b: Builder, op: Normalize, mean: Value, r: Value) -> Value:
    """The elements without their mean, over the deviation."""
    x: Value = op.x
    wide, kind = Tensor.of(mean).dtype, Tensor.of(op.y).dtype
    if wide != kind:
        x = b.cast(x, dtype=wide)
    like = Tensor.of(x)
    if op.centered:
        x = b.subtract(x, b.expand(mean, like, op.axes))
    y = b.multiply(x, b.expand(r, like, op.axes))
    return b.cast(y, dtype=kind) if wide != kind else y


def _mean(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """The mean over axes, by a division: a constant 1 / n is rounded."""
    total = b.reduce_sum(x, axes=axes)
    count = element_count(tuple(Tensor.of(x).shape[axis] for axis in axes))
    return b.divide(total, b.number(Tensor.of(total), count))


def _others(axes: Sequence[int], inner: Sequence[int]) -> list[int]:
    return [axis for axis in sorted(axes) if axis not in inner]


def _places(axes: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    """Return axes by their place where others are gone."""
    return tuple(axis - sum(each < axis for each in gone) for axis in axes)
