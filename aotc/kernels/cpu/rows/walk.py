"""Going through rows by vectors, and making one number of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aotc.dialects.lowering.scalars import Body
from aotc.dialects.ops.reduction import ReduceSum, Reduction
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import parts
from aotc.mlir import Value

_PART = 64  # steps whose numbers are added in series


@dataclass(frozen=True)
class Combination:
    """A reduction's combining op and its neutral element.

    Args:
        start: what is made of none.
        combine: what is made of two.
        is_sum: whether they are added, so that an error could grow with their number.
    """

    start: float
    combine: Body
    is_sum: bool

    @classmethod
    def of(cls, reduction: type[Reduction]) -> Combination:
        """Return the combination of a reduction op, for f32."""
        start, combine = reduction.start("f32"), reduction.combine["f"]
        return cls(start, combine, issubclass(reduction, ReduceSum))


# Where a vector begins in its row, how many of its lanes there are → that of each row.
Elements = Callable[[Value, int], Values]


@dataclass(frozen=True)
class Walk:
    """A traversal of rows by vectors, several rows side by side.

    Sums are made in parts: each lane of each accumulator adds up to 64 numbers in
    series, then goes on from zero, and 64 such parts are added up likewise, and so on.
    The error of a sum of n numbers is then below 64 log64(n) u times the sum of their
    sizes, where u is the unit roundoff, instead of n u (Higham, "The accuracy of
    floating point summation", SIAM Journal on Scientific Computing 14, 1993).

    Args:
        rows: side by side.
        length: of a row.
        lanes: of a vector.
        vectors: of a row that are read in one step.
        width: elements of a row that a vector holds; 1 where rows are columns of memory
            and a vector holds one element of each.
    """

    rows: int
    length: int
    lanes: int
    vectors: int
    width: int

    def reduce(self, combination: Combination, elements: Elements) -> Values:
        """Emit each row's reduction to one vector, whose lanes are yet to combine."""
        nothing = vectors.splat(combination.start, self.lanes)
        totals = [nothing] * (self.rows * self.vectors)
        if self._steps:
            totals = self._reduce_steps(combination, elements, index(0), self._steps)
        for number, (first, count) in enumerate(self._rest()):
            found = elements(index(first), count)
            if count < self.width:
                found = [
                    vectors.select_first(x, count, combination.start) for x in found
                ]
            place = number * self.rows
            chosen = slice(place, place + self.rows)
            totals[chosen] = _combine(combination, totals[chosen], found)
        while len(totals) > self.rows:
            half = (len(totals) // self.rows + 1) // 2 * self.rows
            rest = totals[half:]
            totals = (
                _combine(combination, totals[: len(rest)], rest)
                + totals[len(rest) : half]
            )
        return totals

    def visit(self, visit: Callable[[Value, int], None]) -> None:
        """Emit code for each vector of the rows, from the first one on."""

        def visit_step(number: Value) -> None:
            for place in self._places(number):
                visit(place, self.width)

        loops.repeat_for(0, self._steps, 1, visit_step)
        for first, count in self._rest():
            visit(index(first), count)

    @property
    def _steps(self) -> int:
        """The number of steps over a row that use whole vectors."""
        return self.length // (self.vectors * self.width)

    def _places(self, step: Value) -> list[Value]:
        """Emit the offsets of the vectors of a step."""
        first = scale(step, self.vectors * self.width)
        return [add(first, number * self.width) for number in range(self.vectors)]

    def _rest(self) -> list[tuple[int, int]]:
        """Return the (start, length) of the vectors after the last step."""
        return parts(
            self.length, self.width, first=self._steps * self.vectors * self.width
        )

    def _reduce_steps(
        self, combination: Combination, elements: Elements, first: Value, count: int
    ) -> Values:
        """Emit the reduction of some steps; return a vector for each accumulator."""
        nothing = vectors.splat(combination.start, self.lanes)
        start = [nothing] * (self.rows * self.vectors)

        def add_step(number: Value, totals: Values) -> Values:
            places = self._places(add(first, number))
            found = [x for at in places for x in elements(at, self.width)]
            return _combine(combination, totals, found)

        if count <= _PART or not combination.is_sum:
            return loops.loop(0, count, 1, start, add_step)
        part = _PART
        while part * _PART < count:
            part *= _PART
        whole, rest = divmod(count, part)

        def add_part(number: Value, totals: Values) -> Values:
            begin = add(first, scale(number, part))
            return _combine(
                combination,
                totals,
                self._reduce_steps(combination, elements, begin, part),
            )

        totals = loops.loop(0, whole, 1, start, add_part)
        if not rest:
            return totals
        begin = add(first, whole * part)
        return _combine(
            combination, totals, self._reduce_steps(combination, elements, begin, rest)
        )


def _combine(
    combination: Combination, left: Sequence[Value], right: Sequence[Value]
) -> Values:
    """Emit the pairwise combination of two lists of vectors."""
    return [combination.combine(x, y) for x, y in zip(left, right, strict=True)]
