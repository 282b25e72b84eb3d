"""Collectives between the devices along an axis, named as in `jax.lax`.

    devices = collectives.Axis("data", 4)

    @aotc.entry(x=aotc.Spec((64, 16), "f32"))       # a quarter of the batch
    def step(x):
        gradients = aotc.grad(loss)(x)
        return collectives.all_reduce(gradients, devices, "mean")

All devices run the same program on their own inputs. Every function takes a pytree of
arrays and has a derivative: what it sends, the derivative sends back. Code for
processors runs them between threads and processes (docs/parallel.md); the axes of a
model that is compiled have one name and one size. `aotc.reference.evaluate_devices`
evaluates them without a compiler. With an axis of one device all of them are
identities, on every target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aotc.core import dtypes
from aotc.core.pytree import PyTree, flatten
from aotc.numpy import concatenate, reshape
from aotc.numpy.axes import one_axis
from aotc.tracing.array import Array
from aotc.tracing.calls import guard
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "Axis",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_index",
    "permute",
    "reduce_scatter",
    "send",
]

Tree = PyTree

_BUCKET_BYTES = 4 << 20  # of arrays that one exchange reduces together


@dataclass(frozen=True)
class Axis:
    """A named axis of devices, over which collectives run.

    Args:
        name: of the axis.
        size: how many devices it has.
    """

    name: str
    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            fail("bad-axis", f"expected the name of an axis; got {self.name!r}")
        if isinstance(self.size, bool) or not isinstance(self.size, int):
            fail("bad-size", f"expected a number of devices; got {self.size!r}")
        if self.size < 1:
            fail("bad-size", f"expected at least one device; got {self.size}")


def axis_index(devices: Axis) -> Array:
    """Return this device's index along the axis, an i32 scalar."""
    return emit("axis_index", **_axis_attributes(devices))


def all_reduce(x: Tree, devices: Axis, kind: str = "sum") -> Tree:
    """Return the sum, max, min or mean over all devices, on each of them.

    Args:
        x: arrays of numbers; of floats for a mean.
        devices: the axis.
        kind: "sum", "max", "min" or "mean".

    Raises:
        InputError: `kind` is none of these, or the dtype has none of this kind.
    """
    attributes = _axis_attributes(devices)

    def reduce(array: Array) -> Array:
        """Emit the collective for one array."""
        if kind != "mean":
            return emit("all_reduce", array, **attributes, kind=kind)
        if not dtypes.is_float(array.dtype):
            fail(
                "dtype-mismatch", f"expected floats to take a mean of; got {array.type}"
            )
        return emit("all_reduce", array, **attributes, kind="sum") / devices.size

    leaves, structure = flatten(x)
    arrays = [lift(leaf) for leaf in leaves]
    if devices.size == 1:
        return structure.unflatten([reduce(array) for array in arrays])
    return structure.unflatten(_in_buckets(reduce, arrays))


def all_gather(x: Tree, devices: Axis, *, axis: int = 0) -> Tree:
    """Concatenate the arrays of all devices along `axis`, on each device.

    Args:
        x: arrays.
        devices: the axis of devices.
        axis: the axis of the arrays, which gets `devices.size` times as long.
    """
    return _on_leaves(
        lambda array: emit(
            "all_gather", array, **_axis_attributes(devices), axis=one_axis(array, axis)
        ),
        x,
    )


def reduce_scatter(x: Tree, devices: Axis, *, axis: int = 0) -> Tree:
    """Sum arrays over all devices; return to each device its block along `axis`.

    Args:
        x: arrays of numbers.
        devices: the axis of devices.
        axis: the axis of the arrays, which is cut into `devices.size` blocks.
    """
    return _on_leaves(
        lambda array: emit(
            "reduce_scatter",
            array,
            **_axis_attributes(devices),
            axis=one_axis(array, axis),
        ),
        x,
    )


def all_to_all(
    x: Tree, devices: Axis, *, split_axis: int = 0, concat_axis: int = 0
) -> Tree:
    """Send block d of each device's array to device d, and join the received blocks.

    Args:
        x: arrays.
        devices: the axis of devices.
        split_axis: the axis that is cut into `devices.size` blocks.
        concat_axis: the axis along which they are joined, in the order of the senders.
    """

    def exchange(array: Array) -> Array:
        axes = {
            "split_axis": one_axis(array, split_axis),
            "concat_axis": one_axis(array, concat_axis),
        }
        return emit("all_to_all", array, **_axis_attributes(devices), **axes)

    return _on_leaves(exchange, x)


def permute(x: Tree, devices: Axis, pairs: Sequence[tuple[int, int]]) -> Tree:
    """Move arrays between devices by `pairs` of (source, target); zeros without a
    source.

    Args:
        x: arrays.
        devices: the axis of devices.
        pairs: each device sends and receives at most once.
    """
    try:
        ends = [(int(source), int(target)) for source, target in pairs]
    except (TypeError, ValueError):
        fail("bad-pairs", f"expected pairs of device numbers; got {pairs!r}")
    sources, targets = (tuple(pair[i] for pair in ends) for i in (0, 1))
    return _on_leaves(
        lambda array: emit(
            "permute",
            array,
            **_axis_attributes(devices),
            sources=sources,
            targets=targets,
        ),
        x,
    )


def send(x: Tree, devices: Axis, source: int, target: int) -> Tree:
    """Send the array of device `source` to device `target`; zeros on all others.

    Sending and receiving are one operation, a permutation with one pair: all devices
    run the same program, so the sender's call is also the receiver's.
    """
    return permute(x, devices, [(source, target)])


def _in_buckets(
    reduce: Callable[[Array], Array], arrays: Sequence[Array]
) -> list[Array]:
    """Apply an elementwise collective to arrays, with small ones concatenated.

    An exchange takes a processor about as long as to copy a megabyte, however small it
    is. The elements stay what they are, whatever they are joined with.
    """
    found = list(arrays)
    for bucket in _buckets(arrays):
        if len(bucket) == 1:
            found[bucket[0]] = reduce(arrays[bucket[0]])
            continue
        rows = [reshape(arrays[number], (-1,)) for number in bucket]
        whole, start = reduce(concatenate(rows)), 0
        for number in bucket:
            shape = arrays[number].type.shape
            end = start + math.prod(size for size in shape if isinstance(size, int))
            found[number] = reshape(whole[start:end], shape)
            start = end
    return found


def _buckets(arrays: Sequence[Array]) -> list[list[int]]:
    """Group array numbers to concatenate: of one dtype and static shapes, up to 4
    MiB.
    """
    buckets: list[list[int]] = []
    last: dict[str, tuple[list[int], int]] = {}  # the bucket of a dtype, and its bytes
    for number, array in enumerate(arrays):
        size = _fixed_bytes(array)
        if size is None or size >= _BUCKET_BYTES:
            buckets.append([number])
            continue
        bucket, filled = last.get(array.type.dtype, ([], 0))
        if not bucket or size + filled > _BUCKET_BYTES:
            bucket, filled = [], 0
            buckets.append(bucket)
        bucket.append(number)
        last[array.type.dtype] = bucket, filled + size
    return buckets


def _fixed_bytes(array: Array) -> int | None:
    """Return the bytes of an array; None if its shape is symbolic."""
    sizes = [size for size in array.type.shape if isinstance(size, int)]
    if len(sizes) < array.ndim:
        return None
    return math.prod(sizes) * dtypes.bits(array.type.dtype) // 8


def _axis_attributes(devices: Axis) -> dict[str, object]:
    """Return a device axis as attributes of a collective op."""
    if not isinstance(devices, Axis):
        fail("bad-axis", f"expected an aotc.collectives.Axis; got {devices!r}")
    return {"axis_name": devices.name, "axis_size": devices.size}


def _on_leaves(function: Callable[[Array], Array], tree: Tree) -> Tree:
    """Apply a function to the leaves of a tree as Arrays; return the tree of
    results.
    """
    leaves, structure = flatten(tree)
    return structure.unflatten([function(lift(leaf)) for leaf in leaves])


guard(globals(), __all__)
