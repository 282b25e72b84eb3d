"""The self-check of a build: does the compiled code compute what the graph says?

IREE has compiled wrong results without a word. So before a bundle is signed, each entry
is called as compiled, for every target that runs on this machine, and what it returns
and what it leaves in its states is compared with the reference evaluator's. Results
that are further apart than their dtype allows must be explained by rounding
(`rounding`), or the build fails and says where the difference begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from aotc import dtypes, reference
from aotc.checks.process import CompiledProcess, DidNotEnd
from aotc.checks.rounding import Noise, spreads
from aotc.checks.samples import Calls, calls_of, input_elements, sizes_of
from aotc.checks.work import NothingToCompare, Work
from aotc.dialects import context
from aotc.errors import AotcError, CompileError, InputError, SetupError
from aotc.frontends.program import Entry, Program
from aotc.mlir import ir
from aotc.checks.bisect import diverging
from aotc.checks.differences import Difference, compare, worst_of
from aotc.target import Target

MODES = ("auto", "full", "off")

_SEED = 20
_SECONDS = 300  # for one compiled call
_WORK = 2e10  # of the reference in a whole build: some 20 s
_ELEMENTS = 2**28  # of the largest array: 2 GiB, drawn in f64
_NOISE_RUNS = 3
_NOISE_FACTOR = 16.0
# Errors of loading that say what the machine lacks; others are faults of the code.
_NOT_HERE = {
    "incompatible": "this machine does not run it",
    "no-driver": "this machine does not run it",
    "out-of-memory": "this machine has not the memory to load it",
}

Arrays = list[Any]


@dataclass(frozen=True)
class SelfCheck:
    """What was found of an entry on a target.

    Args:
        entry: its name.
        target: what was run.
        checked: the sizes of the symbols in the calls that were compared.
        unchecked: what was not compared: sizes, or nothing for all, and why.
        results: the largest difference of each output and updated state.
    """

    entry: str
    target: str
    checked: tuple[Mapping[str, int], ...] = ()
    unchecked: tuple[tuple[Mapping[str, int], str], ...] = ()
    results: tuple[Difference, ...] = ()

    @property
    def error(self) -> float:
        """The largest error of any result, relative to its largest value."""
        return max((each.error for each in self.results), default=0.0)

    def skip(self, sizes: Mapping[str, int], why: str) -> SelfCheck:
        """The same with sizes that were not compared."""
        return replace(self, unchecked=(*self.unchecked, (sizes, why)))

    def to_json(self) -> dict[str, Any]:
        """As the report holds it, with all figures."""
        return {
            **self.to_manifest(),
            "results": [each.to_json() for each in self.results],
        }

    def to_manifest(self) -> dict[str, Any]:
        """As the manifest holds it.

        The error is the next power of ten: its digits depend on the machine, and the
        same source is to give the same bytes.
        """
        error = self.error
        return {
            "entry": self.entry,
            "target": self.target,
            "checked": [dict(sizes) for sizes in self.checked],
            "unchecked": [
                {"sizes": dict(sizes), "why": why} for sizes, why in self.unchecked
            ],
            "error_below": float(10.0 ** np.ceil(np.log10(error))) if error else 0.0,
        }

    def __str__(self) -> str:
        title = f"{self.entry} on {self.target}"
        rows = []
        if self.checked:
            rows.append(
                f"{title} checked{_at(self.checked)}: error at most {self.error:.1e}"
            )
        reasons: dict[str, list[Mapping[str, int]]] = {}
        for sizes, why in self.unchecked:
            reasons.setdefault(why, []).append(sizes)
        rows += [
            f"{title} NOT CHECKED{_at(sizes)}: {why}" for why, sizes in reasons.items()
        ]
        return "\n".join(rows)


def _at(choices: Sequence[Mapping[str, int]]) -> str:
    said = [", ".join(f"{k}={v}" for k, v in sizes.items()) for sizes in choices]
    said = [text for text in said if text]
    return f" at {'; '.join(said)}" if said else ""


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
            subject = _Subject(program, graph, entry, passes)
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
            process = CompiledProcess(bundle, target.id, None if full else _SECONDS)
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


@dataclass
class _Subject:
    """An entry that is checked."""

    program: Program
    graph: Any
    entry: Entry
    passes: Sequence[str]

    @property
    def names(self) -> list[str]:
        """Of all results: the outputs, then the leaves of the states it updates."""
        outputs = [port.name for port in self.entry.ports("output")]
        return [*outputs, *self._updated_leaves]

    @property
    def _updated_leaves(self) -> list[str]:
        """The leaves of the states that the entry updates."""
        return [
            leaf
            for state in self.program.states
            if state.name in self.entry.updates
            for leaf in state.leaves
        ]

    def arguments(self, inputs: Sequence[Any], stored: Mapping[str, Any]) -> Arrays:
        """All arguments of a call."""
        rest = iter(inputs)
        return [
            next(rest) if port.kind == "input" else stored[port.name]
            for port in self.entry.arguments
        ]

    def reference_results(
        self, calls: Calls, with_op: Any
    ) -> Iterator[tuple[Arrays, Arrays]]:
        """The arguments and the results of each call in turn, by the reference."""
        stored = {**self.program.parameters, **calls.states}
        for inputs in calls.inputs:
            arguments = self.arguments(inputs, stored)
            with redirect_stderr(StringIO()):  # what the model prints of random numbers
                found = reference.evaluate(
                    self.graph, self.entry.name, arguments, with_op=with_op
                )
            ports = list(zip(self.entry.results, found, strict=True))
            stored |= {port.name: x for port, x in ports if port.kind == "state"}
            outputs = [x for port, x in ports if port.kind == "output"]
            yield (
                arguments,
                [*outputs, *(stored[name] for name in self._updated_leaves)],
            )

    def compiled_results(
        self, calls: Calls, process: CompiledProcess
    ) -> Iterator[Arrays]:
        """The results of each call in turn, compiled."""
        states = self.program.states
        before = {s.name: [calls.states[n] for n in s.leaves] for s in states}
        updated = [s.name for s in states if s.name in self.entry.updates]
        for inputs in calls.inputs:
            outputs, after = process.call(self.entry.name, inputs, before, updated)
            before = {}
            yield [*outputs, *after]


def _of_entry(
    subject: _Subject, running: Mapping[Target, CompiledProcess], work: Work
) -> Iterator[SelfCheck]:
    entry = subject.entry
    rows = {target: SelfCheck(entry.name, str(target)) for target in running}
    left = replace(work)
    for number, sizes in enumerate(sizes_of(entry)):
        try:
            calls, expected = _calls_with_results(subject, number, sizes, left)
        except NothingToCompare as reason:
            rows = {t: row.skip(sizes, str(reason)) for t, row in rows.items()}
            continue
        for target, process in running.items():
            rows[target] = _extend(
                rows[target], subject, calls, target, process, expected
            )
    yield from rows.values()


def _extend(
    row: SelfCheck,
    subject: _Subject,
    calls: Calls,
    target: Target,
    process: CompiledProcess,
    expected: Sequence[tuple[Arrays, Arrays]],
) -> SelfCheck:
    """What was found of an entry, with one more item."""
    try:
        results = _differences(subject, calls, target, process, expected)
    except DidNotEnd as error:
        return row.skip(calls.sizes, str(error))
    except SetupError:  # `_guard` lets no other through
        return row.skip(calls.sizes, "this machine has not the memory for a call")
    except NothingToCompare as reason:
        return row.skip(calls.sizes, str(reason))
    if row.results:
        results = [worst_of(p) for p in zip(row.results, results, strict=True)]
    checked = (*row.checked, calls.sizes)
    return replace(row, checked=checked, results=tuple(results))


def _calls_with_results(
    subject: _Subject, number: int, sizes: Mapping[str, int], work: Work
) -> tuple[Calls, list[tuple[Arrays, Arrays]]]:
    """The calls of an item, with the arguments and the results of each.

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
    if _says_nothing([x for _, results in found for x in results]):
        raise NothingToCompare("no result is finite on the random inputs")
    return calls, found


def _says_nothing(results: Sequence[Any]) -> bool:
    """Whether there are floats among the results, and none of them is finite."""
    floats = [
        x.astype(np.float64)
        for x in results
        if x.size and dtypes.is_float(dtypes.canonical(x.dtype))
    ]
    return bool(floats) and not any(np.isfinite(x).any() for x in floats)


def _differences(
    subject: _Subject,
    calls: Calls,
    target: Target,
    process: CompiledProcess,
    expected: Sequence[tuple[Arrays, Arrays]],
) -> list[Difference]:
    """The largest difference of each result over the calls.

    Raises:
        CompileError: one is wrong.
    """
    names = subject.names
    found = list(
        _guard(subject, calls, target, subject.compiled_results(calls, process))
    )
    rows = [
        [compare(*each) for each in zip(names, got, want, strict=True)]
        for got, (_, want) in zip(found, expected, strict=True)
    ]
    if any(not each.passed for row in rows for each in row):
        noise = _rounding(subject, calls, [want for _, want in expected])
        rows = [
            [
                _compare_within(*each)
                for each in zip(names, got, want, moved, strict=True)
            ]
            for got, (_, want), moved in zip(found, expected, noise, strict=True)
        ]
    for row, (arguments, results) in zip(rows, expected, strict=True):
        if any(not each.passed for each in row):
            raise _failure(subject, calls, target, row, arguments, results)
    return [worst_of(column) for column in zip(*rows, strict=True)]


def _guard(
    subject: _Subject, calls: Calls, target: Target, results: Iterator[Arrays]
) -> Iterator[Arrays]:
    """Pass results on; errors of the compiled entry are those of the build.

    Raises:
        SetupError: `out-of-memory`, for which the compiled code is not to blame.
        CompileError: any other.
    """
    try:
        yield from results
    except AotcError as error:
        if error.code == "out-of-memory":
            raise
        sizes = _at([calls.sizes])
        raise CompileError(
            error.code if isinstance(error, CompileError) else "self-check",
            f"entry '{subject.entry.name}', compiled for '{target}', fails{sizes} "
            f"where the reference evaluator does not: {error.message}",
            where=error.where,
            hint=_HINT,
        ) from error


def _rounding(
    subject: _Subject, calls: Calls, expected: Sequence[Arrays]
) -> list[Arrays]:
    """How far rounding carries each element of each result of each call.

    Raises:
        NothingToCompare: it decides everything, or a check of the model.
    """
    try:
        runs = [
            [results for _, results in subject.reference_results(calls, Noise(seed))]
            for seed in range(_NOISE_RUNS)
        ]
    except InputError as error:
        raise NothingToCompare(
            f"rounding decides a check of the model: {error.message}"
        ) from None
    except MemoryError:
        raise NothingToCompare("the reference evaluator ran out of memory") from None
    found = [
        spreads(want, [run[call] for run in runs]) for call, want in enumerate(expected)
    ]
    if not any(np.isfinite(each).any() for call in found for each in call):
        raise NothingToCompare("rounding alone decides what is finite")
    return found


def _compare_within(name: str, got: Any, want: Any, moved: Any) -> Difference:
    """The difference, with a tolerance that grants what rounding does.

    Elements of which rounding decides whether they are finite are left out. Few runs do
    not show all of them: where there is one, a few that differ in this are others.

    Args:
        name: of the result.
        got: what was computed.
        want: by the reference.
        moved: how far rounding carries each element of `want`.
    """
    is_decided = np.isfinite(moved)
    if not is_decided.all() and got.shape == want.shape and got.dtype == want.dtype:
        x, y = got.astype(np.float64), want.astype(np.float64)
        differs = is_decided & (np.isfinite(x) != np.isfinite(y))
        if differs.sum() <= _NOISE_FACTOR * (~is_decided).sum():
            is_decided &= ~differs
        got = np.where(is_decided, got, want)
    difference = compare(name, got, want)
    rounding = float(moved[is_decided].max(initial=0.0))
    if not rounding or difference.passed:
        return difference
    scale = difference.max_abs / difference.error if difference.error else 1.0
    if not np.isfinite(scale) or not scale:
        scale = 1.0
    granted = _NOISE_FACTOR * rounding / scale
    return replace(difference, tolerance=max(difference.tolerance, granted))


# ---- a failure ----------------------------------------------------------------------

_HINT = (
    "the compiler is at fault, not the model: please report it; --self-check=off "
    "builds all the same"
)


def _failure(
    subject: _Subject,
    calls: Calls,
    target: Target,
    row: Sequence[Difference],
    arguments: Arrays,
    results: Arrays,
) -> CompileError:
    """What differs, and where it begins."""
    entry = subject.entry
    outputs = results[: len(entry.ports("output"))]
    where, begins = None, ""
    try:
        first = diverging(
            subject.program,
            subject.graph,
            entry,
            target,
            arguments,
            outputs,
            None,
            subject.passes,
        )
        where, begins = first.where, f"\n  {first}"
    except AotcError as error:
        begins = f"\n  where it begins was not found: {error.message}"
    wrong = "\n".join(f"  {each}" for each in row if not each.passed)
    return CompileError(
        "self-check",
        f"entry '{entry.name}', compiled for '{target}', does not compute what its "
        f"graph says{_at([calls.sizes])}:\n{wrong}{begins}",
        where=where,
        hint=_HINT,
    )
