"""Compares an entry with the reference evaluator block by block, where all is too much.

The entry is compiled once more, as one that also returns what goes from block to block.
Each block is evaluated on what that code gave for the blocks before, so that what
rounding does to it stays small, and what it gives is compared. One block of each kind
comes first, then those that repeat them, as far as the work allows. What the code of
the build returns is compared with what that code does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from aotc import packager, printing, reference
from aotc.artifacts.pack import scratch_folder
from aotc.backend import Compiled, compile_units
from aotc.checks.blocks import Block
from aotc.checks.compiled import Bundle
from aotc.checks.differences import compare
from aotc.checks.judging import Rounding, Verdict, judge
from aotc.checks.late_passes import LOWERING, SECONDS, graph_passes, late_passes
from aotc.checks.process import CompiledProcess
from aotc.checks.report import BlockCount
from aotc.checks.rounding import Noise
from aotc.checks.samples import Calls
from aotc.checks.subject import Arrays, Subject
from aotc.checks.work import OverBudget, Work
from aotc.dialects.entries import Port, write_entry
from aotc.dialects.functions import copy_module, functions_of
from aotc.dialects.graph import where_of
from aotc.dialects.types import Tensor
from aotc.mlir import func, ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.program import Program
from aotc.pytree import Structure

_LEAF = Structure("leaf")


@dataclass
class BlockFindings:
    """What comparing the blocks of an entry has found.

    Args:
        count: how many were compared.
        verdicts: on what they give; the last ones are wrong if any is.
        wrong: in words, which block is; empty if none.
        where: the line where it ends.
        apart: how far what the code of the build returns is from what the code does
            that returns more; empty if they are equal, but for rounding.
    """

    count: BlockCount
    verdicts: list[Verdict] = field(default_factory=list)
    wrong: str = ""
    where: str | None = None
    apart: str = ""


def check_blocks(
    subject: Subject,
    blocks: Sequence[Block],
    calls: Calls,
    symbols: Sequence[int],
    code: tuple[Compiled, packager.PackedWeights],
    shipped: Arrays,
    work: Work,
) -> BlockFindings:
    """Compare the blocks of an entry in the first of some calls.

    Args:
        subject: the entry.
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
    body = functions_of(subject.graph)[subject.entry.name].entry_block
    *_, returned = body.operations
    between = {x: None for block in blocks for x in block.given}
    for value in returned.operands:
        between.pop(value, None)
    with _compiled(subject, list(between), *code) as (tapped, process):
        found = next(tapped.compiled_results(calls, process))
    outputs = len(subject.entry.ports("output"))
    results = [*found[:outputs], *found[outputs + len(between) :]]
    values = dict(zip(between, found[outputs:], strict=False))
    by_name = dict(zip(subject.names, results, strict=True))
    ports = zip(subject.entry.results, returned.operands, strict=True)
    names = {value: port.name for port, value in ports if port.name in by_name}
    values |= {value: by_name[name] for value, name in names.items()}
    stored = {**subject.program.parameters, **calls.states}
    arguments = subject.arguments(calls.inputs[0], stored)
    values |= dict(zip(body.arguments, arguments, strict=True))
    each = _EachBlock(subject.graph, symbols, values, names, work)
    findings = each.compare(blocks)
    findings.apart = _distance_text(subject.names, shipped, results)
    return findings


@contextmanager
def _compiled(
    subject: Subject,
    values: Sequence[Any],
    variant: Compiled,
    packed: packager.PackedWeights,
) -> Iterator[tuple[Subject, CompiledProcess]]:
    """Compile an entry that also returns some of its values, by the same passes.

    Its bundle reads the weights of the one that is checked: they are packed once.
    """
    program = _returning_more(subject, values)
    tapped = Subject(program, subject.graph, program.entry(subject.entry.name))
    unit = Unit(program).fork(variant.target)
    late = late_passes(variant, subject.entry)
    run_passes(unit, (*graph_passes(variant), LOWERING, *late), silently=True)
    with scratch_folder(packed.bundle.parent, ("blocks", "1.0.0")) as folder:
        (compiled,) = compile_units([unit])
        arrays = unit.program.parameters
        with packed.lent_to(program, compiled, arrays, folder) as bundle:
            code = Bundle(str(bundle), variant.target.id)
            with CompiledProcess(code, SECONDS) as process:
                yield tapped, process


def _returning_more(subject: Subject, values: Sequence[Any]) -> Program:
    """The entry as a program of its own that returns some values besides."""
    name = subject.entry.name
    ops = list(functions_of(subject.graph)[name].entry_block.operations)
    numbers = {
        value: (at, i)
        for at, op in enumerate(ops)
        for i, value in enumerate(op.results)
    }
    program = Program(copy_module(subject.graph), subject.program.parameters)
    program.keep_entries([name])
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
    entry = subject.entry
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
    """Compares blocks, one after the other.

    Args:
        graph: with their ops.
        symbols: of the entry, in parts.
        values: the arguments of the call, and what compiled code gave between blocks.
        names: of the results of the entry.
        work: of the reference evaluator.
    """

    graph: Any
    symbols: Sequence[int]
    values: Mapping[Any, Any]
    names: Mapping[Any, str]
    work: Work

    def compare(self, blocks: Sequence[Block]) -> BlockFindings:
        """Compare one block of each kind, and then the others."""
        firsts: dict[Any, int] = {}
        for number, block in enumerate(blocks):
            firsts.setdefault(block.kind, number)
        others = [
            number for number in range(len(blocks)) if number not in firsts.values()
        ]
        whole = sum(block.operations for block in blocks)
        found = BlockFindings(BlockCount(len(blocks), len(firsts)))
        for number in [*firsts.values(), *others]:
            block = blocks[number]
            try:
                verdicts = self._verdicts(block)
            except OverBudget:
                break
            is_new = firsts[block.kind] == number
            found.verdicts += verdicts
            found.count = found.count.plus(is_new, block.operations / whole)
            if not all(each.passed for each in verdicts):
                found.wrong = f"block {number + 1} of {len(blocks)}"
                found.where = where_of(block.ops[-1])
                return found
        return found

    def _verdicts(self, block: Block) -> list[Verdict]:
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

    def _evaluate(self, block: Block, given: Sequence[Any], with_op: Any) -> Arrays:
        ops = (*block.stored, *block.ops)
        inputs = {x for op in ops for x in op.operands}
        known = {value: x for value, x in self.values.items() if value in inputs}
        made = {x for op in ops for x in op.results}
        known = {value: x for value, x in known.items() if value not in made}
        with printing.silence():
            return reference.evaluate_part(
                self.graph, ops, known, self.symbols, given, with_op=with_op
            )


def _distance_text(
    names: Sequence[str], found: Sequence[Any], expected: Sequence[Any]
) -> str:
    """Say how far results are apart; empty where no more than rounding may explain."""
    rows = [compare(*each) for each in zip(names, found, expected, strict=True)]
    return "; ".join(str(row).strip() for row in rows if not row.passed)
