"""The integers of a weight that is dequantised, as kernels read them of its panels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from aotc.dialects.lowering.scalars import constant
from aotc.kernels.bit_planes import WORD, Plane, planes_of, run_length, words_of_run
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.machine import LINE_BYTES, PREFETCH_BYTES
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Value, arith, ir

# by the lanes of a vector: what looks up the lowest four bits of each word in a vector
_LOOKUPS = {16: "llvm.x86.avx512.permvar.sf.512"}
_ALL_BITS = 32

# of a term and a vector of columns, or of four terms
Read = Callable[[int, int], Value]


@dataclass(frozen=True)
class PackedIntegerReader:
    """An emitter of loads of a quantised weight's integers from its panels.

    Args:
        tile: how the weight is cut up.
        memory: of its bytes.
        is_signed: whether integers are.
    """

    tile: ContractionTile
    memory: Value
    is_signed: bool

    @property
    def excess(self) -> int:
        """The excess of signed integers when read as unsigned: 0 or 2**(bits - 1)."""
        return 2 ** (self.tile.bits - 1) if self.is_signed else 0

    @property
    def looks_up(self) -> bool:
        """Return whether 4-bit integers become floats by a table in registers."""
        return self.tile.bits == 4 and self.tile.lanes in _LOOKUPS

    def byte(self, place: Value) -> Value:
        """Emit the byte offset of an integer that begins a run, by its number."""
        if not self.tile.has_planes:
            return place
        words, terms = words_of_run(self.tile.bits), run_length(self.tile.bits)
        return scale(arith.divui(place, index(terms // WORD)), words)

    def bytes_of(self, terms: int) -> int:
        """Return the bytes of `terms` terms of all columns of a panel."""
        return terms * self.tile.columns * self.tile.bits // 8

    def floats(self, at: Value) -> Read:
        """Return a function (term, vector) that emits integers as f32.

        Args:
            at: the first byte of the terms.
        """
        lanes, columns = self.tile.lanes, self.tile.columns
        if self.tile.terms == 1:

            def of_bytes(term: int, vector: int) -> Value:
                place = add(at, term * columns + vector * lanes)
                return self._as_floats(vectors.load_as_is(self.memory, place, lanes))

            return of_bytes
        if self.tile.bits == 4:
            words = self.words(at)

            def of_halves(term: int, vector: int) -> Value:
                number, place = divmod(term, run_length(4))
                first = 8 * (place % WORD) + place // WORD * 4
                return self._half_as_floats(words(number, vector), first)

            return of_halves
        fours = self.fours(at, is_signed=True)

        def of_fours(term: int, vector: int) -> Value:
            number, place = divmod(term, WORD)
            part = self._part(fours(number, vector), 8 * place, self.tile.bits)
            return self._as_floats(part)

        return of_fours

    def fetch(self, at: Value, count: int, cache: int) -> None:
        """Emit the prefetch of integers that are read some steps later."""
        if self.tile.ahead:
            for place in range(0, count, LINE_BYTES):
                later = add(at, PREFETCH_BYTES + place)
                vectors.prefetch(self.memory, later, cache)

    def words(self, at: Value) -> Read:
        """Return a function (word, vector) that emits loads of words, cached."""
        lanes, columns = self.tile.lanes, self.tile.columns
        known: dict[tuple[int, int], Value] = {}

        def word(number: int, vector: int) -> Value:
            if (number, vector) not in known:
                place = add(at, WORD * (number * columns + vector * lanes))
                loaded = vectors.load_as_is(self.memory, place, WORD * lanes)
                known[number, vector] = vectors.as_words(loaded)
            return known[number, vector]

        return word

    def fours(self, at: Value, *, is_signed: bool = False) -> Read:
        """Return a function (number, vector) that emits four terms as bytes.

        Args:
            at: the first byte of the terms, which begin a run.
            is_signed: whether bytes have the lowest bits of integers that have a sign;
                else they are unsigned, larger by `excess`.
        """
        words, bits = self.words(at), self.tile.bits
        *_, top = planes = planes_of(bits)
        is_turned = self.is_signed and not is_signed
        known: dict[tuple[int, int], Value] = {}

        def word(number: int, vector: int, plane: Plane) -> Value:
            """Emit a word of a plane; signs are flipped in the top one."""
            if not is_turned or plane != top:
                return words(number, vector)
            if (number, vector) not in known:
                signs = sum(1 << n for n in range(plane.width - 1, 8, plane.width))
                found = words(number, vector)
                known[number, vector] = arith.xori(found, _in_all_bytes(found, signs))
            return known[number, vector]

        def part(number: int, vector: int, plane: Plane) -> Value:
            """Emit bits of four terms from a plane, at their places in bytes."""
            run, place = divmod(number * WORD, run_length(bits))
            inside, field = divmod(place // WORD, plane.fields)
            at_word = run * words_of_run(bits) + plane.word + inside
            found = word(at_word, vector, plane)
            if plane.width == 8:
                return found
            found = _shift_down(found, field * plane.width - plane.first)
            mask = plane.mask << plane.first
            return arith.andi(found, _in_all_bytes(found, mask))

        def four(number: int, vector: int) -> Value:
            return reduce(arith.ori, [part(number, vector, each) for each in planes])

        return four

    def _half_as_floats(self, words: Value, first: int) -> Value:
        """Emit four bits of each word, from bit `first` on, as f32."""
        if not self.looks_up:
            return self._as_floats(self._part(words, first, 4))
        numbers = [n - 16 if self.is_signed and n > 7 else n for n in range(16)]
        kind = vectors.vector_type(self.tile.lanes)
        given = [vectors.elements(numbers), _shift_down(words, first)]
        return vectors.call_intrinsic(_LOOKUPS[self.tile.lanes], given, kind)

    def _part(self, words: Value, first: int, bits: int) -> Value:
        """Emit some bits of each word, from bit `first` on, as i32."""
        last = _ALL_BITS - bits
        if self.is_signed:
            top = _shift_down(words, first - last)
            return arith.shrsi(top, constant(words.type, last))
        low = _shift_down(words, first)
        if first == last:
            return low
        return arith.andi(low, constant(words.type, (1 << bits) - 1))

    def _as_floats(self, x: Value) -> Value:
        """Emit the conversion of a vector of integers to f32."""
        lanes = self.tile.lanes
        wide = vectors.vector_type(lanes, ir.IntegerType.get_signless(_ALL_BITS))
        if x.type != wide:
            x = arith.extsi(wide, x) if self.is_signed else arith.extui(wide, x)
        return arith.sitofp(vectors.vector_type(lanes), x)


def _shift_down(words: Value, places: int) -> Value:
    """Emit a right shift of words, or a left one for negative counts."""
    if places == 0:
        return words
    write = arith.shrui if places > 0 else arith.shli
    return write(words, constant(words.type, abs(places)))


def _in_all_bytes(words: Value, byte: int) -> Value:
    """Emit a constant like `words` with a byte repeated four times in each."""
    number = byte * 0x01010101
    signed = number - (number >> (_ALL_BITS - 1) << _ALL_BITS)
    return constant(words.type, signed)
