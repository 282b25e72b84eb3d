"""Computes terms in NumPy: the oracle of every emitter of code.

Operands are read through their views, and the elementwise ops of the region are applied
to what the loops read, as code does in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aotc import dtypes
from aotc.dialects.graph import GraphOp
from aotc.dialects.graph import evaluate as evaluate_op
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.types import Size, Tensor, evaluate_size
from aotc.dialects.walking import defining_op
from aotc.kernels.terms import Factor, Term
from aotc.mlir import Value


def evaluate(
    term: Term, arguments: Mapping[Value, np.ndarray], symbols: Sequence[int] = ()
) -> list[np.ndarray]:
    """Return the results of a region.

    Args:
        term: of the region.
        arguments: what the arguments of the region are.
        symbols: the values of the region's symbols.
    """
    return _Evaluator(arguments, symbols).results(term)


class _Evaluator:
    def __init__(
        self, arguments: Mapping[Value, np.ndarray], symbols: Sequence[int]
    ) -> None:
        self._symbols = symbols
        self._arrays = dict(arguments)

    def results(self, term: Term) -> list[np.ndarray]:
        kind = Tensor.of(term.total)
        wide = dtypes.to_numpy(accumulator(kind.dtype))
        factors = [self._read(factor).astype(wide) for factor in term.factors]
        total = term.nest.evaluate(factors).astype(dtypes.to_numpy(kind.dtype))
        self._arrays[term.total] = total.reshape(tuple(map(self._number, kind.shape)))
        return [self._array(value) for value in term.results]

    def _read(self, factor: Factor) -> np.ndarray:
        """Return what the loops read of an operand, with loops as axes."""
        source = factor.behind_views()
        op = source.op
        if op is not None and op.operands and source.value not in self._arrays:
            read = [self._read(operand) for operand in source.operands()]
            (found,) = evaluate_op(op, read, self._symbols)
            return found
        view = source.view()
        if view is None:  # no view leads to the argument: the operand is made whole
            source, view = factor, factor.view()
        assert view is not None
        return view.with_sizes(self._number).read(self._array(source.value))

    def _array(self, value: Value) -> np.ndarray:
        """Return a value of the region."""
        if value not in self._arrays:
            op = defining_op(value)
            assert isinstance(op, GraphOp)
            read = [self._array(operand) for operand in op.operands]
            (self._arrays[value],) = evaluate_op(op, read, self._symbols)
        return self._arrays[value]

    def _number(self, size: Size) -> int:
        return evaluate_size(size, self._symbols)
