"""Programs that `aotc.jit` traced, compiled many at once and called as it did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from aotc.backend import compile_targets
from aotc.dialects.functions.functions import copy_module
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.pipeline import lower
from aotc.programs.program import Program

from .evaluated import Evaluated
from .failures import Failure, failure_of
from .judging import judge
from .running import Runner

PARTS = 4  # of programs that do not compile together


# what tells graphs apart that compute the same: names, lines, trees of arguments
_NAMES = re.compile(
    r'@\w+|\bname = "[^"]*"|graph\.(name|where) = "[^"]*"|graph\.(source|title) = {.*?}'
    r"|graph\.entry = .*?(?=, graph\.symbols)"
)


def distinct(evaluated: Sequence[Evaluated]) -> list[Evaluated]:
    """Merge programs of equal graphs; return one of each with all their calls."""
    found: dict[str, Evaluated] = {}
    for each in evaluated:
        with each.program.module.context:
            text = _NAMES.sub("", each.program.module.operation.get_asm())
        found.setdefault(text, Evaluated(each.program)).calls.extend(each.calls)
    return list(found.values())


def failures(
    evaluated: Sequence[Evaluated], runner: Runner, target: Target
) -> Iterator[tuple[Evaluated, Failure]]:
    """Compile programs together and yield those that fail or differ from the
    evaluator.
    """
    joined = _joined(evaluated)
    entries = joined.entries
    stage = "passes"
    try:
        lower(joined, target)
        stage = "compiles"
        (compiled,) = compile_targets(joined, [target])
    except Exception as error:
        if len(evaluated) == 1:
            yield evaluated[0], failure_of(stage, error)
            return
        size = -(-len(evaluated) // PARTS)
        for start in range(0, len(evaluated), size):
            yield from failures(evaluated[start : start + size], runner, target)
        return
    for each, entry in zip(evaluated, entries, strict=True):
        for leaves, wanted in each.calls:
            found = runner.call(compiled.vmfb, entry, leaves)
            wrong = found if isinstance(found, Failure) else _difference(found, wanted)
            if wrong is not None:
                yield each, wrong
                break


def _difference(found: Sequence[Any], wanted: Sequence[Any]) -> Failure | None:
    """Return a failure if results differ from the expected ones; else None."""
    judgement = judge(found, wanted)
    return Failure("differs", judgement.wrong) if judgement.wrong else None


def _joined(evaluated: Sequence[Evaluated]) -> Program:
    """Merge the functions of all programs into one program, with numbered names."""
    module: Any = None
    parameters: dict[str, Any] = {}
    for number, each in enumerate(evaluated):
        assert not each.program.parameters, "programs on sizes have no weights"
        own = copy_module(each.program.module)
        with own.context:
            for op in list(own.body.operations):
                old = ir.StringAttr(op.attributes["sym_name"]).value
                new = f"p{number}_{old}"
                ir.SymbolTable.replace_all_symbol_uses(old, new, own.operation)
                ir.SymbolTable.set_symbol_name(op, new)
            if module is None:
                module = own
                continue
            end = ir.InsertionPoint(module.body)
            for op in own.body.operations:
                op.operation.clone(end)
    return Program(module, parameters)
