"""The element types of ggml: layout of their blocks in memory, and their values.

Source: `ggml-common.h` (`block_q4_0` and its kin) and the reference functions
`dequantize_row_*` of `ggml-quants.c` in ggml-org/ggml. A row is cut into blocks along
its last axis. Where a block has blocks of its own (the K types), scales and minima of
these are small integers, which one half-precision number of the whole block scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.nn.quantized_weights import QuantizedWeights
from aotc.programs.computed_arrays import StoredArray
from aotc.tracing.array import Array
from aotc.tracing.deferred_arrays import compute_when_read
from aotc.weight_formats.packed_words import to_signed

# of a block: its name, the dtype of a number, and how many there are if several
_Field: TypeAlias = tuple[str, str] | tuple[str, str, int]


@dataclass(frozen=True)
class PlainType:
    """A ggml type without blocks: elements are numbers of one of aotc's dtypes."""

    name: str
    dtype: str

    block = 1

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return dtypes.to_numpy(self.dtype).itemsize

    def decode(self, data: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
        """Return a tensor of a shape as a view of its bytes in the file."""
        return data.view(dtypes.to_numpy(self.dtype)).reshape(shape)


@dataclass(frozen=True)
class BlockNumbers:
    """Numbers of a ggml block (elements, scales) that are computed from its fields.

    Args:
        function: of arrays of blocks and elements; gives one of blocks and numbers.
        fields: what it is given.
    """

    function: Callable[..., Array]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Scaled:
    """Scales or minima of a block that are quantised themselves: integers times a
    factor.
    """

    integers: BlockNumbers
    factor: BlockNumbers
    block: int


@dataclass(frozen=True)
class BlockType:
    """A ggml type whose elements are quantised in blocks.

    Args:
        name: ggml's.
        block: elements of a block.
        bits: of an element.
        layout: the fields of a block.
        integers: the elements.
        scale: one, or one for each `step` elements.
        minimum: likewise; None where 0 stands for 0.
        step: how many elements share a scale.
    """

    name: str
    block: int
    bits: int
    layout: numpy.dtype
    integers: BlockNumbers
    scale: BlockNumbers | Scaled
    minimum: BlockNumbers | Scaled | None = None
    step: int = 32

    @property
    def itemsize(self) -> int:
        """Bytes of a block."""
        return self.layout.itemsize

    def decode(self, data: numpy.ndarray, shape: tuple[int, ...]) -> QuantizedWeights:
        """Return the quantised weight of a shape that the blocks in these bytes
        store.
        """
        blocks = _TensorBlocks(data.view(self.layout), shape)
        minimum = None if self.minimum is None else blocks.numbers(self.minimum)
        return QuantizedWeights(
            blocks.values(self.integers),
            blocks.numbers(self.scale),
            minimum=minimum,
            axis=len(shape) - 1,
            block=self.step,
            bits=self.bits,
        )


@dataclass(frozen=True)
class _TensorBlocks:
    """The ggml blocks of one tensor.

    Args:
        data: their fields.
        shape: of the tensor.
    """

    data: numpy.ndarray
    shape: tuple[int, ...]

    def values(self, part: BlockNumbers) -> StoredArray:
        """Return one kind of the blocks' numbers for the whole tensor, computed when it
        is read.
        """

        def compute(*fields: Array) -> Array:
            return np.reshape(part.function(*fields), (*self.shape[:-1], -1))

        return compute_when_read(compute, *(self.data[name] for name in part.fields))

    def numbers(self, part: BlockNumbers | Scaled) -> StoredArray | QuantizedWeights:
        """Return the scales or minima of the blocks, which may be quantised
        themselves.
        """
        if isinstance(part, BlockNumbers):
            return self.values(part)
        return QuantizedWeights(
            self.values(part.integers),
            self.values(part.factor),
            axis=len(self.shape) - 1,
            block=part.block,
        )


# ---- parts of blocks ----------------------------------------------------------------


def _nibbles(packed: Array) -> Array:
    """Return the low nibbles of bytes, then the high ones, along the last axis."""
    halves = [np.bitwise_and(packed, 15), np.right_shift(packed, 4)]
    return np.concatenate(halves, -1)


def _split_bits(packed: Array, bits: int) -> Array:
    """Split bytes into groups of `bits`, on a new axis before the last one."""
    shifts = numpy.arange(0, 8, bits, dtype=numpy.uint8)[:, None]
    found = np.right_shift(np.expand_dims(packed, -2), shifts)
    return np.bitwise_and(found, 2**bits - 1)


def _rows(packed: Array, size: int) -> Array:
    """Reshape the bytes of each block to rows of `size` bytes."""
    return np.reshape(packed, (packed.shape[0], -1, size))


def _flat(x: Array) -> Array:
    """Reshape to one row per block."""
    return np.reshape(x, (x.shape[0], -1))


def _five_bits(low: Array, high: Array) -> Array:
    """Join nibbles with their fifth bits, which are the bits of `high`, lowest
    first.
    """
    shifts = numpy.arange(8, dtype=numpy.uint8)
    bits = np.bitwise_and(np.right_shift(np.expand_dims(high, -1), shifts), 1)
    return np.bitwise_or(_nibbles(low), np.left_shift(_flat(bits), 4))


def _nibbles_of_rows(low: Array) -> Array:
    """Return, for each 32 bytes of a block, the low nibbles and then the high ones."""
    return _flat(_nibbles(_rows(low, 32)))


def _five_bits_of_rows(low: Array, high: Array) -> Array:
    """Unpack 5-bit numbers: bit i of the bytes `high` is above the i-th 32 nibbles."""
    return np.bitwise_or(
        _nibbles_of_rows(low), np.left_shift(_flat(_split_bits(high, 1)), 4)
    )


def _six_bits(low: Array, high: Array) -> Array:
    """Unpack 6-bit numbers: nibbles of 64 bytes, with two bits of 32 bytes above
    each.
    """
    nibbles = _flat(_nibbles(_rows(low, 64)))
    return np.bitwise_or(
        nibbles, np.left_shift(_flat(_split_bits(_rows(high, 32), 2)), 4)
    )


def _six_bit_scales(packed: Array) -> Array:
    """Unpack the eight 6-bit scales of a K-type block from its 12 bytes."""
    first, _, rest = _thirds(packed)
    return _join_six_bits(first, np.bitwise_and(rest, 15))


def _six_bit_minima(packed: Array) -> Array:
    """Unpack the eight 6-bit minima of a K-type block from its 12 bytes."""
    _, first, rest = _thirds(packed)
    return _join_six_bits(first, np.right_shift(rest, 4))


def _thirds(packed: Array) -> tuple[Array, ...]:
    """Split the 12 bytes of packed scales and minima into three times four."""
    return tuple(packed[:, start : start + 4] for start in (0, 4, 8))


def _join_six_bits(first: Array, low: Array) -> Array:
    """Return four 6-bit numbers of `first`, then four of `low` and `first`'s top 2
    bits.
    """
    high = np.bitwise_and(np.right_shift(first, 2), 0x30)
    return np.concatenate([np.bitwise_and(first, 63), np.bitwise_or(low, high)], -1)


def _unchanged(x: Array) -> Array:
    """Return the argument."""
    return x


def _signed(bits: int, function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function that unpacks unsigned levels to return them as signed
    integers.
    """
    return lambda *fields: to_signed(function(*fields), bits)


# ---- the types ----------------------------------------------------------------------


def _block_type(
    name: str,
    bits: int,
    fields: Sequence[_Field],
    unpack_levels: Callable[..., Array],
    packed_fields: tuple[str, ...],
    scale: BlockNumbers | Scaled,
    minimum: BlockNumbers | Scaled | None = None,
    *,
    block: int = 32,
    step: int = 32,
) -> BlockType:
    """Return a block type; its elements are made signed where there is no minimum."""
    integers = unpack_levels if minimum is not None else _signed(bits, unpack_levels)
    layout = numpy.dtype([*fields])
    part = BlockNumbers(integers, packed_fields)
    return BlockType(name, block, bits, layout, part, scale, minimum, step)


_D, _M = BlockNumbers(_unchanged, ("d",)), BlockNumbers(_unchanged, ("m",))
_SCALES = Scaled(BlockNumbers(_six_bit_scales, ("scales",)), _D, 8)
_MINIMA = Scaled(
    BlockNumbers(_six_bit_minima, ("scales",)), BlockNumbers(np.negative, ("dmin",)), 8
)
_SIX_BIT_SCALES = Scaled(BlockNumbers(_unchanged, ("scales",)), _D, 16)

_SCALE, _MINIMUM = ("d", "<f2"), ("m", "<f2")
_FOUR, _FIFTH = ("qs", "u1", 16), ("qh", "u1", 4)
_SUPER: list[_Field] = [_SCALE, ("dmin", "<f2"), ("scales", "u1", 12)]
_SIX: list[_Field] = [("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), _SCALE]

# by ggml's numbers
TYPES: dict[int, PlainType | BlockType] = {
    0: PlainType("F32", "f32"),
    1: PlainType("F16", "f16"),
    2: _block_type("Q4_0", 4, [_SCALE, _FOUR], _nibbles, ("qs",), _D),
    3: _block_type("Q4_1", 4, [_SCALE, _MINIMUM, _FOUR], _nibbles, ("qs",), _D, _M),
    6: _block_type("Q5_0", 5, [_SCALE, _FIFTH, _FOUR], _five_bits, ("qs", "qh"), _D),
    7: _block_type(
        "Q5_1", 5, [_SCALE, _MINIMUM, _FIFTH, _FOUR], _five_bits, ("qs", "qh"), _D, _M
    ),
    8: BlockType(
        "Q8_0",
        32,
        8,
        numpy.dtype([_SCALE, ("qs", "i1", 32)]),
        BlockNumbers(_unchanged, ("qs",)),
        _D,
    ),
    12: _block_type(
        "Q4_K",
        4,
        [*_SUPER, ("qs", "u1", 128)],
        _nibbles_of_rows,
        ("qs",),
        _SCALES,
        _MINIMA,
        block=256,
    ),
    13: _block_type(
        "Q5_K",
        5,
        [*_SUPER, ("qh", "u1", 32), ("qs", "u1", 128)],
        _five_bits_of_rows,
        ("qs", "qh"),
        _SCALES,
        _MINIMA,
        block=256,
    ),
    14: _block_type(
        "Q6_K",
        6,
        _SIX,
        _six_bits,
        ("ql", "qh"),
        _SIX_BIT_SCALES,
        block=256,
        step=16,
    ),
    24: PlainType("I8", "i8"),
    25: PlainType("I16", "i16"),
    26: PlainType("I32", "i32"),
    27: PlainType("I64", "i64"),
    28: PlainType("F64", "f64"),
    30: PlainType("BF16", "bf16"),
}

# what ggml calls others
OTHERS = {
    10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip


def type_name(number: int) -> str:
    """Return ggml's name of its type with this number."""
    known = TYPES.get(number)
    return OTHERS.get(number, f"type {number}") if known is None else known.name
