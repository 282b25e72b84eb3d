"""Runs of programs that begin alike, which share the computation of their prefix.

Values have numbers: equal ones are computed by equal ops of equal operands, in whatever
program. Of one program the values that are live in front of each product are kept, for
each call; other programs compute what their outputs need and nothing of the kind has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.graph import has_effect
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.mlir import Function, Operation, Value
from aotc.programs.computed_arrays import (
    Array,
    StoredArray,
    is_computed_alike,
    likeness_key,
)
from aotc.programs.program import Program
from aotc.quantization.measuring import Calls, join_outputs, run
from aotc.reference import PreparedPart, bind_symbols

_MOST_BYTES = 2**30  # of the values that are kept, of all calls together

EvaluateCall = Callable[[Sequence[Array], int], dict[Value, Array]]
Kept = dict[int, list[Array]]  # by the number of a value, an array for each call


@dataclass
class SharedPrefix:
    """A cache of values of one program, from which programs with an equal prefix
    resume.

    Args:
        calls: of entries, for all programs.
        most_bytes: that the values take; where they would take more, those in front of
            every second product are kept, or every fourth, and so on.
    """

    calls: Calls
    most_bytes: int = _MOST_BYTES
    _kept: dict[str, Kept] = field(default_factory=dict)  # by entry
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _parameters: dict[Hashable, list[tuple[StoredArray, int]]] = field(
        default_factory=dict
    )

    def keep(self, program: Program) -> None:
        """Evaluate a program, and replace the cached values by those live at its
        products.
        """
        left = self.most_bytes
        for part in self._resumable_entries(program):
            name, values = part.entry.name, part.values_to_keep()
            calls, kept = self.calls[name], self._kept.get(name, {})
            first = part.evaluator(kept, values)(calls[0], 0)
            values = part.fitting(first, left // len(calls))
            evaluate = part.evaluator(kept, values)
            others = [evaluate(x, number) for number, x in enumerate(calls) if number]
            rows = {value: [x[value] for x in (first, *others)] for value in values}
            left -= sum(x.nbytes for arrays in rows.values() for x in arrays)
            self._kept[name] = {part.numbers[value]: x for value, x in rows.items()}

    def run(self, program: Program) -> dict[str, list[Array]]:
        """Return a program's outputs, computed from cached values; bit-identical to a
        full run.
        """
        parts = {part.entry.name: part for part in self._resumable_entries(program)}
        whole = {name: x for name, x in self.calls.items() if name not in parts}
        outputs = run(program, whole) if whole else {}
        for name, part in parts.items():
            evaluate = part.evaluator(self._kept.get(name, {}), part.outputs)
            found = [evaluate(x, number) for number, x in enumerate(self.calls[name])]
            rows = [[each[value] for each in found] for value in part.outputs]
            outputs[name] = [join_outputs(row) for row in rows]
        return outputs

    def _resumable_entries(self, program: Program) -> Iterable[_ResumableEntry]:
        """Yield the called entries without side effects, as evaluable from cached
        values.
        """
        functions = functions_of(program.module)
        for entry in program.entries:
            *ops, _ = functions[entry.name].entry_block.operations
            if entry.name in self.calls and not any(map(has_effect, ops)):
                function = functions[entry.name]
                numbers = self._number_values(program, entry, function)
                yield _ResumableEntry(program, entry, function, numbers)

    # ---- numbers

    def _number_values(
        self, program: Program, entry: Entry, function: Function
    ) -> dict[Value, int]:
        """Return a value number for each value of an entry; equal numbers mean equal
        values.
        """
        found = {}
        block = function.entry_block
        for port, value in zip(entry.arguments, block.arguments, strict=True):
            key: Hashable = "input", entry.name, port.name
            if port.kind != "input":
                key = "parameter", self._number_array(program.parameters[port.name])
            found[value] = self._number(key)
        *ops, _ = block.operations
        for op in ops:
            facts = tuple((name, op.attributes[name]) for name in op.attributes)
            given = tuple(found[value] for value in op.operands)
            types = tuple(value.type for value in op.results)
            number = self._number((type(op), facts, given, types))
            for place, value in enumerate(op.results):
                found[value] = self._number((number, place))
        return found

    def _number(self, key: Hashable) -> int:
        """Return the number of a key, a new one if the key is new."""
        return self._numbers.setdefault(key, len(self._numbers))

    def _number_array(self, array: StoredArray) -> int:
        """Return the value number of a parameter's array."""
        rows = self._parameters.setdefault(likeness_key(array), [])
        for other, number in rows:
            if is_computed_alike(array, other):
                return number
        number = self._number(("array", sum(map(len, self._parameters.values()))))
        rows.append((array, number))
        return number


@dataclass
class _ResumableEntry:
    """An entry of a program that can be evaluated from cached values.

    Args:
        program: that it is of.
        entry: itself.
        function: of it.
        numbers: of its values.
    """

    program: Program
    entry: Entry
    function: Function
    numbers: Mapping[Value, int]

    @property
    def ops(self) -> Sequence[Operation]:
        """Ops of the entry without the terminator."""
        *ops, _ = self.function.entry_block.operations
        return ops

    @property
    def outputs(self) -> list[Value]:
        """The values that the entry returns as outputs, not as states."""
        *_, end = self.function.entry_block.operations
        pairs = zip(self.entry.results, end.operands, strict=True)
        return [value for port, value in pairs if port.kind == "output"]

    def evaluator(self, kept: Kept, wanted: Sequence[Value]) -> EvaluateCall:
        """Return a function that computes `wanted` for one calibration call.

        It is given the call's inputs and its index.

        Args:
            kept: arrays of known values, one for each call, by the value's number.
            wanted: the values to compute.
        """
        start = {x: name for x, name in self.numbers.items() if name in kept}
        ops, read = _needed(self.ops, start, wanted)
        start = {x: name for x, name in start.items() if x in read}
        types, _ = signature(self.function)
        arguments = self.function.entry_block.arguments
        ports = [*zip(self.entry.arguments, arguments, types, strict=True)]
        inputs = [value for port, value, _ in ports if port.kind == "input"]
        of_inputs = [kind for port, _, kind in ports if port.kind == "input"]
        fixed = {
            value: np.asarray(self.program.parameters[port.name])
            for port, value, _ in ports
            if port.kind != "input" and value in read
        }
        part = PreparedPart.of(self.program.module, ops, wanted)

        def evaluate(given: Sequence[Array], number: int) -> dict[Value, Array]:
            arrays = [np.asarray(x) for x in given]
            known = fixed | dict(zip(inputs, arrays, strict=True))
            known |= {value: kept[name][number] for value, name in start.items()}
            found = part.evaluate(known, bind_symbols(of_inputs, arrays))
            return dict(zip(wanted, found, strict=True))

        return evaluate

    # ---- what to keep

    def values_to_keep(self) -> list[Value]:
        """Return the values that are live before some product."""
        return [*dict.fromkeys(x for row in self._live() for x in row)]

    def fitting(self, found: Mapping[Value, Array], most: int) -> list[Value]:
        """Return live values to cache, thinned until their arrays in `found` take at
        most `most` bytes a call.
        """
        rows = self._live()
        while rows:
            values = [*dict.fromkeys(x for row in rows for x in row)]
            if sum(found[value].nbytes for value in values) <= most:
                return values
            rows = rows[1::2]
        return []

    def _live(self) -> list[list[Value]]:
        """Return, for each product, the input-dependent values that are live
        before it.
        """
        arguments = self.function.entry_block.arguments
        pairs = zip(self.entry.arguments, arguments, strict=True)
        inputs = {value for port, value in pairs if port.kind == "input"}
        of_inputs, last_read = dict[Value, int](), dict[Value, int]()
        for place, op in enumerate(ops := self.ops):
            for value in op.operands:
                last_read[value] = place
            if any(x in of_inputs or x in inputs for x in op.operands):
                of_inputs.update(dict.fromkeys(op.results, place))
        last_read.update(dict.fromkeys(self.outputs, len(ops)))
        return [
            [
                value
                for value, made in of_inputs.items()
                if made < place <= last_read.get(value, -1)
            ]
            for place, op in enumerate(ops)
            if isinstance(op, DotGeneral | ConvGeneral)
        ]


def _needed(
    ops: Sequence[Operation], known: Mapping[Value, object], wanted: Sequence[Value]
) -> tuple[list[Operation], set[Value]]:
    """Return the ops that compute wanted values from known ones, and the values they
    read.
    """
    read = {*wanted}
    found = []
    for op in reversed(ops):
        if any(value in read and value not in known for value in op.results):
            found.append(op)
            read.update(op.operands)
    return found[::-1], read
