"""Integers of 4 to 6 bits, which words of memory hold in planes of their bits.

One plane has the lowest four bits of each integer, another the bits above. A word of 32
bits has those of one column, of as many terms of its plane as it holds: of a plane of w
bits, term 4 p + t lies at bit 8 t + w p. So one shift brings four neighbours to the
bottom of the four bytes of a word, in which order integers of 8 bits lie anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.types import Tensor
from aotc.mlir import Value

WORD = 4  # bytes, each of another term
# of the planes of integers of so many bits; those of 8 are bytes of words as they are
_WIDTHS = {4: (4,), 5: (4, 1), 6: (4, 2), 8: (8,)}


@dataclass(frozen=True)
class Plane:
    """A bit plane: neighbouring bits of narrow integers, packed into their own words.

    Args:
        first: the number of the lowest of them.
        width: how many there are.
        word: of a run of terms, the first word that has them.
    """

    first: int
    width: int
    word: int

    @property
    def fields(self) -> int:
        """The number of integers whose bits of this plane share one byte of a word."""
        return 8 // self.width

    @property
    def mask(self) -> int:
        """The bit mask of one integer's bits of this plane, shifted down to bit 0."""
        return (1 << self.width) - 1

    def words_of(self, terms: int) -> int:
        """Return how many 32-bit words this plane takes for `terms` column elements."""
        return terms // (WORD * self.fields)


def in_planes(bits: int) -> bool:
    """Return whether integers of `bits` bits are stored in bit planes (4 to 6 are)."""
    return bits in _WIDTHS and bits < 8


def planes_of(bits: int) -> tuple[Plane, ...]:
    """Return the bit planes of integers of `bits` bits, the lowest bits first."""
    found: list[Plane] = []
    first = word = 0
    for width in _WIDTHS[bits]:
        plane = Plane(first, width, word)
        first, word = first + width, word + plane.words_of(run_length(bits))
        found.append(plane)
    return tuple(found)


def run_length(bits: int) -> int:
    """Return how many terms of a column form a run, the unit that fills whole words."""
    return 8 * WORD // min(_WIDTHS[bits])


def words_of_run(bits: int) -> int:
    """Return how many 32-bit words a run of terms takes (`run_length`)."""
    return run_length(bits) * bits // (8 * WORD)


def bits_for(low: int, high: int, block: int) -> int:
    """Return the bits to store low…high in: 4 to 6 if `block` is whole runs, else 8.

    Args:
        low: the least one; i8 if that is negative, else u8.
        high: the greatest one.
        block: how many terms share a scale: whole runs of them, or they have 8 bits.
    """
    for bits in filter(in_planes, _WIDTHS):
        most = 2**bits - 1 if low >= 0 else 2 ** (bits - 1) - 1
        fits = high <= most and (low >= 0 or low >= -most - 1)
        if fits and block % run_length(bits) == 0:
            return bits
    return 8


# ---- as ops of the graph ------------------------------------------------------------


def to_words(b: Builder, x: Value, bits: int) -> Value:
    """Emit ops that pack bytes [run, column, term] into planes [word, column, byte].

    Bits above those that integers have are dropped.
    """
    kind: Any = Tensor.of(x)
    *outer, runs, columns, _ = kind.shape
    wide, axis, found = _as_dtype(b, x, "u8"), kind.rank, list[Value]()
    planes = planes_of(bits)
    for plane in planes:
        count = plane.words_of(run_length(bits))
        fields = _extract_bits(b, wide, plane.first, plane.mask)
        shape = (*outer, runs, columns, count, plane.fields * WORD)
        fields = _swap_axes(b, b.to_shape(fields, shape))
        if len(planes) == 1:
            fields = b.to_shape(fields, (*outer, runs * count, columns, shape[-1]))
        last = Tensor.of(fields).rank - 1
        parts = (
            _shift_left(b, b.part(fields, last, WORD * n, WORD), plane.width * n)
            for n in range(plane.fields)
        )
        found.append(reduce(lambda x, y: b.bitwise_or(x, y), parts))
    whole = _concatenate(b, found, axis - 2)
    shape = (*outer, runs * words_of_run(bits), columns, WORD)
    return _as_dtype(b, b.to_shape(whole, shape), kind.dtype)


def from_words(b: Builder, x: Value, bits: int) -> Value:
    """Emit ops that unpack bit planes, the inverse of `to_words`."""
    kind: Any = Tensor.of(x)
    *outer, words, columns, _ = kind.shape
    run, axis, found = words_of_run(bits), kind.rank, list[Value]()
    shape = (*outer, words // run, run, columns, WORD)
    wide = b.to_shape(_as_dtype(b, x, "u8"), shape)
    for plane in planes_of(bits):
        count = plane.words_of(run_length(bits))
        own = b.part(wide, axis - 2, plane.word, count)
        terms = _swap_axes(b, _fields_side_by_side(b, own, plane))
        terms = b.to_shape(terms, (*outer, words // run, columns, run_length(bits)))
        found.append(_shift_left(b, terms, plane.first))
    whole = reduce(lambda x, y: b.bitwise_or(x, y), found)
    return _as_dtype(b, whole, kind.dtype)


def pack_rows(b: Builder, x: Value, bits: int) -> Value:
    """Emit ops that pack the last axis of i8 or u8 into bit planes, each row by itself.

    A row by itself has the words of a column, so that some can be read of many.
    """
    kind: Any = Tensor.of(x)
    *outer, terms = kind.shape
    run = run_length(bits)
    words = to_words(b, b.to_shape(x, (*outer, terms // run, 1, run)), bits)
    return b.to_shape(words, (*outer, terms * bits // 8))


def unpack_rows(b: Builder, x: Value, bits: int) -> Value:
    """Emit ops that unpack bit planes of rows: the inverse of `pack_rows`."""
    kind: Any = Tensor.of(x)
    *outer, size = kind.shape
    words = b.to_shape(x, (*outer, size // WORD, 1, WORD))
    return b.to_shape(from_words(b, words, bits), (*outer, size * 8 // bits))


def _fields_side_by_side(b: Builder, words: Value, plane: Plane) -> Value:
    """Emit ops that split the words of a plane into fields along the last axis."""
    *outer, last = Tensor.of(words).shape
    rank, shape = len(outer), (*outer, plane.fields, last)
    places = np.arange(plane.fields, dtype=np.uint8) * np.uint8(plane.width)
    every = b.broadcast(words, shape=shape, axes=(*range(rank), rank + 1))
    shifts = b.broadcast(b.constant(value=places), shape=shape, axes=(rank,))
    fields = b.shift_right(every, shifts)
    fields = b.bitwise_and(fields, b.full_like(fields, plane.mask))
    return b.to_shape(fields, (*outer, plane.fields * WORD))


def _concatenate(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Emit ops that concatenate several tensors along an axis."""
    return reduce(lambda x, y: b.concatenate(x, y, axis=axis), parts)


def _swap_axes(b: Builder, x: Value) -> Value:
    """Emit a transpose (or reshape) that swaps the second and third last axes."""
    *outer, one, other, last = shape = Tensor.of(x).shape
    if 1 in (one, other):
        return b.to_shape(x, (*outer, other, one, last))
    rank = len(shape)
    return b.to_order(x, (*range(rank - 3), rank - 2, rank - 3, rank - 1))


def _extract_bits(b: Builder, x: Value, first: int, mask: int) -> Value:
    """Emit ops that shift each byte right by `first` bits and mask it."""
    low = x if first == 0 else b.shift_right(x, b.full_like(x, first))
    found: Value = b.bitwise_and(low, b.full_like(low, mask))
    return found


def _shift_left(b: Builder, x: Value, places: int) -> Value:
    """Emit a left shift of each byte by `places` bits; nothing for 0."""
    found: Value = x if places == 0 else b.shift_left(x, b.full_like(x, places))
    return found


def _as_dtype(b: Builder, x: Value, dtype: str) -> Value:
    """Emit a bitcast to `dtype` (i8 or u8), unless `x` has that dtype already."""
    found: Value = x if Tensor.of(x).dtype == dtype else b.bitcast(x, dtype=dtype)
    return found
