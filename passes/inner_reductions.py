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
    """Replace a reduction by two: over the `inner` axes, then over the remaining ones.

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
        value = op.rebuild(parts, axes=_renumbered(left, inner))
        if wide != kind:
            value = b.cast(value, dtype=kind)
    op.y.replace_all_uses_with(value)
    op.operation.erase()


def normalize_by_parts(op: Normalize, inner: Sequence[int]) -> None:
    """Replace a normalize by statistics over `inner` axes that are combined over the
    rest.
    """
    with before(op):
        b = Builder()
        _, means, variances = b.normalize(
            op.x, axes=tuple(inner), epsilon=op.epsilon, centered=op.centered
        )
        _normalize_by(
            b, op, means, variances, _renumbered(_others(op.axes, inner), inner)
        )


def normalize_by_sums(op: Normalize, parts: int) -> list[Value]:
    """Replace a normalize over leading axes by sums of parts; return all these sums.

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
    """Return a shape whose first `axes` axes become two: (parts, elements of each
    part).
    """
    count = element_count(shape[:axes])
    assert isinstance(count, int)
    return (parts, count // parts, *shape[axes:])


def _normalize_by(
    b: Builder, op: Normalize, means: Value, variances: Value, axes: tuple[int, ...]
) -> tuple[Value, ...]:
    """Combine partial means and variances over `axes`; emit the normalization at each
    reader.

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
    """Emit `(x - mean) * r` in the dtype of the op's result; `r` is 1 / deviation."""
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
    """Emit the mean over axes as a sum divided by the count: a constant 1 / n is
    rounded.
    """
    total = b.reduce_sum(x, axes=axes)
    count = element_count(tuple(Tensor.of(x).shape[axis] for axis in axes))
    return b.divide(total, b.number(Tensor.of(total), count))


def _others(axes: Sequence[int], inner: Sequence[int]) -> list[int]:
    """Return the axes that are not in `inner`, sorted."""
    return [axis for axis in sorted(axes) if axis not in inner]


def _renumbered(axes: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    """Renumber axes after those in `gone` are removed from the shape."""
    return tuple(axis - sum(each < axis for each in gone) for axis in axes)
