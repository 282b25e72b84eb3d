"""Compares an entry with the reference evaluator block by block, where all is too much.

The entry is compiled once more, as one that also returns what goes from block to block.
Each block is evaluated on what that code gave for the blocks before, so that what
rounding does to it stays small, and what it gives is compared. One block of each kind
comes first, then one of each code that a kind has. Those that repeat them are compared,
too, as far as the work allows; of the others, the weights are (`repetitions`). What the
code of the build returns is compared with what that code does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from aotc import packager, reference
from aotc.artifacts.pack import scratch_folder
from aotc.backend import CompiledVariant, compile_units
from aotc.checks.blocks import OpBlock
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.compiled import Bundle
from aotc.checks.differences import compare, mixed_tolerance
from aotc.checks.judging import Rounding, Verdict, judge
from aotc.checks.late_passes import LOWERING, SECONDS, graph_passes, late_passes
from aotc.checks.process import CompiledProcess
from aotc.checks.repetitions import BlockCode, Lowered, StoredWeights, codes_of
from aotc.checks.report import BlockCount
from aotc.checks.rounding import Noise
from aotc.checks.samples import CallSequence
from aotc.checks.work import OverBudget, WorkBudget
from aotc.core import printing
from aotc.core.pytree import Structure
from aotc.dialects.functions.entries import Port, write_entry
from aotc.dialects.functions.functions import copy_module, functions_of
from aotc.dialects.graph import where_of
from aotc.dialects.types import Tensor
from aotc.mlir import Module, Value, func, ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.fold_parameters import FoldParameters, FoldWithOrigins
from aotc.programs.program import Program

_LEAF = Structure("leaf")


@dataclass
class BlockFindings:
    """The results of comparing an entry's blocks of ops with the reference evaluator.

    Args:
        count: how many were compared.
        verdicts: on what they give; the last ones are wrong if any is.
        wrong: in words, which block is; empty if none.
        misplaced: in words, which of its weights is stored wrong, if one is.
        where: the line where it ends.
        apart: how far what the code of the build returns is from what the code does
            that returns more; empty if they are equal, but for rounding.
    """

    count: BlockCount
    verdicts: list[Verdict] = field(default_factory=list)
    wrong: str = ""
    misplaced: str = ""
    where: str | None = None
    apart: str = ""


def check_blocks(
    checked: CheckedEntry,
    blocks: Sequence[OpBlock],
    calls: CallSequence,
    symbols: Sequence[int],
    code: tuple[CompiledVariant, packager.PackedWeights],
    shipped: Arrays,
    work: WorkBudget,
) -> BlockFindings:
    """Compare each block of an entry's ops with the reference, on the first of some
    calls.

    Args:
        checked: the entry.
        blocks: of the entry.
        calls: of which the first is made.
        symbols: the values of the entry's symbols, in parts.
        code: the variant that is checked, and the weights of its bundle.
        shipped: what the code of the build returns of the call.
        work: of the reference evaluator.

    Raises:
        CompileError: the entry that returns more does not compile, or dies.
        DidNotEnd: it takes too long.
    """
    body = functions_of(checked.graph)[checked.entry.name].entry_block
    *_, returned = body.operations
    between = {x: None for block in blocks for x in block.given}
    for value in returned.operands:
        between.pop(value, None)
    with _compiled_with_taps(checked, list(between), *code) as (
        tapped,
        process,
        lowered,
    ):
        found = next(tapped.compiled_results(calls, process))
    outputs = len(checked.entry.ports("output"))
    results = [*found[:outputs], *found[outputs + len(between) :]]
    values = dict(zip(between, found[outputs:], strict=False))
    by_name = dict(zip(checked.names, results, strict=True))
    ports = zip(checked.entry.results, returned.operands, strict=True)
    names = {value: port.name for port, value in ports if port.name in by_name}
    values |= {value: by_name[name] for value, name in names.items()}
    stored = {**checked.program.parameters, **calls.states}
    arguments = checked.arguments(calls.inputs[0], stored)
    values |= dict(zip(body.arguments, arguments, strict=True))
    arguments_of = dict(zip(body.arguments, checked.entry.arguments, strict=True))
    returned_values = [*returned.operands, *between]
    sources = checked.program.parameters
    codes = codes_of(blocks, arguments_of, lowered, returned_values, sources)
    variant, packed = code
    weights = StoredWeights(packed, variant.target.id, lowered)
    each = (checked.graph, symbols, values, names, work, blocks, codes, weights)
    findings = _EachBlock(*each).findings()
    allowed = mixed_tolerance(checked.program.mixed_precision)
    findings.apart = _distance_text(checked.names, shipped, results, allowed)
    return findings


@contextmanager
def _compiled_with_taps(
    checked: CheckedEntry,
    values: Sequence[Value],
    variant: CompiledVariant,
    packed: packager.PackedWeights,
) -> Iterator[tuple[CheckedEntry, CompiledProcess, Lowered]]:
    """Yield an entry compiled to return inner values too, its process, and its lowered
    IR.

    Its bundle reads the weights of the one that is checked: they are packed once. So
    other entries go through the passes, too, which pack weights for all that read them.
    """
    program = _program_with_taps(checked, values)
    unit = Unit(program).fork(variant.target)
    late = late_passes(variant, checked.entry)
    early = (
        FoldWithOrigins() if isinstance(each, FoldParameters) else each
        for each in graph_passes(variant)
    )
    run_passes(unit, (*early, LOWERING, *late), silently=True)
    for each in (program, unit.program):
        each.keep_entries([checked.entry.name])
    tapped = CheckedEntry(program, checked.graph, program.entry(checked.entry.name))
    arrays = unit.program.parameters
    unit.program.rename_parameters(packed.names_of(arrays, variant.target.id))
    with scratch_folder(packed.bundle.parent, ("blocks", "1.0.0")) as folder:
        (compiled,) = compile_units([unit])
        arrays = unit.program.parameters
        with packed.lent_to(program, compiled, arrays, folder) as bundle:
            code = Bundle(str(bundle), variant.target.id)
            with CompiledProcess(code, SECONDS) as process:
                yield tapped, process, Lowered(unit, checked.entry.name)


def _program_with_taps(checked: CheckedEntry, values: Sequence[Value]) -> Program:
    """Return a copy of the program whose entry returns some inner values as well."""
    name = checked.entry.name
    ops = list(functions_of(checked.graph)[name].entry_block.operations)
    numbers = {
        value: (at, i)
        for at, op in enumerate(ops)
        for i, value in enumerate(op.results)
    }
    program = Program(copy_module(checked.graph), checked.program.parameters)
    function = functions_of(program.module)[name]
    copies = list(function.entry_block.operations)
    more = [copies[at].results[i] for at, i in map(numbers.__getitem__, values)]
    returned = [*copies[-1].operands, *more]
    copies[-1].operation.erase()
    with ir.InsertionPoint(function.entry_block):
        func.ReturnOp(returned)
    kinds = [value.type for value in function.entry_block.arguments]
    whole = ir.FunctionType.get(kinds, [value.type for value in returned])
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    entry = checked.entry
    ports = [Port(f"between.{i}", Tensor.of(x), "output") for i, x in enumerate(more)]
    tree = Structure("tuple", children=(_LEAF,) * len(more))
    write_entry(
        program.module,
        replace(
            entry,
            results=(*entry.results, *ports),
            output_tree=Structure("tuple", children=(entry.output_tree, tree)),
            specializations=(),
        ),
    )
    return program


@dataclass
class _EachBlock:
    """Compares an entry's blocks with the reference evaluator, one after the other.

    Args:
        graph: with their ops.
        symbols: of the entry, in parts.
        values: the arguments of the call, and what compiled code gave between blocks.
        names: of the results of the entry.
        work: of the reference evaluator.
        blocks: of the entry.
        codes: of the blocks.
        weights: of the bundle.
        right: kinds and codes of which a block was right.
        cost: the work that comparing a block took, by its kind.
        rest: what of the work is for comparing weights.
    """

    graph: Module
    symbols: Sequence[int]
    values: Mapping[Any, Any]
    names: Mapping[Any, str]
    work: WorkBudget
    blocks: Sequence[OpBlock]
    codes: Sequence[BlockCode | None]
    weights: StoredWeights
    right: set[Any] = field(default_factory=set)
    cost: dict[Any, float] = field(default_factory=dict)
    rest: WorkBudget = field(default_factory=lambda: WorkBudget(0.0, inf))

    def findings(self) -> BlockFindings:
        """Compare one block of each kind and code, then the others or only their
        weights.
        """
        kinds, codes = dict[Any, int](), dict[Any, int]()
        for number, block in enumerate(self.blocks):
            kinds.setdefault(block.kind, number)
            codes.setdefault(self._kind_and_code(number), number)
        firsts = dict.fromkeys((*kinds.values(), *codes.values()))
        others = [n for n in range(len(self.blocks)) if n not in firsts]
        found = BlockFindings(BlockCount(len(self.blocks), len(kinds)))
        # set aside, for what rounding does to blocks is measured whatever it takes
        needed = self.weights.elements_to_read(self._weights_of(others))
        self.rest = WorkBudget(min(needed, self.work.left / 2), inf)
        self.work.count(self.rest.left)
        for number in (*firsts, *others):
            is_costly = self.cost.get(self.blocks[number].kind, 0.0) > self.work.left
            if number not in firsts and is_costly and self._is_repeated(number):
                self._compare_weights(number, found)
            else:
                self._compare(number, found, is_new=number in kinds.values())
            if found.wrong:
                break
        self.work.count(-self.rest.left)
        return found

    def _kind_and_code(self, number: int) -> object:
        """Return a key of a block: its `kind`, and the form of its compiled code."""
        code = self.codes[number]
        return self.blocks[number].kind, code and code.form

    def _weights_of(self, numbers: Iterable[int]) -> list[str]:
        """Return the names of the stored weights that these blocks' code reads."""
        codes = (self.codes[number] for number in numbers)
        return [name for code in codes if code is not None for name in code.weights]

    def _is_repeated(self, number: int) -> bool:
        """Return whether a block differs from a right one only in the bundle's stored
        weights.
        """
        is_known = self._kind_and_code(number) in self.right
        return is_known and self.weights.are_stored(self._weights_of([number]))

    def _share(self, number: int) -> float:
        """Return a block's fraction of the operations of all blocks."""
        whole = sum(block.operations for block in self.blocks)
        return self.blocks[number].operations / whole

    def _compare(self, number: int, findings: BlockFindings, *, is_new: bool) -> None:
        """Compare a block's results with the reference and record the verdicts in
        `findings`.
        """
        block, before = self.blocks[number], self.work.left
        try:
            verdicts = self._verdicts(block)
        except OverBudget:
            return
        self.cost[block.kind] = before - self.work.left
        findings.verdicts += verdicts
        findings.count = findings.count.plus(is_new, self._share(number))
        if not all(each.passed for each in verdicts):
            self._record_wrong(number, findings)
        elif self.codes[number] is not None:
            self.right.add(self._kind_and_code(number))

    def _compare_weights(self, number: int, findings: BlockFindings) -> None:
        """Compare the stored weights that a block's code reads with their sources;
        record it in `findings`.
        """
        try:
            wrong = self.weights.first_wrong(self._weights_of([number]), self.rest)
        except OverBudget:
            return
        findings.count = findings.count.plus_repeated(self._share(number))
        if wrong is not None:
            findings.misplaced = (
                f"weight '{wrong}' of the bundle is not that of the source"
            )
            self._record_wrong(number, findings)

    def _record_wrong(self, number: int, findings: BlockFindings) -> None:
        """Record in `findings` that a block is wrong, and the source line of its last
        op.
        """
        findings.wrong = f"block {number + 1} of {len(self.blocks)}"
        findings.where = where_of(self.blocks[number].ops[-1])

    def _verdicts(self, block: OpBlock) -> list[Verdict]:
        """Evaluate a block by the reference evaluator; judge the compiled results
        beside it.
        """
        given = [value for value in block.given if value in self.values]
        evaluate = partial(self._evaluate, block, given)
        before = self.work.left
        expected = evaluate(self.work)
        spent = before - self.work.left

        def with_noise(noise: Noise) -> Arrays:
            self.work.count(spent)
            return evaluate(noise)

        names = [self.names.get(value, "between blocks") for value in given]
        found = [self.values[value] for value in given]
        return judge(names, found, expected, Rounding(expected, with_noise))

    def _evaluate(
        self, block: OpBlock, wanted: Sequence[Value], with_op: reference.EvaluateOp
    ) -> Arrays:
        """Evaluate a block by the reference on its compiled inputs; return the values
        in `wanted`.
        """
        ops = (*block.stored, *block.ops)
        inputs = {x for op in ops for x in op.operands}
        known = {value: x for value, x in self.values.items() if value in inputs}
        made = {x for op in ops for x in op.results}
        known = {x: np.asarray(a) for x, a in known.items() if x not in made}
        with printing.silence():
            return reference.evaluate_part(
                self.graph, ops, known, self.symbols, wanted, with_op=with_op
            )


def _distance_text(
    names: Sequence[str],
    found: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float | None,
) -> str:
    """Describe the difference between two results; empty if rounding may explain it."""
    each = zip(names, found, expected, strict=True)
    rows = [compare(*three, tolerance) for three in each]
    return "; ".join(str(row).strip() for row in rows if not row.passed)
