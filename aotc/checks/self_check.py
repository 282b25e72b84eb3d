"""The self-check of a build: does the compiled code compute what the graph says?

IREE has compiled wrong results without a word. So before a bundle is signed, each entry
is called as compiled, for every target that runs on this machine, and what it returns
and what it leaves in its states is compared with the reference evaluator's. Results
that are further apart than their dtype allows must be explained by rounding
(`rounding`), or the build fails and says where the difference begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from aotc.checks.bisect import located
from aotc.checks.compiled import Bundle
from aotc.checks.judging import Rounding, RoundingRule, Verdict, judge
from aotc.checks.process import DIED, CompiledProcess, DidNotEnd
from aotc.checks.report import SelfCheck, sizes_text
from aotc.checks.rounding import Noise, is_float
from aotc.checks.samples import Calls, calls_of, input_elements, sizes_of
from aotc.checks.subject import Arrays, Subject
from aotc.checks.work import NothingToCompare, Work
from aotc.dialects import context
from aotc.errors import AotcError, CompileError, InputError, SetupError
from aotc.frontends.program import Program
from aotc.mlir import ir
from aotc.target import Target

__all__ = ["MODES", "SelfCheck", "check_entries"]

MODES = ("auto", "full", "off")

_SEED = 20
_SECONDS = 300  # for one compiled call
_WORK = 2e10  # of the reference in a whole build: some 20 s
_ELEMENTS = 2**28  # of the largest array: 2 GiB, drawn in f64
# Errors of loading that say what the machine lacks; others are faults of the code.
_NOT_HERE = {
    "incompatible": "this machine does not run it",
    "no-driver": "this machine does not run it",
    "out-of-memory": "this machine has not the memory to load it",
}


def check_entries(
    program: Program,
    graph: Any,
    bundle: Path,
    targets: Sequence[Target],
    passes: Sequence[str],
    *,
    full: bool = False,
) -> list[SelfCheck]:
    """Compare every entry with the reference evaluator.

    Args:
        program: what was compiled.
        graph: a copy of its module in which all derivatives are written.
        bundle: with the compiled code; it may be unsigned.
        targets: those that it has variants for.
        passes: that compiled it, in order.
        full: compare at all sizes, however long the reference evaluator takes.

    Raises:
        CompileError: `self-check`: an entry computes something else.
            `compiled-code-died`: it ends the process that it runs in.
            `not-loadable`: a target runs here, and its code cannot be loaded.
    """
    with context(), ir.Location.unknown(), ExitStack() as stack:
        running, found = _start(stack, bundle, targets, full)
        rows = [
            SelfCheck(entry.name, target, (), (({}, why),))
            for target, why in found.items()
            for entry in program.entries
        ]
        share = Work(_WORK / len(program.entries), _ELEMENTS)
        if full:
            share = Work(float("inf"), float("inf"))
        for entry in program.entries if running else ():
            subject = Subject(program, graph, entry, passes)
            rows += _of_entry(subject, running, share)
        return rows


def _start(
    stack: ExitStack, bundle: Path, targets: Sequence[Target], full: bool
) -> tuple[dict[Target, CompiledProcess], dict[str, str]]:
    """The targets that run here, and why others do not."""
    running: dict[Target, CompiledProcess] = {}
    refused: dict[str, str] = {}
    for target in targets:
        try:
            code = Bundle(str(bundle), target.id)
            process = CompiledProcess(code, None if full else _SECONDS)
        except AotcError as error:
            if error.code not in _NOT_HERE:
                raise _not_loaded(target, error) from error
            refused[str(target)] = _NOT_HERE[error.code]
        else:
            running[target] = stack.enter_context(process)
    return running, refused


def _not_loaded(target: Target, error: AotcError) -> AotcError:
    """What the build fails with, because its code cannot be loaded."""
    if isinstance(error, CompileError):
        return error
    return CompileError(
        "not-loadable",
        f"the code that was compiled for '{target}' cannot be loaded: {error.message}",
        where=error.where,
        hint=_HINT,
    )


# ---- an entry -----------------------------------------------------------------------


def _of_entry(
    subject: Subject, running: Mapping[Target, CompiledProcess], work: Work
) -> Iterator[SelfCheck]:
    entry = subject.entry
    rows = {target: SelfCheck(entry.name, str(target)) for target in running}
    left = replace(work)
    for number, sizes in enumerate(sizes_of(entry)):
        try:
            item = _item(subject, number, sizes, left)
        except NothingToCompare as reason:
            rows = {t: row.skip(sizes, str(reason)) for t, row in rows.items()}
            continue
        for target, process in running.items():
            rows[target] = _extend(rows[target], subject, item, target, process)
    yield from rows.values()


@dataclass
class _Item:
    """Calls of an entry, with the arguments and results of each by the reference."""

    calls: Calls
    expected: list[tuple[Arrays, Arrays]]
    rounding: Rounding


def _extend(
    row: SelfCheck,
    subject: Subject,
    item: _Item,
    target: Target,
    process: CompiledProcess,
) -> SelfCheck:
    """What was found of an entry, with one more item."""
    sizes = item.calls.sizes
    try:
        results = _verdicts(subject, item, target, process)
    except DidNotEnd as error:
        return row.skip(sizes, str(error))
    except SetupError:  # `_guard` lets no other through
        return row.skip(sizes, "this machine has not the memory for a call")
    except NothingToCompare as reason:
        return row.skip(sizes, str(reason))
    if row.results:
        pairs = zip(row.results, results, strict=True)
        results = [one.worse_of(other) for one, other in pairs]
    return replace(row, checked=(*row.checked, sizes), results=tuple(results))


def _item(subject: Subject, number: int, sizes: Mapping[str, int], work: Work) -> _Item:
    """The calls of an item, with what the reference evaluator makes of them.

    Raises:
        NothingToCompare: with the reason.
    """
    try:
        work.hold(input_elements(subject.entry, sizes))
        calls = calls_of(subject.program, subject.graph, subject.entry, number, _SEED)
        found = list(subject.reference_results(calls, work))
    except MemoryError:
        raise NothingToCompare("the reference evaluator ran out of memory") from None
    except InputError as error:
        raise NothingToCompare(
            f"the model refuses the random inputs: {error.message}"
        ) from None
    results = _all_results(found)
    if _says_nothing(results):
        raise NothingToCompare("no result is finite on the random inputs")

    def with_noise(noise: Noise) -> Arrays:
        return _all_results(subject.reference_results(calls, noise))

    return _Item(calls, found, Rounding(results, with_noise))


def _all_results(calls: Iterable[tuple[Arrays, Arrays]]) -> Arrays:
    """The results of one call after those of another."""
    return [array for _, results in calls for array in results]


def _says_nothing(results: Sequence[Any]) -> bool:
    """Whether there are floats among the results, and none of them is finite."""
    floats = [x.astype(np.float64) for x in results if x.size and is_float(x)]
    return bool(floats) and not any(np.isfinite(x).any() for x in floats)


def _verdicts(
    subject: Subject, item: _Item, target: Target, process: CompiledProcess
) -> list[Verdict]:
    """The verdict on each result over the calls.

    Raises:
        CompileError: one is wrong.
        NothingToCompare: rounding decides everything, or a check of the model.
    """
    names = subject.names
    results = subject.compiled_results(item.calls, process)
    found = list(_guard(subject, item, target, results))
    try:
        verdicts = judge(
            names * len(found),
            [array for call in found for array in call],
            _all_results(item.expected),
            item.rounding,
        )
    except InputError as error:
        raise NothingToCompare(
            f"rounding decides a check of the model: {error.message}"
        ) from None
    except MemoryError:
        raise NothingToCompare("the reference evaluator ran out of memory") from None
    if item.rounding.is_all:
        raise NothingToCompare("rounding alone decides what is finite")
    rows = [
        verdicts[call * len(names) : (call + 1) * len(names)]
        for call in range(len(found))
    ]
    for row, (arguments, expected) in zip(rows, item.expected, strict=True):
        if any(not each.passed for each in row):
            raise _failure(subject, item, target, row, arguments, expected)
    return [reduce(Verdict.worse_of, column) for column in zip(*rows, strict=True)]


def _guard(
    subject: Subject, item: _Item, target: Target, results: Iterator[Arrays]
) -> Iterator[Arrays]:
    """Pass results on; errors of the compiled entry are those of the build.

    Raises:
        SetupError: `out-of-memory`, for which the compiled code is not to blame.
        CompileError: any other.
    """
    done = 0
    try:
        for result in results:
            yield result
            done += 1
    except AotcError as error:
        if error.code == "out-of-memory":
            raise
        where, begins = error.where, ""
        if error.code == DIED:
            where, text = _place(subject, target, *item.expected[done])
            begins = f"\n  {text}"
        raise CompileError(
            error.code if isinstance(error, CompileError) else "self-check",
            f"entry '{subject.entry.name}', compiled for '{target}', fails"
            f"{sizes_text([item.calls.sizes])} where the reference evaluator does "
            f"not: {error.message}{begins}",
            where=where,
            hint=_HINT,
        ) from error


# ---- a failure ----------------------------------------------------------------------

_HINT = (
    "the compiler is at fault, not the model: please report it; --self-check=off "
    "builds all the same"
)


def _failure(
    subject: Subject,
    item: _Item,
    target: Target,
    row: Sequence[Verdict],
    arguments: Arrays,
    results: Arrays,
) -> CompileError:
    """What differs, and where it begins."""
    where, begins = _place(subject, target, arguments, results)
    wrong = "\n".join(f"  FAIL {each}" for each in row if not each.passed)
    return CompileError(
        "self-check",
        f"entry '{subject.entry.name}', compiled for '{target}', does not compute what "
        f"its graph says{sizes_text([item.calls.sizes])}:\n{wrong}\n  {begins}",
        where=where,
        hint=_HINT,
    )


def _place(
    subject: Subject, target: Target, arguments: Arrays, results: Arrays
) -> tuple[str | None, str]:
    """The line where a call begins to differ, and a sentence on it."""
    outputs = results[: len(subject.entry.ports("output"))]
    return located(
        subject.program,
        subject.graph,
        subject.entry,
        target,
        arguments,
        outputs,
        RoundingRule(),
        subject.passes,
    )
