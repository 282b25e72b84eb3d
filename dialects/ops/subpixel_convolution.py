"""Convolutions of images with zeros between their elements, without these zeros.

Note [sub-pixel convolution]: a transposed convolution of stride s is written as one of
stride 1 over an image with s - 1 zeros between each two elements. Along an axis of such
an image, windows at s neighbouring places, its phases, meet elements at other offsets:
each multiplies a part of the kernel's elements only, the rest meet zeros. So the phases
are features of a convolution of the image itself, with a kernel of 1 / s of the length,
laid beside each other afterwards (the sub-pixel convolution of Shi et al. 2016, section
3.2). That is 1 / s of the work for each axis, and no image with zeros in memory.

With z[low + i * s] = x[i], y[o] = sum over k of z[o + k] * w[k], o = q * s + r, and
low % s = s - 1, element k = m * s + (s - 1 - r) of the kernel meets element
q + m - low // s of x. Kernels that s divides have as many elements for each phase.
Others, as in the derivative of a convolution of 3×3 elements and steps of 2, would need
zeros in some, which times an infinite element of x are NaN. So each phase is a
convolution of its own with the elements that it meets, if there are few phases and they
are worth it; one that meets none is zeros. (An infinite element of a kernel meets no
zeros any more: NaN it makes only where a transposed convolution would.)
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.types import Size, SymbolicDim, Tensor
from aotc.mlir import Value

if TYPE_CHECKING:
    from aotc.dialects.ops.convolution import ConvGeneral
    from aotc.dialects.ops.padding import Pad


_MOST_PHASES = 4  # with a convolution for each
_LEAST_FLOPS = 1 << 20  # of an image with zeros, for that


class SubpixelAxis(NamedTuple):
    """Spatial axis of a transposed convolution, to be computed without zeros.

    Attributes:
        phases: windows at different offsets, s; 1 where the image has no zeros.
        window: elements of the kernel for each phase.
        low: padding before.
        high: padding after.
        size: of the result that is asked for.
    """

    phases: int
    window: int
    low: int
    high: int
    size: int


def without_inner_zeros(b: Builder, op: "ConvGeneral", pad: "Pad") -> Value | None:
    """Emit the convolution of a padded image without its inner zeros; or None.

    None where the image has none, or they cannot be avoided: see the note above.
    """
    if not any(pad.interior) or pad.value != 0.0 or op.groups != 1:
        return None
    if {*op.strides, *op.dilation} != {1} or not _is_spatial(pad):
        return None
    if {*Tensor.of(op.kernel).shape[:-2]} == {1} and not any(op.padding):
        return _spread(b, op, pad)
    axes = [_axis(op, pad, number) for number in range(1, Tensor.of(op.x).rank - 1)]
    found = [axis for axis in axes if axis is not None]
    if len(found) == len(axes):
        return _from_phases(b, pad.x, op.kernel, found)
    each = [_phases(op, pad, number) for number in range(1, Tensor.of(op.x).rank - 1)]
    if any(not phases for phases in each) or not _is_worthwhile(op, each):
        return None
    return _by_phases(b, op, pad.x, each)


def _spread(b: Builder, op: "ConvGeneral", pad: "Pad") -> Value:
    """Emit the results of a 1×1 kernel with zeros in between and around."""
    y = b.conv_general(
        pad.x,
        op.kernel,
        strides=op.strides,
        padding=op.padding,
        dilation=op.dilation,
        groups=1,
    )
    ends = {"low": pad.low, "high": pad.high, "interior": pad.interior}
    return b.pad(y, **ends, value=0.0)


def _is_spatial(pad: "Pad") -> bool:
    """Return whether only spatial axes are padded."""
    ends = [(pad.low[n], pad.high[n], pad.interior[n]) for n in (0, -1)]
    return all(each == (0, 0, 0) for each in ends)


def _axis(op: "ConvGeneral", pad: "Pad", number: int) -> SubpixelAxis | None:
    """Return the SubpixelAxis of axis `number` of the images, or None.

    None where elements are cut off, also if zeros are put in their place.
    """
    before, after = op.padding[2 * number - 2 : 2 * number]
    low, high = pad.low[number], pad.high[number]
    if (
        isinstance(low, SymbolicDim)
        or isinstance(high, SymbolicDim)
        or min(low, high) < 0
    ):
        return None
    return _axis_of_sizes(
        Tensor.of(pad.x).shape[number],
        pad.interior[number] + 1,
        Tensor.of(op.kernel).shape[number - 1],
        low + before,
        high + after,
    )


def _axis_of_sizes(
    count: Size, phases: int, window: Size, low: int, high: int
) -> SubpixelAxis | None:
    """Return a SubpixelAxis for sizes of image, kernel and outer zeros, or None."""
    if isinstance(count, SymbolicDim) or isinstance(window, SymbolicDim):
        return None
    size = (count - 1) * phases + 1 + low + high - window + 1
    if count == 0 or size <= 0 or window % phases or low % phases != phases - 1:
        return None
    taps, start = window // phases, low // phases
    end = -(-size // phases) - count - start + taps - 1
    return SubpixelAxis(phases, taps, start, end, size) if end >= 0 else None


def _from_phases(
    b: Builder, x: Value, kernel: Value, axes: list[SubpixelAxis]
) -> Value:
    """Emit a convolution to features of every phase, which are then interleaved."""
    spatial, features = len(axes), Tensor.of(kernel).shape[-1]
    phases = [axis.phases for axis in axes]
    y = b.conv_general(
        x,
        _kernel_of_phases(b, kernel, axes),
        strides=(1,) * spatial,
        padding=tuple(n for axis in axes for n in (axis.low, axis.high)),
        dilation=(1,) * spatial,
        groups=1,
    )
    images, *counts, _ = Tensor.of(y).shape
    y = b.reshape(y, shape=(images, *counts, *phases, features))
    pairs = [(1 + n, 1 + spatial + n) for n in range(spatial)]
    order = (0, *(n for pair in pairs for n in pair), 1 + 2 * spatial)
    wholes = [n * s for n, s in zip(counts, phases, strict=True)]
    y = b.reshape(b.transpose(y, permutation=order), shape=(images, *wholes, features))
    wanted = (images, *(axis.size for axis in axes), features)
    return y if Tensor.of(y).shape == wanted else b.cut_to(y, wanted)


def _kernel_of_phases(b: Builder, kernel: Value, axes: list[SubpixelAxis]) -> Value:
    """Emit the kernel regrouped: window…, C, F → window / phases…, C, phases… × F."""
    spatial, (channels, features) = len(axes), Tensor.of(kernel).shape[-2:]
    split = [n for axis in axes for n in (axis.window, axis.phases)]
    parts = b.reshape(kernel, shape=(*split, channels, features))
    odd = tuple(range(1, 2 * spatial, 2))
    mirrored = b.reverse(parts, axes=odd)
    order = (*range(0, 2 * spatial, 2), 2 * spatial, *odd, 2 * spatial + 1)
    count = prod(axis.phases for axis in axes)
    return b.reshape(
        b.transpose(mirrored, permutation=order),
        shape=(*(axis.window for axis in axes), channels, count * features),
    )


# ---- a convolution for each phase ---------------------------------------------------


class Phase(NamedTuple):
    """Every n-th result along one axis: which kernel elements it reads, and padding.

    Attributes:
        first: of the elements of the kernel that it meets.
        taps: how many of them there are.
        low: padding before.
        high: padding after.
    """

    first: int
    taps: int
    low: int
    high: int


def _phases(op: "ConvGeneral", pad: "Pad", number: int) -> list[Phase]:
    """Return the phases along axis `number`; [] if symbolic or elements are cut off."""
    before, after = op.padding[2 * number - 2 : 2 * number]
    low, high, step = pad.low[number], pad.high[number], pad.interior[number] + 1
    count, window = (
        Tensor.of(pad.x).shape[number],
        Tensor.of(op.kernel).shape[number - 1],
    )
    size = Tensor.of(op.y).shape[number]
    if (
        isinstance(low, SymbolicDim)
        or isinstance(high, SymbolicDim)
        or isinstance(count, SymbolicDim)
    ):
        return []
    if isinstance(window, SymbolicDim) or isinstance(size, SymbolicDim):
        return []
    if min(low, high) < 0 or 0 in (count, size):
        return []
    low, places = low + before, -(-size // step)
    found = []
    for place in range(step):
        first = (low - place) % step
        taps = len(range(first, window, step))
        start = (low - place - first) // step
        end = places + taps - 1 - start - count
        if taps and min(start, end) < 0:
            return []
        found.append(Phase(first, taps, start, end))
    return found


def _is_worthwhile(op: "ConvGeneral", axes: list[list[Phase]]) -> bool:
    """Return whether a convolution for each phase is cheaper than one with zeros."""
    products = prod(Tensor.of(op.kernel).shape[:-1])
    flops = 2 * prod(Tensor.of(op.y).shape[1:]) * products
    count = prod(len(phases) for phases in axes)
    return 1 < count <= _MOST_PHASES and bool(flops >= _LEAST_FLOPS)


def _by_phases(
    b: Builder, op: "ConvGeneral", x: Value, axes: list[list[Phase]]
) -> Value:
    """Emit a convolution for each phase, and their results interleaved."""
    images, *sizes, features = Tensor.of(op.y).shape
    places = [-(-n // len(phases)) for n, phases in zip(sizes, axes, strict=True)]
    dtype = Tensor.of(op.y).dtype
    kind = Tensor((images, *places, features), dtype)
    steps = [len(phases) for phases in axes]
    parts = (
        _of_phase(b, x, op.kernel, phases, steps, kind) for phases in product(*axes)
    )
    y = _interleave(b, parts, steps, 1)
    wholes = [n * len(phases) for n, phases in zip(places, axes, strict=True)]
    y = b.reshape(y, shape=(images, *wholes, features))
    wanted = (images, *sizes, features)
    return y if Tensor.of(y).shape == wanted else b.cut_to(y, wanted)


def _of_phase(
    b: Builder,
    x: Value,
    kernel: Value,
    phases: tuple[Phase, ...],
    steps: Sequence[int],
    kind: Tensor,
) -> Value:
    """Emit the results, of type `kind`, of one phase along each axis.

    Args:
        b: inserts ops.
        x: the image.
        kernel: of all phases.
        phases: one for each axis.
        steps: of these phases.
        kind: of the results.
    """
    if any(phase.taps == 0 for phase in phases):
        return b.full(kind, 0.0)
    own = b.slice(
        kernel,
        start=(*(phase.first for phase in phases), 0, 0),
        sizes=(*(phase.taps for phase in phases), *Tensor.of(kernel).shape[-2:]),
        strides=(*steps, 1, 1),
    )
    return b.conv_general(
        x,
        own,
        strides=(1,) * len(phases),
        padding=tuple(n for phase in phases for n in (phase.low, phase.high)),
        dilation=(1,) * len(phases),
        groups=1,
    )


def _interleave(
    b: Builder, parts: Iterator[Value], counts: list[int], axis: int
) -> Value:
    """Emit `parts` stacked, with an axis for its phases behind each spatial one."""
    if not counts:
        return next(parts)
    count, *rest = counts
    whole: Value | None = None
    for _ in range(count):
        inner = _interleave(b, parts, rest, axis + 1)
        shape = Tensor.of(inner).shape
        part = b.reshape(inner, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
        whole = part if whole is None else b.concatenate(whole, part, axis=axis + 1)
    assert whole is not None
    return whole
