"""Parity: comparison of the compiled model with the original framework.

Both run on the same seeded inputs, for sizes that the contracts allow, and each output
is compared. An entry that comes from no framework is compared with the reference
evaluator on the graph that was traced. If they differ, `bisect` names the first stage
and the first op from which on they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aotc.backend import CompiledVariant
from aotc.checks.bisect import (
    Divergence,
    arguments,
    first_divergence,
    reference_outputs,
)
from aotc.checks.comparable import comparable_entries
from aotc.checks.compiled import Bundle
from aotc.checks.differences import (
    Difference,
    compare,
    mixed_tolerance,
    worst_of,
)
from aotc.checks.inputs import CallSample, InputOptions, samples_of
from aotc.checks.judging import Rounding, RoundingRule, ToleranceRule, judge
from aotc.checks.process import DIED, CompiledProcess
from aotc.checks.rounding import Noise
from aotc.core.json_values import JsonObject
from aotc.core.pytree import flatten
from aotc.dialects import context
from aotc.dialects.functions.entries import Entry
from aotc.errors import AotcError, CompileError, Finding, InputError
from aotc.errors.system import raise_system_error
from aotc.importers.common.original import Original
from aotc.mlir import Module, ir
from aotc.programs.program import Program

__all__ = [
    "InputOptions",
    "ParityMismatch",
    "Parity",
    "ComparisonOptions",
    "measure",
    "require",
]


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of comparing entries with the framework they come from.

    Args:
        choice: of the inputs.
        tolerance: for floats, instead of those of their dtypes.
        bisect: whether to find the first op that differs.
    """

    choice: InputOptions = field(default_factory=InputOptions)
    tolerance: float | None = None
    bisect: bool = False


@dataclass(frozen=True)
class Parity:
    """The differences of an entry from its source framework on one target.

    Args:
        entry: its name.
        target: what was run.
        framework: what it was compared with, and its version.
        seed: of the inputs.
        sizes: of the symbols, for each call.
        outputs: the largest differences over all calls.
        divergence: where they begin, if that was looked for.
    """

    entry: str
    target: str
    framework: str
    seed: int
    sizes: tuple[Mapping[str, int], ...]
    outputs: tuple[Difference, ...]
    divergence: Divergence | None = None

    @property
    def passed(self) -> bool:
        """Return whether every output is within its tolerance."""
        return all(output.passed for output in self.outputs)

    def to_json(self) -> JsonObject:
        """Return the comparison as the manifest holds it."""
        found = {
            "entry": self.entry,
            "target": self.target,
            "framework": self.framework,
            "seed": self.seed,
            "sizes": [dict(each) for each in self.sizes],
            "outputs": [output.to_json() for output in self.outputs],
            "passed": self.passed,
        }
        if self.divergence is not None:
            found["divergence"] = self.divergence.to_json()
        return found

    def __str__(self) -> str:
        sizes = "; ".join(
            ", ".join(f"{name} {size}" for name, size in each.items())
            for each in self.sizes
            if each
        )
        at = f" at {sizes}" if sizes else ""
        verdict = "equals" if self.passed else "DIFFERS from"
        lines = [f"{self.entry} on {self.target} {verdict} {self.framework}{at}"]
        lines += [f"  {output}" for output in self.outputs]
        if self.divergence is not None:
            lines.append(f"  {self.divergence}")
        return "\n".join(lines)


class ParityMismatch(Finding):
    """Raised for entries that differ from their framework; `parities` has all
    differences.
    """

    def __init__(self, parities: Sequence[Parity]) -> None:
        self.parities = tuple(parities)
        wrong = [each for each in parities if not each.passed]
        found = "\n".join(str(each) for each in wrong)
        super().__init__(
            "parity",
            f"the compiled model does not compute what its source does:\n{found}",
            hint="`aotc parity --bisect` names the first op that differs",
        )


def require(parities: Sequence[Parity]) -> None:
    """Raise `ParityMismatch` if any entry differs from its framework.

    Raises:
        ParityMismatch: see above.
    """
    if not all(each.passed for each in parities):
        raise ParityMismatch(parities)


def measure(
    program: Program,
    graph: Module,
    bundle: Path,
    variants: Sequence[CompiledVariant],
    plan: ComparisonOptions,
) -> list[Parity]:
    """Compare every entry of a program with its framework, in every compiled variant.

    Args:
        program: what was compiled.
        graph: a copy of its module in which all derivatives are written.
        bundle: with the compiled code; it may be unsigned.
        variants: those in the bundle; all must run on this machine.
        plan: what to compare.

    Raises:
        InputError: sizes or inputs that were given do not fit, or the framework
            cannot run on those that were chosen; `needs-devices`: several devices
            compute each entry.
        SetupError: a target does not run here.
        CompileError: `compiled-code-died`: an entry ends the process that it runs in.
    """
    with context(), ir.Location.unknown(), ExitStack() as stack:
        codes = [Bundle(str(bundle), variant.target.id) for variant in variants]
        processes = [stack.enter_context(CompiledProcess(code)) for code in codes]
        running = list(zip(variants, processes, strict=True))
        return [
            parity
            for entry in comparable_entries(program)
            for parity in _parities_of(
                _Comparison(program, graph, entry, plan), running
            )
        ]


@dataclass(frozen=True)
class _Comparison:
    """An entry to compare with its framework: program, graph, and options."""

    program: Program
    graph: Module
    entry: Entry
    plan: ComparisonOptions

    @property
    def original(self) -> Original | None:
        """The framework's model that the entry was imported from; None for aotc's
        own.
        """
        network = self.program.networks.get(self.entry.name)
        return network.original if network is not None else None

    def expected_outputs(self, sample: CallSample) -> list[np.ndarray]:
        """Return the outputs by the framework, or by the reference evaluator."""
        entry, original = self.entry, self.original
        if original is None:
            return self._reference_outputs(sample)
        try:
            result = original.run(entry.input_tree.unflatten(sample.arrays))
        except Exception as error:  # whatever another framework raises
            raise_system_error(error)
            raise _framework_error(original, entry, sample, error) from error
        return flatten(result)[0]

    def differences(
        self,
        sample: CallSample,
        found: Sequence[np.ndarray],
        expected: Sequence[np.ndarray],
    ) -> list[Difference]:
        """Return the difference of each compiled output from the expected one."""
        names = [port.name for port in self.entry.ports("output")]
        rows = [
            compare(name, x, y, self.tolerance)
            for name, x, y in zip(names, found, expected, strict=True)
        ]
        if not self.allows_rounding or all(row.passed for row in rows):
            return rows
        rounding = Rounding(expected, partial(self._reference_outputs, sample))
        verdicts = judge(names, found, expected, rounding)
        return [
            row if row.passed else replace(row, by_rounding=verdict.passed)
            for row, verdict in zip(rows, verdicts, strict=True)
        ]

    @property
    def tolerance(self) -> float | None:
        """The tolerance of floats; None for that of their dtypes.

        The framework knows nothing of a cheaper dtype that a build was asked for.
        """
        if self.plan.tolerance is not None or self.original is None:
            return self.plan.tolerance
        return mixed_tolerance(self.program.mixed_precision)

    @property
    def allows_rounding(self) -> bool:
        """Return whether tolerances come from measured rounding: the user set none."""
        return self.original is None and self.plan.tolerance is None

    def _reference_outputs(
        self, sample: CallSample, noise: Noise | None = None
    ) -> list[np.ndarray]:
        """Return the outputs of a call by the reference evaluator, perhaps with
        noise.
        """
        values = arguments(self.program, self.entry, sample.arrays)
        return reference_outputs(self.graph, self.entry, values, noise)

    def compiled_outputs(
        self, process: CompiledProcess, sample: CallSample
    ) -> list[np.ndarray]:
        """Return the compiled entry's outputs of a call, from its initial states."""
        first: dict[str, list[Any]] = {
            state.name: [self.program.parameters[leaf] for leaf in state.leaves]
            for state in self.program.states  # another entry may have changed them
        }
        return process.call(self.entry.name, sample.arrays, first)[0]

    def divergence(
        self,
        variant: CompiledVariant,
        sample: CallSample,
        expected: Sequence[np.ndarray],
    ) -> Divergence:
        """Find the first stage and op where a call differs."""
        return first_divergence(
            self.program,
            self.graph,
            self.entry,
            variant,
            arguments(self.program, self.entry, sample.arrays),
            expected,
            RoundingRule() if self.allows_rounding else ToleranceRule(self.tolerance),
        )

    def located_error(
        self,
        error: AotcError,
        variant: CompiledVariant,
        sample: CallSample,
        expected: Sequence[np.ndarray],
    ) -> CompileError:
        """Return the error for code that dies in a call, with the op where it does."""
        first = self.divergence(variant, sample, expected)
        return CompileError(
            error.code,
            f"entry '{self.entry.name}', compiled for '{variant.target}', fails"
            f"{_sizes_text(sample)}: {error.message}\n  {first}",
            where=first.where,
            hint=error.hint,
        )


def _parities_of(
    compared: _Comparison, running: Sequence[tuple[CompiledVariant, CompiledProcess]]
) -> Iterator[Parity]:
    """Yield the comparison of an entry with its framework for each running variant."""
    entry, plan, original = compared.entry, compared.plan, compared.original
    example = original.example if original else None
    samples = list(samples_of(compared.graph, entry, plan.choice, example))
    wanted = [compared.expected_outputs(sample) for sample in samples]
    for variant, process in running:
        rows = list(_differences_by_call(compared, variant, process, samples, wanted))
        found = Parity(
            entry.name,
            str(variant.target),
            original.framework if original else "aotc's reference evaluator",
            plan.choice.seed,
            tuple(sample.sizes for sample in samples),
            tuple(worst_of(each) for each in zip(*rows, strict=True)),
        )
        if plan.bisect and not found.passed:
            first = next(
                i for i, row in enumerate(rows) if not all(d.passed for d in row)
            )
            divergence = compared.divergence(variant, samples[first], wanted[first])
            found = replace(found, divergence=divergence)
        yield found


def _differences_by_call(
    compared: _Comparison,
    variant: CompiledVariant,
    process: CompiledProcess,
    samples: Sequence[CallSample],
    expected_outputs: Sequence[Sequence[np.ndarray]],
) -> Iterator[list[Difference]]:
    """Yield the differences of all outputs, call by call.

    Raises:
        CompileError: `compiled-code-died`, with the place.
    """
    for sample, expected in zip(samples, expected_outputs, strict=True):
        try:
            found = compared.compiled_outputs(process, sample)
        except CompileError as error:
            if error.code != DIED:
                raise
            raise compared.located_error(error, variant, sample, expected) from error
        yield compared.differences(sample, found, expected)


def _sizes_text(sample: CallSample) -> str:
    """Return the symbol values of a call as ` (n=2, m=3)`; empty without symbols."""
    sizes = ", ".join(f"{name}={size}" for name, size in sample.sizes.items())
    return f" ({sizes})" if sizes else ""


def _framework_error(
    original: Original, entry: Entry, sample: CallSample, error: Exception
) -> InputError:
    """Return the error for a framework that cannot run an entry on drawn inputs."""
    said = (str(error).strip().splitlines() or [""])[0]
    return InputError(
        "framework-refused",
        f"{original.framework} cannot run '{entry.name}' on the inputs that were chosen"
        f"{_sizes_text(sample)}: {type(error).__name__}: {said}",
        hint="choose others with --sizes and --input",
    )
