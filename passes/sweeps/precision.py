"""The precision sweep: a function that computes in a cheaper float dtype where it may.

Every op says what it does (`precision`): products of matrices compute in the cheaper
dtype, ops that need range or digits keep f32, and all others follow their operands.
Arguments may be rounded, but for those that are to be kept, constants take the dtype
that they meet, and what an op kept in f32 stays so until a product rounds it.
(Micikevicius et al., "Mixed precision training", 2018, and the op lists of automatic
mixed precision since then.)
"""

from collections.abc import Iterable, Sequence
from itertools import repeat

from aotc.dialects.builder import Builder
from aotc.dialects.functions import functions
from aotc.dialects.functions.transform import Precision, derive
from aotc.dialects.functions.walking import defining_op, walk
from aotc.dialects.graph import GIVEN, LOW, WIDE, GraphOp, as_tuple
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.rules.mixing import kind_of, kind_of_constant
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Function, Operation, Value, func
from aotc.passes.sweeps.rules import rules_of_call


def sweep(derived: Precision, primal: Function, block: Block) -> list[Value]:
    """Write the ops of `primal` at the insertion point; returns the results.

    Args:
        derived: which dtype is the cheaper one.
        primal: the function.
        block: whose arguments are those of the function being written.
    """
    compute = derived.compute

    def write(
        op: Operation, operands: list[_DtypeReplacements]
    ) -> Sequence[_DtypeReplacements]:
        if isinstance(op, func.CallOp):
            given = [each.read(WIDE) for each in operands]
            results, kind = _write_call(op, given, compute), LOW
        else:
            assert isinstance(op, GraphOp)
            results, kind = _write_op(op, operands, compute)
        return _variants(op.results, results, repeat(kind), compute)

    primal_block = primal.entry_block
    count = len(primal_block.arguments)
    kinds = [WIDE if number in derived.kept else GIVEN for number in range(count)]
    given = _variants(primal_block.arguments, block.arguments, kinds, compute)
    return [each.read(WIDE) for each in walk(primal_block, given, write)]


class _DtypeReplacements:
    """The replacements of a value of the function, in the dtypes that were wanted.

    Args:
        dtype: of the value.
        new: stands for it.
        kind: how ops take it; see `aotc.dialects.rules.mixing`.
        compute: the cheaper dtype.
    """

    def __init__(self, dtype: str, new: Value, kind: str, compute: str) -> None:
        self.dtype, self.kind = dtype, kind
        self._new, self._compute = new, compute
        self._known = {Tensor.of(new).dtype: new}

    def read(self, kind: str) -> Value:
        """The value for an op that computes in f32, or in the cheaper dtype."""
        is_rounded = self.dtype == "f32" and kind == LOW
        wanted = self._compute if is_rounded else self.dtype
        if wanted not in self._known:
            self._known[wanted] = _cast(self._new, wanted)
        return self._known[wanted]


def _cast(value: Value, dtype: str) -> Value:
    """Return a value in another dtype; where it repeats another, that one is cast."""
    op = defining_op(value)
    if isinstance(op, Broadcast):
        found: Value = op.rebuild(_cast(op.x, dtype))
        return found
    return Builder().cast(value, dtype=dtype)


def _variants(
    olds: Sequence[Value], news: Sequence[Value], kinds: Iterable[str], compute: str
) -> list[_DtypeReplacements]:
    return [
        _DtypeReplacements(Tensor.of(old).dtype, new, kind, compute)
        for old, new, kind in zip(olds, news, kinds, strict=False)
    ]


def _write_op(
    op: GraphOp, operands: Sequence[_DtypeReplacements], compute: str
) -> tuple[Sequence[Value], str]:
    """Write the op on variants of its operands; return its results, and their kind."""
    kind = kind_of(op, operands, compute)
    if isinstance(op, Constant):
        kind = kind_of_constant(op.value, compute)
    given = [each.read(kind) for each in operands]
    return as_tuple(op.rebuild(*given)), kind


def _write_call(
    call: func.CallOp, operands: list[Value], compute: str
) -> Sequence[Value]:
    """Write a call; control flow and checkpoints get cheaper functions, others not."""
    name, rules = functions.callee_of(call), rules_of_call(call)
    if rules.keeps_precision:
        return functions.call(name, operands)
    return rules.call_transformed(
        name, operands, lambda each: derive(Precision(each, compute))
    )
