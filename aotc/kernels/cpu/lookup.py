"""Entries of tables for the elements of a vector.

Those of 256 bytes are taken from registers by vectors of 16 elements (AVX-512 BW). The
table is 128 words of two entries each in four registers. One instruction takes a word
of two registers by six bits of an index (vpermi2w); the seventh bit chooses between two
such words, and the last one between the entries of a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aotc.dialects.lowering.scalars import constant, constant_of, int_compare
from aotc.dialects.ops.quantization import share_factors, shares
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.vectors import (
    as_elements,
    as_words,
    call_intrinsic,
    vector_type,
)
from aotc.mlir import Value, arith, ir, math

_LANES = 16
_WORDS = 32  # of a register
# takes floats of a register by the lowest bits of places (vpermps)
_PERMUTE = {
    8: "llvm.x86.avx2.permps",
    16: "llvm.x86.avx512.permvar.sf.512",
}
_TAKE_WORDS = "llvm.x86.avx512.vpermi2var.hi.512"


def look_up(x: Value, table: np.ndarray) -> Value:
    """Emit a table lookup for each byte of a vector; return the entries as i32.

    Args:
        x: i32, of which the last eight bits count, or bytes as they were loaded.
        table: 256 entries, of i8 or u8.
    """
    i32 = vector_type(_LANES, ir.IntegerType.get_signless(32))
    if x.type != i32:
        x = arith.extui(i32, x)
    index = arith.andi(x, constant(i32, 255))
    words = _registers(table)
    place = arith.shrui(index, constant(i32, 1))
    low, high = (_take(words[n], place, words[n + 1]) for n in (0, 2))
    is_high = int_compare("ugt", index, constant(i32, 127))
    pair = arith.select(is_high, high, low)
    odd = arith.andi(index, constant(i32, 1))
    entry = arith.shrui(pair, arith.shli(odd, constant(i32, 3)))
    if table.dtype == np.uint8:
        return arith.andi(entry, constant(i32, 255))
    spare = constant(i32, 24)
    return arith.shrsi(arith.shli(entry, spare), spare)


def share_lookup(step: float, lanes: int) -> Callable[[Value], Value]:
    """Return a function that emits lookups in the table of 2**24 e**(-step n).

    Where processors permute vectors of floats, it multiplies an entry for the upper
    half of a byte by one for the lower half. Others read the products from the stack.
    """
    i32 = vector_type(lanes, ir.IntegerType.get_signless(32))
    if lanes not in _PERMUTE:
        memory = _store_table(shares(step), lanes)
        return lambda x: vectors.load_each(memory, arith.fptosi(i32, x))
    factors = [
        [vectors.elements([*x[n : n + lanes]]) for n in range(0, len(x), lanes)]
        for x in share_factors(step)
    ]

    def look_up_product(x: Value) -> Value:
        lower = arith.fptosi(i32, x)
        upper = arith.shrui(lower, constant(i32, 4))
        found = [_permute(*each) for each in zip(factors, (upper, lower), strict=True)]
        return math.roundeven(arith.mulf(*found))

    return look_up_product


def _store_table(table: np.ndarray, lanes: int) -> Value:
    """Emit stores of an f32 table to the stack; return its memory."""
    memory = vectors.allocate(len(table))
    for first in range(0, len(table), lanes):
        entries = vectors.elements([*table[first : first + lanes]])
        vectors.store(entries, memory, vectors.index(first), lanes)
    return memory


def _permute(table: Sequence[Value], places: Value) -> Value:
    """Emit a lookup in a table of 16 f32 in registers, by the four lowest bits."""
    kind = table[0].type
    found = [call_intrinsic(_PERMUTE[kind.shape[0]], [x, places], kind) for x in table]
    if len(found) == 1:
        return found[0]
    low, high = found
    bit = arith.andi(places, constant(places.type, 8))
    return arith.select(int_compare("ne", bit, constant(places.type, 0)), high, low)


def _registers(table: np.ndarray) -> list[Value]:
    """Emit a table of 256 bytes as constant words in four registers."""
    kind = vector_type(_WORDS, ir.IntegerType.get_signless(16))
    parts = np.ascontiguousarray(table).view("<i2").reshape(4, _WORDS)
    return [
        constant_of(ir.DenseElementsAttr.get(np.ascontiguousarray(part), type=kind))
        for part in parts
    ]


def _take(first: Value, place: Value, second: Value) -> Value:
    """Emit a lookup of words in two registers, by the six lowest bits of places."""
    words = as_elements(place, ir.IntegerType.get_signless(16))
    return as_words(call_intrinsic(_TAKE_WORDS, [first, words, second], first.type))
