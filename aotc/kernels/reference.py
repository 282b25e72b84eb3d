"""Computes terms in NumPy: the oracle of every emitter of code.

What is read comes through views, elementwise ops are applied to what the loops read, as
code does in registers, and nests are combined. It refuses a term that code could not be
made of: one that reads outside of a source, or before that is written, or that does not
write each element of a value exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from aotc.core import dtypes
from aotc.dialects.functions.function_table import name_of
from aotc.dialects.graph import evaluate as evaluate_op
from aotc.dialects.movement.views import View
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Shape, Size, Tensor, evaluate_size
from aotc.errors import CompileError
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Apply, Expression, Read, Statement, Term
from aotc.mlir import Function, Value, func


def evaluate(
    term: Term,
    arguments: Sequence[np.ndarray],
    symbols: Sequence[int] = (),
    block: int | None = None,
) -> list[np.ndarray]:
    """Compute the results of a region in NumPy, by its term.

    Args:
        term: of the region.
        arguments: of the region.
        symbols: the values of the region's symbols.
        block: of so many indices at a time the sums are made that are rescaled by a
            maximum (`Term.rescaled_by`), as a kernel of one pass does; all at once if
            None.

    Raises:
        CompileError: `bad-term`: no code can be made of it.
    """
    contracts = contracts_of(term.function)
    with term.function.context, known_contracts(contracts), np.errstate(all="ignore"):
        return _Evaluator(term, arguments, symbols, block).results()


def evaluate_region(
    function: Function, arguments: Sequence[np.ndarray], symbols: Sequence[int]
) -> list[np.ndarray] | None:
    """Compute the results of a region in NumPy; None for a loop.

    None for a loop, whose steps call regions.
    """
    if isinstance(function.entry_block.operations[0], func.CallOp):
        return None
    term = term_of(function)
    if term is None:
        _refuse(f"'{name_of(function)}' has none")
    return evaluate(term, arguments, symbols)


class _Evaluator:
    """An interpreter of one term on NumPy arrays."""

    def __init__(
        self,
        term: Term,
        arguments: Sequence[np.ndarray],
        symbols: Sequence[int],
        block: int | None,
    ) -> None:
        self._term, self._symbols, self._block = term, symbols, block
        self._written: dict[Value, _WrittenMemory] = {}
        self._arrays = dict(zip(term.arguments, arguments, strict=True))

    def results(self) -> list[np.ndarray]:
        """Run all statements; return the results of the region."""
        for statement in self._term.statements:
            self._run(statement)
        for written in self._written.values():  # also what was written once it was read
            written.array()
        return [self._array(value) for value in self._term.results]

    def _run(self, statement: Statement) -> None:
        """Compute a statement's elements, and write them to the array of its value."""
        nest, kind = statement.nest, Tensor.of(statement.value)
        sizes = self._numbers(nest.sizes)
        highest = self._block and self._term.rescaled_by(statement)
        if highest:
            found = self._rescaled(statement, highest)
        else:
            found = nest.evaluate(self._factors(statement, sizes), sizes)
        found = found.astype(dtypes.to_numpy(kind.dtype))
        written = self._written.get(statement.value)
        if written is None:
            written = _WrittenMemory(self._numbers(kind.shape), found.dtype)
            self._written[statement.value] = written
        if nest.place is None:
            written.write_all(found)
            return
        place = statement.place()
        if place is None:
            _refuse("its place in the result is no view")
        written.write(place.with_sizes(self._number), found)

    def _rescaled(self, statement: Statement, highest: Statement) -> np.ndarray:
        """Compute a sum of exponentials blockwise, rescaled by the running maximum.

        Args:
            statement: of the sum.
            highest: the maximum that it is rescaled by, of the same last loop.
        """
        sizes, own = (self._numbers(x.nest.sizes) for x in (statement, highest))
        maximum, known = highest.value, self._array(highest.value)
        (factor,) = self._factors(highest, own)
        shift = next(read for read in statement.reads() if read.source == maximum)
        most = np.full(known.shape, highest.nest.start, known.dtype)
        wide = dtypes.to_numpy(statement.dtype)
        total = np.zeros([1] * len(statement.nest.result_loops), wide)

        def at_sums(of_maxima: np.ndarray) -> np.ndarray:
            self._arrays[maximum] = of_maxima
            found = self._read(shift, sizes)
            return found.reshape(found.shape[: statement.nest.combined_loops.start])

        for first in range(0, sizes[-1], self._block or 1):
            some = slice(first, first + (self._block or 1))
            here = len(range(*some.indices(sizes[-1])))
            seen = [_part(factor, some)]
            found = highest.nest.evaluate(seen, (*own[:-1], here)).reshape(known.shape)
            old, most = most, np.maximum(most, found)
            scale = at_sums(np.where(old == most, 1, np.exp(old - most)))
            is_nothing = at_sums(most == -np.inf)
            self._arrays[maximum] = most
            terms = [_part(x, some) for x in self._factors(statement, sizes)]
            added = statement.nest.evaluate(terms, (*sizes[:-1], here))
            total = np.where(is_nothing, 0, total * scale + added)
        self._arrays[maximum] = known
        return np.broadcast_to(
            total, [sizes[loop] for loop in statement.nest.result_loops]
        )

    def _factors(self, statement: Statement, sizes: Sequence[int]) -> list[np.ndarray]:
        """Return the arrays of a statement's factors, in the dtype of accumulators."""
        wide = dtypes.to_numpy(statement.dtype)
        known: dict[int, np.ndarray] = {}
        found = (self._elements(x, sizes, known) for x in statement.factors)
        return [x.astype(wide, copy=False) for x in found]

    def _elements(
        self, expression: Expression, sizes: Sequence[int], known: dict[int, np.ndarray]
    ) -> np.ndarray:
        """Return an expression's elements over the loops (size 1 where repeated).

        Args:
            expression: of it.
            sizes: of the loops.
            known: what others that are made of the same have been, by their ids.
        """
        if isinstance(expression, Read):
            return self._read(expression, sizes)
        if id(expression) not in known:
            if isinstance(expression.op, Gather):
                found = self._gather(expression, expression.op, sizes, known)
            else:
                read = [self._elements(x, sizes, known) for x in expression.operands]
                (found,) = evaluate_op(expression.op, read, self._symbols)
            known[id(expression)] = found
        return known[id(expression)]

    def _gather(
        self,
        expression: Apply,
        op: Gather,
        sizes: Sequence[int],
        known: dict[int, np.ndarray],
    ) -> np.ndarray:
        """Return the elements that a gather reads at computed indices."""
        first, *indices = expression.operands
        assert isinstance(first, Read)
        array = self._array(first.source)
        if not array.size:
            return np.zeros(sizes, array.dtype)
        places = np.arange(array.size).reshape(array.shape)
        at, inside = self._through(places, first, sizes), np.array(True)
        for axis, index in zip(op.axes, indices, strict=True):
            wanted, size = self._elements(index, sizes, known), array.shape[axis]
            inside = inside & (wanted >= 0) & (wanted < size)
            nearest = np.clip(wanted, 0, size - 1).astype(np.int64)
            at = at + nearest * math.prod(array.shape[axis + 1 :])
        found = array.ravel()[at]
        if op.mode == "drop":
            found = np.where(inside, found, np.zeros((), found.dtype))
        return np.asarray(found)

    def _read(self, read: Read, sizes: Sequence[int]) -> np.ndarray:
        """Return the elements that a read takes from memory, over the loops."""
        return self._through(self._array(read.source), read, sizes)

    def _through(
        self, array: np.ndarray, read: Read, sizes: Sequence[int]
    ) -> np.ndarray:
        """Return an array's elements over the loops, through the views of a read."""
        *outer, last = [view.with_sizes(self._number) for view in read.views]
        loops = (outer or [last])[0]
        if loops.shape != tuple(sizes):
            _refuse(f"loops of the sizes {tuple(sizes)} read what has {loops.shape}")
        for view in (last, *reversed(outer)):
            if view.source != array.shape or not view.is_inside():
                _refuse(f"it reads outside of a source of the shape {array.shape}")
            array = view.elements(array) if view is loops else view.read(array)
        return array

    def _array(self, value: Value) -> np.ndarray:
        """Return the array of a value, computing that of a constant."""
        if value in self._written and value not in self._arrays:
            self._arrays[value] = self._written[value].array()
        if value not in self._arrays:
            op = value.owner.opview
            if op.operands:
                _refuse("it reads what no statement has given")
            (self._arrays[value],) = evaluate_op(op, [], self._symbols)
        return self._arrays[value]

    def _numbers(self, sizes: Shape) -> tuple[int, ...]:
        """Return a shape with its symbols evaluated."""
        return tuple(map(self._number, sizes))

    def _number(self, size: Size) -> int:
        """Return a size with its symbols evaluated."""
        return evaluate_size(size, self._symbols)


class _WrittenMemory:
    """An array that statements write, with a count of the writes of each element."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._elements = np.zeros(shape, dtype)
        self._times = np.zeros(shape, int)

    def write_all(self, elements: np.ndarray) -> None:
        """Write all elements, in order."""
        shape = self._elements.shape
        if elements.size != self._elements.size:
            _refuse(f"it writes {elements.size} elements of a value of {shape}")
        self._elements[...] = elements.reshape(shape)
        self._times += 1

    def write(self, place: View, elements: np.ndarray) -> None:
        """Write elements to the part of the array that a view describes."""
        shape = self._elements.shape
        is_inside = place.source == shape and place.is_inside()
        if not is_inside or place.shape != elements.shape:
            _refuse(f"it writes outside of a value of the shape {shape}")
        at = place.read(np.arange(self._elements.size).reshape(shape))
        self._elements.ravel()[at] = elements
        np.add.at(self._times.ravel(), at, 1)

    def array(self) -> np.ndarray:
        """Return the array; raise unless each element was written exactly once."""
        if not np.all(self._times == 1):
            _refuse(
                f"of {self._times.size} elements it writes "
                f"{np.count_nonzero(self._times == 0)} never and "
                f"{np.count_nonzero(self._times > 1)} several times"
            )
        return self._elements


def _part(factor: np.ndarray, some: slice) -> np.ndarray:
    """Return a slice of a factor along the last loop; all of it if of size 1 there."""
    return factor if factor.shape[-1] == 1 else factor[..., some]


def _refuse(why: str) -> NoReturn:
    """Raise a `bad-term` error with a reason."""
    raise CompileError("bad-term", f"no code can be made of a term: {why}")
