"""The precision sweep: a function that computes in a cheaper float dtype where it may.

Every op says what it does (`precision`): products of matrices compute in the cheaper
dtype, ops that need range or digits keep f32, and all others follow their operands.
Arguments may be rounded, but for those that are to be kept, constants take the dtype
that they meet, and what an op kept in f32 stays so until a product rounds it.

What is finite stays so where a softmax reads it, in constants and in what is added to
scores: of a row of -infinity alone, as which the least number of f32 would be rounded,
a softmax is NaN. f16 keeps such sums in f32, which it has no room for.
(Micikevicius et al., "Mixed precision training", 2018, and the op lists of automatic
mixed precision since then.)
"""

from collections.abc import Iterable, Sequence
from itertools import repeat

import ml_dtypes
import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions import functions
from aotc.dialects.functions.transform import Precision, derive
from aotc.dialects.functions.walking import backward_slice, defining_op, walk
from aotc.dialects.graph import FOLLOWS, GIVEN, LOW, WIDE, GraphOp, as_tuple
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.attention_sums import is_moderate
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.normalization import Softmax
from aotc.dialects.ops.padding import Pad
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.rules.mixing import (
    kind_of,
    kind_of_constant,
    kind_of_padding,
    nearest_finite,
)
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Function, Operation, Value, func
from aotc.passes.sweeps.rules import rules_of_call


def sweep(derived: Precision, primal: Function, block: Block) -> list[Value]:
    """Emit the ops of `primal` in mixed precision; return results of unchanged dtypes.

    Args:
        derived: which dtype is the cheaper one.
        primal: the function.
        block: whose arguments are those of the function being written.
    """
    compute = derived.compute
    scores = _scores_in(primal)

    def write(
        op: Operation, operands: list[_DtypeReplacements]
    ) -> Sequence[_DtypeReplacements]:
        if isinstance(op, func.CallOp):
            given = [each.read(WIDE) for each in operands]
            results, kind = _write_call(op, given, compute), LOW
        else:
            assert isinstance(op, GraphOp)
            is_score = any(each in scores for each in op.results)
            results, kind = _write_op(op, operands, compute, is_score)
        return variants(op.results, results, repeat(kind))

    def variants(
        olds: Sequence[Value], news: Sequence[Value], kinds: Iterable[str]
    ) -> list[_DtypeReplacements]:
        return [
            _DtypeReplacements(Tensor.of(old).dtype, new, kind, compute, old in scores)
            for old, new, kind in zip(olds, news, kinds, strict=False)
        ]

    primal_block = primal.entry_block
    count = len(primal_block.arguments)
    kinds = [WIDE if number in derived.kept else GIVEN for number in range(count)]
    given = variants(primal_block.arguments, block.arguments, kinds)
    return [each.read(WIDE) for each in walk(primal_block, given, write)]


class _DtypeReplacements:
    """The replacements of a primal value, one for each dtype it is read in.

    Args:
        dtype: of the value.
        new: stands for it.
        kind: how ops take it; see `aotc.dialects.rules.mixing`.
        compute: the cheaper dtype.
        is_score: whether a softmax reads it, or what is made of it.
    """

    def __init__(
        self, dtype: str, new: Value, kind: str, compute: str, is_score: bool
    ) -> None:
        self.dtype, self.kind = dtype, kind
        self._new, self._compute, self._is_score = new, compute, is_score
        self._known = {Tensor.of(new).dtype: new}

    def read(self, kind: str) -> Value:
        """Return the value in f32 or the cheaper dtype, as `kind` says; emit the cast
        once.
        """
        is_rounded = self.dtype == "f32" and kind == LOW
        wanted = self._compute if is_rounded else self.dtype
        if wanted not in self._known:
            stays_finite = self._is_score and is_rounded
            self._known[wanted] = _cast(self._new, wanted, stays_finite)
        return self._known[wanted]


def _cast(value: Value, dtype: str, stays_finite: bool) -> Value:
    """Emit a value in another dtype; of a broadcast, its operand is cast."""
    b, op = Builder(), defining_op(value)
    if isinstance(op, Broadcast):
        found: Value = op.rebuild(_cast(op.x, dtype, stays_finite))
        return found
    if isinstance(op, Constant) and not Tensor.of(value).rank:
        return b.constant(value=nearest_finite(np.asarray(op.value), dtype))
    if stays_finite and not is_moderate(value):
        return _cast_finite(b, value, dtype)
    return b.cast(value, dtype=dtype)


def _cast_finite(b: Builder, x: Value, dtype: str) -> Value:
    """Emit `x` in a narrower dtype, in which finite numbers stay finite."""
    most = float(ml_dtypes.finfo(dtypes.to_numpy(dtype)).max)
    size, narrow = b.abs(x), b.cast(x, dtype=dtype)
    is_large = b.compare(size, b.full_like(x, most), direction="gt")
    is_finite = b.compare(size, b.full_like(x, np.inf), direction="lt")
    is_negative = b.compare(x, b.full_like(x, 0.0), direction="lt")
    low, high = (b.full_like(narrow, each) for each in (-most, most))
    nearest = b.select(is_negative, low, high)
    return b.select(b.bitwise_and(is_large, is_finite), nearest, narrow)


def _scores_in(function: Function) -> set[Value]:
    """Return the values that softmax or attention read as scores, and what these
    follow.
    """
    ops = function.entry_block.operations
    read = [op.x for op in ops if isinstance(op, Softmax)]
    read += [op.bias for op in ops if isinstance(op, Attention)]

    def follows(value: Value) -> bool:
        return getattr(defining_op(value), "precision", None) == FOLLOWS

    return set(backward_slice(read, follows))


def _write_op(
    op: GraphOp,
    operands: Sequence[_DtypeReplacements],
    compute: str,
    is_score: bool,
) -> tuple[Sequence[Value], str]:
    """Emit an op on operands of suitable dtypes; return its results, and how ops take
    them.
    """
    kind = kind_of(op, operands, compute)
    if is_score and compute == "f16" and GIVEN in {each.kind for each in operands}:
        kind = WIDE if kind == LOW and op.precision == FOLLOWS else kind
    if isinstance(op, Constant):
        kind = kind_of_constant(op.value, compute)
    if isinstance(op, Pad):
        kind = kind_of_padding(kind, op.value, compute)
    given = [each.read(kind) for each in operands]
    return as_tuple(op.rebuild(*given)), kind


def _write_call(
    call: func.CallOp, operands: list[Value], compute: str
) -> Sequence[Value]:
    """Emit a call; control flow and checkpoints call functions in mixed precision."""
    name, rules = functions.callee_of(call), rules_of_call(call)
    if rules.keeps_precision:
        return functions.call(name, operands)
    return rules.call_transformed(
        name, operands, lambda each: derive(Precision(each, compute))
    )
