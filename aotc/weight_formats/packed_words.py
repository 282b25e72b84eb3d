"""Small integers in words of 32 bits, and groups of them: shared by formats.

The first integer is in the lowest bits. Formats pack along rows or columns; here the
integers of a matrix are [outputs, inputs] in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.nn.packed_integers import unpack
from aotc.nn.quantized_weights import QuantizedWeights
from aotc.programs.computed_arrays import StoredArray
from aotc.tracing.array import Array
from aotc.tracing.conversion import astype
from aotc.tracing.deferred_arrays import compute_when_read
from aotc.tracing.source_locations import fail
from aotc.weight_formats.tensors import StoredTensors

WORD = 32  # bits
BITS = (2, 4, 8)  # that a word has a whole number of


def layers_with(arrays: StoredTensors, name: str) -> list[str]:
    """Return the names of the layers that have a tensor `LAYER.name`."""
    ending = f".{name}"
    return [key.removesuffix(ending) for key in arrays if key.endswith(ending)]


def take(arrays: StoredTensors, layer: str, name: str) -> numpy.ndarray:
    """Remove a layer's tensor from the arrays and return it.

    Raises:
        InputError: there is none.
    """
    key = f"{layer}.{name}"
    if key not in arrays:
        fail(
            "missing-data",
            f"layer '{layer}' is quantised and has no '{name}' here",
            "load the folder of a checkpoint of several files",
        )
    return arrays.pop(key)


def weight_name(arrays: StoredTensors, layer: str) -> str:
    """Return the key `LAYER.weight` of a quantised weight; refuse one that is in use.

    Raises:
        ValueError: there is a tensor of that name, too.
    """
    key = f"{layer}.weight"
    if key in arrays:
        raise ValueError(f"expected quantised tensors of '{layer}' alone; got '{key}'")
    return key


def require_bits(layer: str, bits: int) -> None:
    """Refuse a bit width of which some integers would lie across two words.

    Raises:
        InputError: they do.
    """
    if bits not in BITS:
        fail(
            "unsupported-quantization",
            f"layer '{layer}' has integers of {bits} bits; aotc reads "
            f"{', '.join(map(str, BITS))}",
            "quantise the model to one of these",
        )


def bytes_of(words: numpy.ndarray) -> numpy.ndarray:
    """Return a view of 32-bit words as bytes, along a new last axis."""
    if words.dtype.kind not in "iu" or words.dtype.itemsize != WORD // 8:
        raise ValueError(f"expected packed words of 32 bits; got {words.dtype}")
    return words.view(numpy.uint8).reshape(*words.shape, WORD // 8)


def to_signed(levels: Array, bits: int, dtype: str = "i8") -> Array:
    """Convert unsigned levels to signed integers, by subtracting 2**(bits - 1)."""
    wide = np.subtract(astype(levels, "i16"), 2 ** (bits - 1))
    return astype(wide, dtype)


def columns_of(
    words: numpy.ndarray, bits: int, size: int, order: numpy.ndarray | None = None
) -> StoredArray:
    """Return signed integers that are packed in the words of each row; unpacked when
    read.

    Args:
        words: a matrix.
        bits: of an integer.
        size: of the last axis; what is beyond pads the last word.
        order: of the integers along it, if it is another.
    """
    expected = -(-size * bits // WORD)
    if words.shape[1] != expected:
        raise ValueError(f"expected {expected} words a row; got {words.shape[1]}")

    def compute(packed: Array) -> Array:
        rows, count, _ = packed.shape
        flat = np.reshape(unpack(packed, bits), (rows, count * WORD // bits))
        return to_signed(_permute_columns(flat[:, :size], order), bits)

    return compute_when_read(compute, bytes_of(words))


def _permute_columns(x: Array, order: object) -> Array:
    """Return a matrix with its columns permuted; as it is if the order is None."""
    return x if order is None else np.take(x, numpy.asarray(order, "i4"), 1)


def transpose_when_read(x: StoredArray) -> StoredArray:
    """Return the transpose of a matrix, computed when it is read."""
    return compute_when_read(lambda a: np.transpose(a), x)


# ---- groups -------------------------------------------------------------------------


def order_of_groups(
    groups: numpy.ndarray, inputs: int, block: int, layer: str
) -> numpy.ndarray | None:
    """Return the order that sorts inputs by group; None if they are sorted.

    Args:
        groups: the number of the group of each input.
        inputs: how many there are.
        block: the size of a group.
        layer: whose they are.

    Raises:
        InputError: groups are not of this size.
        ValueError: they are not those of the inputs.
    """
    if groups.shape != (inputs,) or groups.dtype.kind not in "iu":
        raise ValueError(
            f"expected a group (g_idx) of each of {inputs} inputs of '{layer}'; got "
            f"{groups.dtype}{list(groups.shape)}"
        )
    expected = numpy.arange(len(groups)) // block
    if numpy.array_equal(groups, expected):
        return None
    order = numpy.argsort(groups, kind="stable").astype("i4")
    if not numpy.array_equal(groups[order], expected):
        fail(
            "unsupported-quantization",
            f"layer '{layer}' has groups that are not of {block} inputs each",
            "quantise the model with groups of one size",
        )
    return order


def grouped_weights(
    data: StoredArray,
    scale: StoredArray,
    zero_point: StoredArray | None,
    *,
    bits: int,
    block: int,
    order: numpy.ndarray | None = None,
) -> QuantizedWeights:
    """Return a weight [outputs, inputs] with a scale for each group of inputs.

    Args:
        data: signed integers.
        scale: [outputs, groups].
        zero_point: likewise.
        bits: of an integer.
        block: the size of a group.
        order: see `order_of_groups`, in which the data are.
    """
    outputs, inputs = data.shape
    counts = (outputs, -(-inputs // block))
    require_float(scale)
    for what, part in (("scales", scale), ("zero points", zero_point)):
        if part is not None and part.shape != counts:
            raise ValueError(
                f"expected {what} of shape {list(counts)} for weights of shape "
                f"{list(data.shape)} in groups of {block}; got {list(part.shape)}"
            )
    if zero_point is not None and not numpy.asarray(zero_point).any():
        zero_point = None
    if counts[1] == 1:  # a scale for each output
        zero_point = None if zero_point is None else _flat(zero_point)
        return QuantizedWeights(data, _flat(scale), zero_point, axis=0, bits=bits)
    inverse = None if order is None else numpy.argsort(order).astype("i4")
    return QuantizedWeights(
        data, scale, zero_point, None, inverse, axis=1, block=block, bits=bits
    )


def require_float(scale: StoredArray) -> None:
    """Refuse scales that are not floats.

    Raises:
        ValueError: they are.
    """
    if not dtypes.is_float(dtypes.canonical_dtype(scale.dtype)):
        raise ValueError(f"expected scales that are floats; got {scale.dtype}")


def _flat(x: StoredArray) -> StoredArray:
    """Return an array flattened to a vector, when it is read."""
    return compute_when_read(lambda a: np.reshape(a, (-1,)), x)


def require_shapes(layer: str, rows: Sequence[tuple[str, numpy.ndarray, int]]) -> None:
    """Refuse a layer's tensors whose rank is not the expected one.

    Raises:
        ValueError: one has another.
    """
    for name, array, rank in rows:
        if array.ndim != rank:
            raise ValueError(
                f"expected '{layer}.{name}' of {rank} axes; got {list(array.shape)}"
            )
