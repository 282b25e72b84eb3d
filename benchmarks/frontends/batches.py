"""Imported networks compiled for the CPU, many to a module, and run."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import iree.runtime as iree
import numpy as np
from kernel_sizes import write_kernels_of_any_size

from aotc import reference
from aotc.artifacts.manifest import Leaf
from aotc.backend import compile_units
from aotc.core.dtypes import canonical_dtype
from aotc.core.pytree import flatten
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.functions.parameters import SCOPE
from aotc.errors import AotcError
from aotc.importers.common.imported import Imported
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.programs.files import write_parameters
from aotc.programs.program import LEVELS, Program
from aotc.runtime import engine
from aotc.runtime.buffers import sender, viewer
from aotc.runtime.loader import start
from aotc.runtime.module import LoadedModule
from aotc.tracing.assembly import trace
from aotc.tracing.entry import EntryFunction, Spec, Weights

BATCH = 96
PARTS = 6  # of a batch that fails
SMALL = 64  # elements of an input that may be a constant

Array = np.ndarray[Any, Any]
Mismatch = Callable[[Any, Any, float, float], str | None]


@dataclass(frozen=True)
class Settings:
    """The target, level and kernel settings by which cases are compiled.

    Args:
        target: to compile for.
        level: of optimisation.
        are_weights: whether weights of a network, and all inputs of a case but the
            first, are weights of the program: the build computes with them, and packs
            them for kernels. Else they are inputs.
        only_kernels: whether only cases of which a kernel computes a part are compiled;
            of others, what the passes make of them is evaluated.
    """

    target: Target = Target.parse("cpu")  # noqa: RUF009 - it is frozen
    level: int = LEVELS[-1]
    are_weights: bool = False
    only_kernels: bool = False

    def __str__(self) -> str:
        stored = ", inputs but the first as weights" if self.are_weights else ""
        only = ", where kernels compute a part" if self.only_kernels else ""
        return f"{self.target} at -O{self.level}{stored}{only}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command-line options of `settings_of` to a parser."""
    parser.add_argument("--target", type=Target.parse, default=Settings.target)
    parser.add_argument(
        "-O", dest="level", type=int, choices=LEVELS, default=LEVELS[-1]
    )
    parser.add_argument(
        "--weights", action="store_true", help="inputs but the first are weights"
    )
    parser.add_argument(
        "--kernels", action="store_true", help="write kernels for small operators, too"
    )
    parser.add_argument(
        "--only-kernels",
        action="store_true",
        help="compile only those with kernels; of others, evaluate what passes make",
    )


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings that a command line asks for; `--kernels` takes effect at
    once.
    """
    if options.kernels:
        write_kernels_of_any_size()
    return Settings(
        options.target, options.level, options.weights, options.only_kernels
    )


@dataclass(frozen=True)
class Traced:
    """A case traced as an entry, with the arguments that are not constants."""

    case: Any
    entry: EntryFunction
    arguments: list[Array]


@dataclass
class Compiled:
    """Counts of cases that passed, failed to compile, or differed.

    Args:
        passed: how many give what they should.
        evaluated: of these, how many were not compiled, but evaluated after the passes.
        refused: how many need to know at build time what they compute, by reason.
        failed: names of those that do not compile, with why.
        wrong: names of those that give something else, with what.
        kernels: how many compute something of the cases, by their family.
        settings: that they were compiled with.
    """

    passed: int = 0
    evaluated: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    kernels: Counter[str] = field(default_factory=Counter)
    settings: Settings = Settings()

    def title(self) -> str:
        """Name what was compiled for which target."""
        told = ", ".join(f"{n} of {name}" for name, n in self.kernels.items())
        title = f"Compiled for {self.settings}, with kernels: {told or 'none'}"
        if self.settings.only_kernels:
            title += f"; {self.evaluated} that have none evaluated after the passes"
        return title


def run_compiled(
    cases: Sequence[Any],
    mismatch: Mismatch,
    settings: Settings = Settings(),  # noqa: B008 - it is frozen
) -> Compiled:
    """Compile and run cases in batches; return the outcomes."""
    result, ready = Compiled(settings=settings), []
    for number, case in enumerate(cases):
        found = traced(case, f"case_{number}", settings)
        if isinstance(found, str):
            result.refused[found] += 1
        else:
            ready.append(found)
    if settings.only_kernels:
        ready = _with_kernels(ready, mismatch, result)
    for begin in range(0, len(ready), BATCH):
        batch = ready[begin : begin + BATCH]
        for each, why in _outcomes(batch, mismatch, settings, result.kernels):
            if why is None:
                result.passed += 1
            elif why.startswith("compile: "):
                result.failed.append((each.case.name, why))
            else:
                result.wrong.append((each.case.name, why))
        done = min(begin + BATCH, len(ready))
        print(f"{done} of {len(ready)} compiled", file=sys.stderr, flush=True)
    return result


def _with_kernels(
    cases: Sequence[Traced], mismatch: Mismatch, result: Compiled
) -> list[Traced]:
    """Return the cases that have kernels; evaluate the others after the passes."""
    chosen: list[Traced] = []
    optimized, regions, *_ = PASS_STAGES
    level = result.settings.level
    for each in cases:
        program = trace([each.entry], {})
        program.level = level
        unit = Unit(program, result.settings.target)
        run_passes(unit, [*optimized.passes(level), *regions.passes(level)])
        if any(map(fused_of, functions_of(unit.module).values())):
            chosen.append(each)
            continue
        (entry,), inputs = program.entries, iter(each.arguments)
        stored = program.parameters
        given = [stored.get(port.name, None) for port in entry.arguments]
        given = [next(inputs) if array is None else array for array in given]
        with np.errstate(all="ignore"):
            found = reference.evaluate(unit.module, entry.name, given)
        why = _difference(each, found, mismatch)
        if why is None:
            result.passed += 1
            result.evaluated += 1
        else:
            result.wrong.append((each.case.name, f"after the passes: {why}"))
    return chosen


def _difference(each: Traced, found: Sequence[Array], mismatch: Mismatch) -> str | None:
    """Describe how results differ from those of a case."""
    case = each.case
    for got, want in zip(found, case.outputs, strict=True):
        why = mismatch(got, want, max(case.rtol, 1e-3), max(case.atol, 1e-6))
        if why:
            return why
    return None


# ---- tracing ------------------------------------------------------------------------


def traced(case: Any, name: str, settings: Settings) -> Traced | str:
    """Trace a case as an entry, with small inputs as constants if needed; or return why
    not.
    """
    error = ""
    for known in _choices(case.inputs):
        attempt = _entry(case, name, known, settings.are_weights)
        try:
            trace([attempt.entry], {})
        except AotcError as refusal:
            error = error or f"{refusal.code}: {_general(refusal.message)}"
        else:
            return attempt
    return error


def _general(message: str) -> str:
    """Return an error message without its case-specific details."""
    return message.partition(";")[0].partition("(")[0][:100]


def _choices(inputs: Sequence[Array]) -> Iterator[set[int]]:
    """Yield sets of inputs to make constants: none, small integers, then all small
    ones.
    """
    small = {i for i, x in enumerate(inputs) if x.size <= SMALL}
    whole = {i for i in small if inputs[i].dtype.kind in "iub"}
    yield set()
    yield whole - {0}
    yield small - {0}
    yield small


def _entry(case: Any, name: str, known: set[int], are_weights: bool) -> Traced:
    """Return a case as an entry in which the inputs in `known` are constants."""
    network: Imported = case.network
    tree = {} if network.weights is None else network.weights.tree
    given = [x for i, x in enumerate(case.inputs) if i not in known]

    def run(weights: Mapping[str, Any], first: Sequence[Any], others: Any) -> Any:
        rest = iter([*first, *others])
        arrays = [x if i in known else next(rest) for i, x in enumerate(case.inputs)]
        stored = [] if network.weights is None else [weights]
        found = network(*stored, *arrays)
        return list(found.values()) if isinstance(found, dict) else [found]

    run.__name__ = name
    first, others = given[:1], given[1:]
    if are_weights:
        stored: dict[str, Any] = {"weights": tree, "others": others}
        sources = {key: Weights(each) if each else each for key, each in stored.items()}
        arguments = first
    else:
        sources = {
            "weights": {key: _spec(array) for key, array in tree.items()},
            "others": [_spec(array) for array in others],
        }
        arguments = [*flatten(tree)[0], *given]
    sources["first"] = [_spec(array) for array in first]
    return Traced(case, EntryFunction(run, sources), arguments)


def _spec(array: Array) -> Spec:
    """Return an array's shape and dtype as a spec."""
    return Spec(array.shape, canonical_dtype(array.dtype))


# ---- compiled code ------------------------------------------------------------------


def _outcomes(
    batch: Sequence[Traced],
    mismatch: Mismatch,
    settings: Settings,
    kernels: Counter[str],
) -> Iterator[tuple[Traced, str | None]]:
    """Compile a batch and yield each case's difference, None if right; halve it on
    errors.
    """
    try:
        program = trace([each.entry for each in batch], {})
        program.level = settings.level
        unit = Unit(program, settings.target)
        run_passes(unit, all_passes(settings.level))
        (compiled,) = compile_units([unit])
    except AotcError as error:
        if len(batch) == 1:
            lines = error.message.splitlines()
            yield batch[0], f"compile: {lines[0][:150]}"
            return
        size = -(-len(batch) // PARTS)
        for begin in range(0, len(batch), size):
            part = batch[begin : begin + size]
            yield from _outcomes(part, mismatch, settings, kernels)
        return
    kernels.update(row["family"] for row in compiled.kernels["regions"])
    code = _load(compiled.vmfb, program)
    for each, entry in zip(batch, program.entries, strict=True):
        yield each, _run(each, entry, code, mismatch)


def _load(vmfb: bytes, program: Program) -> LoadedModule:
    """Load compiled code with the weights of its program."""
    device = engine.device("llvm-cpu", threads=1)
    with TemporaryDirectory() as folder:
        archive, index = Path(folder) / "weights.irpa", iree.ParameterIndex()
        write_parameters(program.parameters, archive)
        index.load(str(archive))
    return start(vmfb, "llvm-cpu", device, [index.create_provider(scope=SCOPE)])


def _run(
    each: Traced, entry: Any, code: LoadedModule, mismatch: Mismatch
) -> str | None:
    """Call an entry on a case's arguments; describe a difference, or return None."""
    arguments = iree.VmVariantList(len(each.arguments))
    results = iree.VmVariantList(len(entry.results))
    device, inputs = code.device, entry.ports("input")
    for port, array in zip(inputs, each.arguments, strict=True):
        arguments.push_ref(sender(device, _leaf(port))(array))
    try:
        code.context.invoke(code.module.lookup_function(entry.name), arguments, results)
    except Exception as error:  # the runtime's
        return f"it cannot be called: {str(error).splitlines()[0]}"
    found = []
    for number, port in enumerate(entry.results):
        view = results.get_as_object(number, iree.HalBufferView)
        found.append(np.array(viewer(device, _leaf(port))(view)))
    return _difference(each, found, mismatch)


def _leaf(port: Any) -> Leaf:
    """Return an entry's input or output as a `Leaf`."""
    return Leaf(port.name, port.type.dtype, tuple(port.type.shape))
