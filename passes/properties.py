"""Properties of units that passes require and ensure, as predicates.

The order of the stages has its reasons here: a pass names what it requires, and one
before it ensures that. A test runs the stages on models, and asks before each pass what
it requires, and after each what has been ensured so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.function_table import name_of
from aotc.dialects.functions.functions import callee_of, functions_of, lowered_op
from aotc.dialects.functions.fusion import FUSED, has_unfused_body
from aotc.dialects.functions.transform import derived_of
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.shape import Transpose, moves_nothing
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Operation, func
from aotc.passes.base import Property, Unit
from aotc.passes.build_time_values import is_large_constant


def _names(functions: Iterable[Function]) -> Iterator[str]:
    """Yield a description of each function, for the report of a violated property."""
    return (f"function '{name_of(each)}'" for each in functions)


def _ops(unit: Unit) -> Iterator[Operation]:
    """Yield the ops of all function bodies outside of regions."""
    for function in functions_of(unit.module).values():
        if has_unfused_body(function):
            yield from function.entry_block.operations


def _unwritten_derivatives(unit: Unit) -> Iterator[str]:
    """Yield functions declared as derivatives whose body is not written yet."""
    functions = functions_of(unit.module).values()
    return _names(each for each in functions if derived_of(each) is not None)


def _calls_of_bodies(unit: Unit) -> Iterator[str]:
    """Yield calls whose callee has a body that is no region: not inlined yet."""
    functions = functions_of(unit.module)
    for function in functions.values():
        for op in calls_in(function):
            callee = functions[callee_of(op)]
            if has_unfused_body(callee):
                yield f"a call of '{callee_of(op)}' in '{name_of(function)}'"


def _wanted_sizes(unit: Unit, *, padded: bool) -> Iterator[str]:
    """Yield requested specializations not yet made; with `padded`, padded ones too."""
    for entry in unit.program.entries:
        for sizes in entry.specializations:
            if padded or not {*dict(sizes)} & {*entry.padded_symbols}:
                yield f"entry '{entry.name}' for {dict(sizes)}"


def _idle_code(unit: Unit) -> Iterator[str]:
    """Yield entries that still have general code which no call can reach."""
    functions = functions_of(unit.module)
    for entry in unit.program.entries:
        is_general = entry.specializes is None and not entry.has_general_code
        if is_general and not functions[entry.name].is_external:
            yield f"entry '{entry.name}'"


def _equal_ops(unit: Unit) -> Iterator[str]:
    """Yield pure ops that repeat an earlier op of their block."""
    seen = set[Any]()
    for op in _ops(unit):
        if isinstance(op, GraphOp) and not has_effect(op):
            cls = type(op)
            stated = tuple(op.attributes[name] for name in cls.codecs)
            key = cls, tuple(op.operands), stated, tuple(x.type for x in op.results)
            if (op.operation.block, key) in seen:
                yield str(op)
            seen.add((op.operation.block, key))


def _needless_transposes(unit: Unit) -> Iterator[str]:
    """Yield transposes that do not change the order of elements in memory."""
    for op in _ops(unit):
        if not isinstance(op, Transpose):
            continue
        if moves_nothing(Tensor.of(op.x).shape, op.permutation):
            yield str(op)


def _equal_regions(unit: Unit) -> Iterator[str]:
    """Yield regions whose body repeats an earlier region's."""
    seen = set[str]()
    for name, function in functions_of(unit.module).items():
        if FUSED in function.attributes and not function.is_external:
            text = str(function).replace(f"@{name}(", "@(")
            if text in seen:
                yield f"region '{name}'"
            seen.add(text)


def _large_constants(unit: Unit) -> Iterator[str]:
    """Yield large constants in entries whose weights' arrays are available."""
    functions = functions_of(unit.module)
    for entry in unit.program.entries if unit.program.has_arrays else ():
        function = functions[entry.name]
        if not function.is_external:
            for op in function.entry_block.operations:
                if is_large_constant(op):
                    yield f"a constant of {op.results[0].type} in '{entry.name}'"


def _composed_ops(unit: Unit) -> Iterator[str]:
    """Yield ops outside of regions that still have a `decompose` rule."""
    for op in _ops(unit):
        if isinstance(op, GraphOp) and hasattr(type(op), "decompose"):
            yield str(op)


def _graph_ops(unit: Unit) -> Iterator[str]:
    """Yield ops of the graph dialect outside of regions."""
    for op in _ops(unit):
        if isinstance(op, GraphOp):
            yield str(op)


def _lowered_ops(unit: Unit) -> Iterator[str]:
    """Yield the first op that is not of the graph dialect, if any."""
    op = lowered_op(unit.module)
    return iter(() if op is None else (op,))


def _control_in_functions(unit: Unit) -> Iterator[str]:
    """Yield the names of scf ops at the top level of functions outside of regions."""
    for op in _ops(unit):
        if not isinstance(op, func.ReturnOp) and op.operation.name.startswith("scf."):
            yield op.operation.name


DERIVATIVES_WRITTEN = Property(
    "derivatives-written",
    "no function stands for a derivative that is yet to be written",
    _unwritten_derivatives,
)
CALLS_INLINED = Property(
    "calls-inlined",
    "no function with a body is called, but regions",
    _calls_of_bodies,
)
SIZES_SPECIALIZED = Property(
    "sizes-specialized",
    "no entry is to have code of its own for sizes, but for those that are padded to",
    lambda unit: _wanted_sizes(unit, padded=False),
)
SIZES_PADDED = Property(
    "sizes-padded",
    "no entry is to have code of its own for sizes",
    lambda unit: _wanted_sizes(unit, padded=True),
)
GENERAL_CODE_DROPPED = Property(
    "general-code-dropped", "no entry has code that no call runs", _idle_code
)
VALUES_UNIQUE = Property(
    "values-unique", "no two ops of a block compute the same", _equal_ops, lasts=False
)
TRANSPOSES_MOVE = Property(
    "transposes-move",
    "no transpose leaves all elements where they are",
    _needless_transposes,
    lasts=False,
)
CONSTANTS_STORED = Property(
    "constants-stored",
    "where the arrays of weights are at hand, no entry has a large constant",
    _large_constants,
)
REGIONS_UNIQUE = Property(
    "regions-unique",
    "regions of one meaning and one schedule are one function",
    _equal_regions,
    lasts=False,
)
OPS_DECOMPOSED = Property(
    "ops-decomposed", "each op that is in no region has a `lower` rule", _composed_ops
)
IS_GRAPH = Property(
    "is-graph", "all ops are of the graph dialect", _lowered_ops, lasts=False
)
LOWERED = Property("lowered", "no op is of the graph dialect", _graph_ops)
CONTROL_IN_BLOCKS = Property(
    "control-in-blocks",
    "loops and branches of functions are blocks",
    _control_in_functions,
)
