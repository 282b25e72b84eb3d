"""Elementwise ops that a kernel computes beside its anchor, as data.

Families of kernels say it (`aotc.kernels.families`): the dtypes of elements, and what
operands may be. Which ops can be applied to vectors, the ops say (`on_vectors`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from aotc.core.dtypes import is_float
from aotc.dialects.functions.walking import defining_op, has_one_use
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.quantization import Lookup
from aotc.dialects.ops.selection import Cast, Compare, Select
from aotc.dialects.types import Tensor
from aotc.kernels.operands import (
    KernelOperand,
    PerColumn,
    PerGroup,
    PerRow,
    ScalarOperand,
    SomeColumns,
    Whole,
    operand_of,
    viewed_operand,
)
from aotc.mlir import Value

Operands = frozenset[type[KernelOperand]]  # the kinds of them that a kernel takes

NONE: Operands = frozenset()
ALIKE = frozenset(
    {Whole, ScalarOperand, PerColumn}
)  # in all rows, or of the result's shape
BY_ROWS = ALIKE | {PerRow, PerGroup}
OF_COLUMNS = BY_ROWS | {SomeColumns}
OF_NUMBERS = frozenset({Whole, ScalarOperand})  # wherever elements lie

CONDITION = "bool"  # of vectors that are in registers alone
NARROW = ("i8", "u8")  # integers that memory has of vectors of f32 and i32
FLOATS = ("f32", "bf16", "f16")  # floats that are f32 in vectors


@dataclass(frozen=True)
class Elementwise:
    """Constraints on the elementwise ops that a kernel computes beside its anchor op.

    Args:
        operands: what their operands may be.
        columns: the axes of their results along which rows share vectors.
        dtypes: of all elements.
        sources: other dtypes, of elements of which casts make these.
        stored: other dtypes, of elements that casts make of these.
        is_plain: whether they take few instructions, none being approximated.
        looks_up: whether tables of bytes are among them.
        lifts: whether the code of an op for elements can be written for tiles of GPUs,
            which read their operands through any view; None for vectors.
    """

    operands: Operands
    columns: Sequence[int]
    dtypes: Container[str] = ("f32",)
    sources: Container[str] = ()
    stored: Container[str] = ()
    is_plain: bool = False
    looks_up: bool = False
    lifts: Callable[[GraphOp], bool] | None = None

    def takes(self, op: GraphOp) -> bool:
        """Return whether the kernel can compute an elementwise op on its vectors."""
        kinds = {Tensor.of(value).dtype for value in (*op.operands, *op.results)}
        if self.lifts is not None:
            known = all(x in self.dtypes or x in self.stored for x in kinds)
            return known and self.lifts(op)
        if isinstance(op, Cast):
            return self._casts(Tensor.of(op.x).dtype, Tensor.of(op.y).dtype)
        if isinstance(op, Lookup):
            return self.looks_up and all(kind in self.stored for kind in kinds)
        if isinstance(op, Compare | Select):
            return all(x in self.dtypes for x in kinds - {CONDITION}) and chooses(op)
        if not all(kind in self.dtypes for kind in kinds):
            return False
        if self.is_plain and type(op).is_approximated:
            return False
        if "bool" in kinds:
            return type(op).on_masks
        return type(op).on_integers if kinds == {"i32"} else type(op).on_vectors

    def _casts(self, source: str, kind: str) -> bool:
        """Return whether the kernel can cast vectors of `source` to dtype `kind`."""
        if "bool" in (source, kind):
            return False
        if kind in self.stored:
            return source in self.dtypes and is_float(source)
        is_narrow = source in self.sources or source in self.stored
        is_known = source in self.dtypes or is_narrow
        return is_known and kind in self.dtypes and (is_float(kind) or is_narrow)

    def operand(self, value: Value) -> KernelOperand | None:
        """Return how the kernel reads an operand; None for dtypes that it cannot."""
        kind = Tensor.of(value)
        if kind.dtype not in self.dtypes and kind.dtype not in self.sources:
            return None
        if self.lifts is not None:
            return viewed_operand(value)
        found = operand_of(value)
        sizes = tuple(kind.shape[axis] for axis in self.columns)
        fits = type(found) in self.operands and found.fits(sizes)
        return found if fits else Whole(value)


def chooses(op: GraphOp) -> bool:
    """Return whether an op is a float comparison, or a float select by such a one.

    Conditions stay in registers: those of comparisons that are no `exact` ones, made
    where they are used.
    """
    if isinstance(op, Compare):
        return is_float(Tensor.of(op.lhs).dtype) and not op.exact
    return isinstance(op, Select) and condition_of(op) is not None


def condition_of(op: GraphOp) -> Compare | None:
    """Return the float comparison that only this select reads; else None."""
    if not isinstance(op, Select) or not is_float(Tensor.of(op.y).dtype):
        return None
    made = defining_op(op.condition)
    if not isinstance(made, Compare) or not chooses(made):
        return None
    return made if has_one_use(op.condition) else None
