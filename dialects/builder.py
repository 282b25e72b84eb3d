"""`Builder`: how rules and passes write graph ops.

`b.add(x, y)` inserts `graph.add` at the current insertion point and returns its value;
any op of the dialect can be called by its name. The methods below are short
compositions that many derivatives need.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from aotc.core import dtypes
from aotc.dialects.graph import Graph, GraphOp, as_tuple
from aotc.dialects.movement.permutations import inverse, moving
from aotc.dialects.types import Shape, Size, Tensor, element_count
from aotc.mlir import Operation, Value, ir


@cache
def _op_class(name: str) -> type[GraphOp]:
    """Return the class of the graph op `name`; raise AttributeError without one."""
    for op in Graph.operations:
        if op._op_name == name:
            found: type[GraphOp] = op
            return found
    raise AttributeError(f"the graph dialect has no op '{name}'")


class Builder:
    """Emits graph ops at the insertion point and returns their results."""

    # The ops that give several results; every other gives one.
    attention: Callable[..., list[Value]]
    attention_gradient: Callable[..., list[Value]]
    eigh: Callable[..., list[Value]]
    fft: Callable[..., list[Value]]
    lu: Callable[..., list[Value]]
    normalize: Callable[..., list[Value]]
    qr: Callable[..., list[Value]]
    svd: Callable[..., list[Value]]

    def __getattr__(self, name: str) -> Callable[..., Value]:
        """Return the function that emits the graph op `name`."""
        build: Callable[..., Value] = _op_class(name).build
        return build

    def full(self, like: Tensor, value: float) -> Value:
        """Emit a tensor of type `like` with every element `value`."""
        scalar = self.constant(value=np.array(value, dtypes.to_numpy(like.dtype)))
        return (
            self.broadcast(scalar, shape=like.shape, axes=()) if like.rank else scalar
        )

    def number(self, like: Tensor, size: Size) -> Value:
        """Emit a tensor of type `like` filled with a size, which may be symbolic.

        Integers wrap around, as sums of so many elements do.
        """
        if isinstance(size, int):
            value = self.constant(
                value=np.array(size).astype(dtypes.to_numpy(like.dtype))
            )
        else:
            value = self.dimension(size=(size,), dtype=like.dtype)
        return self.broadcast(value, shape=like.shape, axes=()) if like.rank else value

    def full_like(self, x: Value, value: float) -> Value:
        """Emit a tensor of the type of `x` with every element `value`."""
        return self.full(Tensor.of(x), value)

    def to_shape(self, x: Value, shape: Shape) -> Value:
        """Emit a reshape of `x`; return `x` itself if it already has the shape."""
        return x if Tensor.of(x).shape == shape else self.reshape(x, shape=shape)

    def to_order(self, x: Value, permutation: tuple[int, ...]) -> Value:
        """Emit a transpose of `x`; for the identity permutation return `x` itself."""
        is_same = permutation == tuple(range(len(permutation)))
        return x if is_same else self.transpose(x, permutation=permutation)

    def move_axis(self, x: Value, source: int, to: int) -> Value:
        """Emit `x` with axis `source` moved to position `to` (numpy.moveaxis)."""
        return self.transpose(x, permutation=moving(Tensor.of(x).rank, source, to))

    def spread(self, x: Value, shape: Shape, axes: Sequence[int]) -> Value:
        """Emit `x` broadcast to `shape`; axis i becomes `axes[i]`, in any order."""
        turned = self.transpose(x, permutation=inverse(axes))
        return self.broadcast(turned, shape=shape, axes=tuple(sorted(axes)))

    def part(self, x: Value, axis: int, start: Size, size: Size) -> Value:
        """Emit `x[start : start + size]` along `axis`; `x` itself if these are all."""
        shape = Tensor.of(x).shape
        if shape[axis] == size:
            return x
        before, after = (0,) * axis, (0,) * (len(shape) - axis - 1)
        sizes = (*shape[:axis], size, *shape[axis + 1 :])
        ones = (1,) * len(shape)
        return self.slice(x, start=(*before, start, *after), sizes=sizes, strides=ones)

    def pad_to(self, x: Value, shape: Shape) -> Value:
        """Emit `x` padded with zeros at the end of each axis, up to `shape`."""
        none, own = (0,) * len(shape), Tensor.of(x).shape
        high = tuple(n - m for n, m in zip(shape, own, strict=True))
        return self.pad(x, low=none, high=high, interior=none, value=0.0)

    def cut_to(self, x: Value, shape: Shape) -> Value:
        """Emit the first elements of `x` along each axis, as many as `shape` has."""
        none, ones = (0,) * len(shape), (1,) * len(shape)
        return self.slice(x, start=none, sizes=shape, strides=ones)

    def scale(self, x: Value, factor: float) -> Value:
        """Emit `x * factor` for a Python number `factor`."""
        return self.multiply(x, self.full_like(x, factor))

    def offset(self, x: Value, term: float) -> Value:
        """Emit `x + term` for a Python number `term`."""
        return self.add(x, self.full_like(x, term))

    def expand(self, x: Value, like: Tensor, axes: Sequence[int]) -> Value:
        """Emit `x`, a result of reducing `axes`, broadcast back to the type `like`."""
        kept = [axis for axis in range(like.rank) if axis not in axes]
        return self.broadcast(x, shape=like.shape, axes=tuple(kept))

    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        """Emit the mean over `axes`, which disappear; their sizes may be symbolic."""
        like = Tensor.of(x)
        total = self.reduce_sum(x, axes=tuple(axes))
        count = element_count(tuple(like.shape[axis] for axis in axes))
        if isinstance(count, int):
            return self.scale(total, 1 / count if count else np.nan)
        return self.divide(total, self.number(Tensor.of(total), count))

    def highest(self, x: Value, axes: Sequence[int]) -> Value:
        """Emit the maximum over `axes`, which disappear; -infinity of no elements."""
        like = Tensor.of(x)
        if all(like.shape[axis] != 0 for axis in axes):
            return self.reduce_max(x, axes=tuple(axes))
        rest = [size for axis, size in enumerate(like.shape) if axis not in axes]
        return self.full(like.with_shape(rest), -np.inf)

    def sum_to(self, x: Value, shape: Shape, axes: Sequence[int]) -> Value:
        """Emit `x` summed back to `shape`: the adjoint of a broadcast to `axes`."""
        source = Tensor.of(x).shape
        reduced = [a for a in range(len(source)) if a not in axes]
        reduced += [
            axis for size, axis in zip(shape, axes, strict=True) if size != source[axis]
        ]
        if not reduced:
            return x
        total = self.reduce_sum(x, axes=tuple(sorted(reduced)))
        return (
            total
            if Tensor.of(total).shape == shape
            else self.reshape(total, shape=shape)
        )

    def where_true(self, mask: Value, x: Value) -> Value:
        """Emit `x` where `mask` is true, zero elsewhere."""
        return self.select(mask, x, self.full_like(x, 0.0))

    def delay(self, x: Value, axis: int, reverse: bool, first: float = 0.0) -> Value:
        """Emit x shifted up by one along `axis` (down: `reverse`); `first` moves in."""
        none = [0] * Tensor.of(x).rank
        low, high = list(none), list(none)
        low[axis], high[axis] = (-1, 1) if reverse else (1, -1)
        return self.pad(x, low=low, high=high, interior=none, value=first)


def replace_op(op: Operation, rule: Callable[[Builder, object], object]) -> None:
    """Replace the results of an op by the values that a rule emits, and erase the op.

    Args:
        op: erased.
        rule: gets a builder and the op, returns what takes the place of its results.
    """
    with ir.InsertionPoint(op), op.location:
        values = as_tuple(rule(Builder(), op))
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()
