"""Compute values of weights and constants alone once, when the model is built.

    func @f(%w {graph.name = "dense.w"}, %x)
      %t = graph.transpose(%w)
      %y = graph.dot_general(%x, %t)
    →
    func @f(%x, %t {graph.name = "dense.w.folded"})
      %y = graph.dot_general(%x, %t)

The reference evaluator computes it, in the dtypes of the ops: what is small at once,
and what is large when it is written, so that memory does not grow with the weights.
What is stored, and what stays code, `build_time_values` decides. A weight that nothing
reads, be it from the start, is dropped from the entry, and from the program where no
entry takes it. States are never computed with: they change.

Requires: the arrays of the weights; nothing changes where a program comes without them.
Ensures: equal values of several entries are one weight; no entry has a large constant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

import numpy as np

from aotc.dialects.calls.callees import callees
from aotc.dialects.functions.entries import Entry, Port, write_entry
from aotc.dialects.functions.function_table import index_functions
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import evaluate
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Module, Value, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.build_time_values import BuildTimeValues, bytes_of, values_to_store
from aotc.passes.properties import CONSTANTS_STORED
from aotc.programs.computed_arrays import (
    ArrayOrigin,
    ComputedArray,
    StoredArray,
    is_computed_alike,
    likeness_key,
)
from aotc.programs.program import Program

SUFFIX = "folded"  # of the name of a weight that is computed from another
CONSTANTS = "constants"  # what weights belong to that are computed from none

# What is no larger is computed in its pass, where it is compared with others by its
# elements; the rest by the ops that compute it.
MOST_BYTES_AT_ONCE = 2**16

_FOLDED = re.compile(rf"\.{SUFFIX}(_\d+)?$")

Array = np.ndarray


class FoldParameters(Pass):
    """Evaluate values of weights and constants alone at build time; store them as
    weights.
    """

    name = "fold-parameters"
    level = 2
    keeps_graph = True
    ensures = (CONSTANTS_STORED,)
    notes_origins: ClassVar[bool] = False

    def run(self, unit: Unit) -> bool:
        """Replace values by stored weights in the unit's program; return whether any
        changed.
        """
        if not unit.program.has_arrays:
            return False
        with index_functions(unit.module):
            return _fold(unit, notes_origins=self.notes_origins)


class FoldWithOrigins(FoldParameters):
    """`FoldParameters` that also notes how each eagerly computed array was computed."""

    notes_origins = True


def folds_parameters(program: Program) -> bool:
    """Return whether a program has its weights' arrays and `fold-parameters` is not
    left out.
    """
    return program.has_arrays and FoldParameters.name not in program.without


def _fold(unit: Unit, *, notes_origins: bool) -> bool:
    """Store the chosen values of all entries as weights, in place; return whether any
    changed.
    """
    program = unit.program
    functions = functions_of(program.module)
    called = {name for each in functions.values() for name in callees(each)}
    numbers: dict[Any, int] = {}
    entries = [
        BuildTimeValues(entry, functions[entry.name], numbers)
        for entry in program.entries
        if entry.name not in called  # a call relies on the signature
    ]
    chosen = values_to_store(entries, stores_orders=unit.target is not None)
    store = _Store(program, unit.notes if notes_origins else None)
    dropped, changed = set[str](), False
    for entry, values in zip(entries, chosen, strict=True):
        if values or not all(map(_is_read, entry.weight_of)):
            dropped |= _replace(program.module, entry, store.names_of(entry, values))
            changed = True
    program.drop_unread(dropped)
    return changed


# ---- arrays and names ---------------------------------------------------------------


class _Store:
    """Adds computed values to a program's weights, each distinct array once.

    Args:
        program: with the arrays of its weights.
        notes: get the origins of what is computed at once; None if nobody asks.
    """

    def __init__(self, program: Program, notes: list[Any] | None) -> None:
        self._program, self._notes = program, notes
        self._given = dict(program.parameters)
        self._names: dict[int, str] = {}  # by number of the expression
        self._alike: dict[Any, list[str]] = {}
        states = {state.name for state in program.states}
        names = (f"{CONSTANTS}{'_' * number}" for number in count())
        self._constants = next(name for name in names if name not in states)

    def names_of(
        self, entry: BuildTimeValues, values: Sequence[Value]
    ) -> dict[Value, str]:
        """Compute the given values, add them to the program's weights; return their
        names.
        """
        new = [x for x in values if entry.number_of[x] not in self._names]
        for value, array in _computed_arrays(entry, new, self._given):
            if self._notes is not None and not isinstance(array, ComputedArray):
                origin = ArrayOrigin(array, _computed_array(entry, value, self._given))
                self._notes.append(origin)
            name = self._keep(entry.source_of.get(value), Tensor.of(value), array)
            self._names[entry.number_of[value]] = name
        return {value: self._names[entry.number_of[value]] for value in values}

    def _keep(self, source_weight: str | None, kind: Tensor, array: StoredArray) -> str:
        """Return the weight that equals an array, by name; add it to the program if
        new.
        """
        alike = self._alike.setdefault((kind, likeness_key(array)), [])
        for name in alike:
            if is_computed_alike(self._program.parameters[name], array):
                return name
        name = self._free_name(source_weight)
        self._program.add_parameter(name, array, kind, "weight")
        alike.append(name)
        return name

    def _free_name(self, source_weight: str | None) -> str:
        """Return an unused weight name, derived from that of `source_weight` if there
        is one.
        """
        if source_weight is None:
            names = (f"{self._constants}.{number}" for number in count())
        else:
            first = f"{_FOLDED.sub('', source_weight)}.{SUFFIX}"
            names = (f"{first}_{number}" if number else first for number in count())
        return next(name for name in names if name not in self._program.parameters)


def _computed_arrays(
    entry: BuildTimeValues, values: Sequence[Value], weights: Mapping[str, StoredArray]
) -> list[tuple[Value, StoredArray]]:
    """Return values with their arrays, small ones evaluated now, large ones lazily."""
    kinds = {value: Tensor.of(value) for value in values}
    small = [x for x in values if bytes_of(kinds[x]) <= MOST_BYTES_AT_ONCE]
    arrays: dict[Value, StoredArray] = dict(_evaluated(entry, small, weights))
    for value in values:
        if value not in arrays:
            arrays[value] = _computed_array(entry, value, weights)
    order = [x for op in entry.ops_computed() for x in op.results if x in arrays]
    return [(value, arrays[value]) for value in order]


def _computed_array(
    entry: BuildTimeValues, value: Value, weights: Mapping[str, StoredArray]
) -> ComputedArray:
    """Return a lazy array of a value, evaluated from the weights each time it is
    read.
    """
    ops = entry.ops_of(entry.values_below([value]))
    leaves = {x: weights[name] for x, name in entry.weight_of.items()}
    return ComputedArray(ops, value, leaves)


def _evaluated(
    entry: BuildTimeValues, values: Sequence[Value], weights: Mapping[str, StoredArray]
) -> Iterator[tuple[Value, Array]]:
    """Yield some values of an entry with their arrays, by the reference evaluator.

    Nothing is computed that they do not need, and nothing kept for longer.
    """
    wanted, below = set(values), entry.values_below(values)
    reads = Counter(x for op in entry.ops_of(below) for x in op.operands)
    arrays = {x: weights[n] for x, n in entry.weight_of.items() if x in below}
    for op in entry.ops_of(below):
        with np.errstate(all="ignore"):  # an overflow is what it is in a call
            found = evaluate(op, [np.asarray(arrays[x]) for x in op.operands], [])
        arrays.update(zip(op.results, found, strict=True))
        reads.subtract(op.operands)
        for value in op.results:
            if value in wanted:
                # as it is written; a view would keep what it is a view of
                yield value, np.array(arrays[value], order="C")
        for value in (*op.operands, *op.results):
            if not reads[value]:
                arrays.pop(value, None)


# ---- the entry ----------------------------------------------------------------------


def _replace(
    module: Module, values: BuildTimeValues, name_of: Mapping[Value, str]
) -> set[str]:
    """Replace values of an entry by weight arguments; return the weights it drops."""
    entry, block = values.entry, values.function.entry_block
    added: dict[str, Value] = {}
    for value, name in name_of.items():
        if name not in added:
            added[name] = block.add_argument(value.type, ir.Location.unknown())
        value.replace_all_uses_with(added[name])
    for op in reversed(values.ops_computed()):
        if not any(map(_is_read, op.results)):
            op.operation.erase()
    return retake_weights(module, entry, added)


def retake_weights(
    module: Module, entry: Entry, added: Mapping[str, Value]
) -> set[str]:
    """Update an entry's signature: add the weights in `added`, erase unread ones.

    Args:
        module: of the entry.
        entry: as it is stated.
        added: arguments that its function has got, in order, by names of weights.

    Returns:
        The names of what it takes no more.
    """
    function = functions_of(module)[entry.name]
    block = function.entry_block
    ports = [
        *entry.arguments,
        *(Port(name, Tensor.of(value), "weight") for name, value in added.items()),
    ]
    kept = _erase_unread(block, ports)
    stored = [port.name.partition(".")[0] for port in kept if port.kind != "input"]
    known = [name for name in entry.reads if name in stored]  # in the order they had
    reads = tuple(dict.fromkeys((*known, *stored)))
    types = [value.type for value in block.arguments]
    whole = ir.FunctionType.get(types, list(function.type.results))
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    write_entry(module, replace(entry, arguments=tuple(kept), reads=reads))
    return {port.name for port in ports} - {port.name for port in kept}


def _erase_unread(block: Block, ports: Sequence[Port]) -> list[Port]:
    """Erase unread weight arguments of a block; return the ports of the remaining
    arguments.
    """
    rows = list(zip(ports, block.arguments, strict=True))
    kept = [port.kind != "weight" or _is_read(value) for port, value in rows]
    for index in reversed(range(len(rows))):
        if not kept[index]:
            block.erase_argument(index)
    return [port for port, stays in zip(ports, kept, strict=True) if stays]


def _is_read(value: Value) -> bool:
    """Return whether a value has a use."""
    return next(iter(value.uses), None) is not None
