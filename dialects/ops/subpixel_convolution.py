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
Others would need zeros in some, which times an infinite element of x are NaN, so they
stay as they are. (An infinite element of a kernel meets no zeros any more: NaN it makes
only where a transposed convolution would.)
"""

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.types import Dim, Size, Tensor
from aotc.mlir import Value

if TYPE_CHECKING:
    from aotc.dialects.ops.convolution import ConvGeneral
    from aotc.dialects.ops.slicing import Pad


class Axis(NamedTuple):
    """A spatial axis of the convolution without zeros.

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
    """Convolve the image itself, without zeros inside; None where it has none.

    None, too, where the zeros cannot be avoided: see the note above.
    """
    if not any(pad.interior) or pad.value != 0.0 or op.groups != 1:
        return None
    if {*op.strides, *op.dilation} != {1} or not _is_spatial(pad):
        return None
    axes = [_axis(op, pad, number) for number in range(1, Tensor.of(op.x).rank - 1)]
    found = [axis for axis in axes if axis is not None]
    return _from_phases(b, pad.x, op.kernel, found) if len(found) == len(axes) else None


def _is_spatial(pad: "Pad") -> bool:
    """Return whether batch and channels are not padded."""
    ends = [(pad.low[n], pad.high[n], pad.interior[n]) for n in (0, -1)]
    return all(each == (0, 0, 0) for each in ends)


def _axis(op: "ConvGeneral", pad: "Pad", number: int) -> Axis | None:
    """Return how axis `number` of the images is convolved without zeros.

    None where elements are cut off, also if zeros are put in their place.
    """
    before, after = op.padding[2 * number - 2 : 2 * number]
    low, high = pad.low[number], pad.high[number]
    if isinstance(low, Dim) or isinstance(high, Dim) or min(low, high) < 0:
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
) -> Axis | None:
    """Return an axis' convolution from the sizes of image and kernel, and the zeros
    outside.
    """
    if isinstance(count, Dim) or isinstance(window, Dim):
        return None
    size = (count - 1) * phases + 1 + low + high - window + 1
    if count == 0 or size <= 0 or window % phases or low % phases != phases - 1:
        return None
    taps, start = window // phases, low // phases
    end = -(-size // phases) - count - start + taps - 1
    return Axis(phases, taps, start, end, size) if end >= 0 else None


def _from_phases(b: Builder, x: Value, kernel: Value, axes: list[Axis]) -> Value:
    """Convolve to features for every phase, and interleave them."""
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


def _kernel_of_phases(b: Builder, kernel: Value, axes: list[Axis]) -> Value:
    """Regroup the kernel from window…, C, F to window / phases…, C, phases… × F."""
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
