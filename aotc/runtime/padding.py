"""Calls in the sizes of a bucket: arrays are padded on the way in, results are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from aotc.artifacts.manifest import Code, Leaf
from aotc.artifacts.shapes import SizeExpression
from aotc.runtime.contract import Shape
from aotc.runtime.foreign_tensors import DlpackTensor
from aotc.runtime.host_arrays import Array

SIZES = Leaf("$sizes", "i8", ())  # the input that tells the sizes of a call

_Part = tuple[slice, ...]  # of an array
_Given = TypeVar("_Given", bound=Array | DlpackTensor)


class CallPadding:
    """Padding of calls of certain sizes to the sizes of a code; it also cuts the
    results.

    Args:
        code: that they are padded for.
        inputs: of the entry.
        outputs: of the entry.
        sizes: of the calls, by name of the symbol.

    `shapes` are those of the inputs as they are computed with.
    """

    def __init__(
        self,
        code: Code,
        inputs: Sequence[Leaf],
        outputs: Sequence[Leaf],
        sizes: Mapping[str, int],
    ) -> None:
        bucket = {**sizes, **code.sizes}
        self.shapes = tuple(_shape(leaf, bucket) for leaf in inputs)
        self._results = [_shape(leaf, sizes) for leaf in outputs]
        self._told = np.zeros((*(sizes[name] for name in code.told), 0), np.int8)

    def pad(self, arrays: Sequence[_Given]) -> list[_Given | Array]:
        """Return the arguments of the code: arrays padded with zeros, and one that
        tells the sizes.

        A tensor on the GPU has the sizes of the code already.
        """
        pairs = zip(arrays, self.shapes, strict=True)
        return [*(_pad(array, shape) for array, shape in pairs), self._told]

    def cut(self, results: Sequence[Array]) -> list[Array]:
        """Return the results cut to the sizes of the call."""
        return [
            array if array.shape == shape else array[_part(shape)]
            for array, shape in zip(results, self._results, strict=True)
        ]


def _shape(leaf: Leaf, sizes: Mapping[str, int]) -> Shape:
    """Return the shape of an array for given symbol values."""
    return tuple(
        size if isinstance(size, int) else SizeExpression.parse(size).value(sizes)
        for size in leaf.shape
    )


def _part(shape: Shape) -> _Part:
    """Return the index of the leading part with a shape."""
    return tuple(map(slice, shape))


def _pad(array: _Given, shape: Shape) -> _Given | Array:
    """Pad an array with zeros to a shape; return it as it is if it has that shape."""
    if array.shape == shape:
        return array
    assert not isinstance(array, DlpackTensor)
    padded = np.zeros(shape, array.dtype)
    padded[_part(array.shape)] = array
    return padded
