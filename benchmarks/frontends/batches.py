"""Imported networks compiled for the CPU, many to a module, and run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import iree.runtime as iree
import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.backend import compile_targets
from aotc.dtypes import canonical
from aotc.errors import AotcError
from aotc.importers.common.imported import Imported
from aotc.pipeline import lower
from aotc.pytree import flatten
from aotc.runtime.buffers import sender, viewer
from aotc.target import Target
from aotc.tracing.assembly import trace
from aotc.tracing.entry import EntryFunction, Spec

BATCH = 96
PARTS = 6  # of a batch that fails
SMALL = 64  # elements of an input that may be a constant

Array = np.ndarray[Any, Any]
Mismatch = Callable[[Any, Any, float, float], str | None]


@dataclass(frozen=True)
class Traced:
    """A case as an entry of the inputs that need not be known."""

    case: Any
    entry: EntryFunction
    arguments: list[Array]


@dataclass
class Compiled:
    """What became of cases that were compiled.

    Args:
        passed: how many give what they should.
        refused: how many need to know at build time what they compute, by reason.
        failed: names of those that do not compile, with why.
        wrong: names of those that give something else, with what.
    """

    passed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)


def run_compiled(cases: Sequence[Any], mismatch: Mismatch) -> Compiled:
    """Compile and run the cases."""
    result, ready = Compiled(), []
    for number, case in enumerate(cases):
        found = traced(case, f"case_{number}")
        if isinstance(found, str):
            result.refused[found] += 1
        else:
            ready.append(found)
    for start in range(0, len(ready), BATCH):
        for each, why in _outcomes(ready[start : start + BATCH], mismatch):
            if why is None:
                result.passed += 1
            elif why.startswith("compile: "):
                result.failed.append((each.case.name, why))
            else:
                result.wrong.append((each.case.name, why))
        done = min(start + BATCH, len(ready))
        print(f"{done} of {len(ready)} compiled", file=sys.stderr, flush=True)
    return result


# ---- tracing ------------------------------------------------------------------------


def traced(case: Any, name: str) -> Traced | str:
    """The case as an entry; small inputs are constants if it needs them to be known."""
    error = ""
    for known in _choices(case.inputs):
        attempt = _entry(case, name, known)
        try:
            trace([attempt.entry], {})
        except AotcError as refusal:
            error = error or f"{refusal.code}: {_general(refusal.message)}"
        else:
            return attempt
    return error


def _general(message: str) -> str:
    """A message without what follows from the case."""
    return message.partition(";")[0].partition("(")[0][:100]


def _choices(inputs: Sequence[Array]) -> Iterator[set[int]]:
    """Which inputs may be constants: none, then small integers, then all small ones."""
    small = {i for i, x in enumerate(inputs) if x.size <= SMALL}
    whole = {i for i in small if inputs[i].dtype.kind in "iub"}
    yield set()
    yield whole - {0}
    yield small - {0}
    yield small


def _entry(case: Any, name: str, known: set[int]) -> Traced:
    network: Imported = case.network
    tree = {} if network.weights is None else network.weights.tree
    given = [x for i, x in enumerate(case.inputs) if i not in known]

    def run(weights: Mapping[str, Any], inputs: Sequence[Any]) -> Any:
        rest = iter(inputs)
        arrays = [x if i in known else next(rest) for i, x in enumerate(case.inputs)]
        stored = [] if network.weights is None else [weights]
        found = network(*stored, *arrays)
        return list(found.values()) if isinstance(found, dict) else [found]

    run.__name__ = name
    sources = {
        "weights": {key: _spec(array) for key, array in tree.items()},
        "inputs": [_spec(array) for array in given],
    }
    return Traced(case, EntryFunction(run, sources), [*flatten(tree)[0], *given])


def _spec(array: Array) -> Spec:
    return Spec(array.shape, canonical(array.dtype))


# ---- compiled code ------------------------------------------------------------------


def _outcomes(
    batch: Sequence[Traced], mismatch: Mismatch
) -> Iterator[tuple[Traced, str | None]]:
    """For each case, how its results differ; what does not compile stands alone."""
    try:
        program = trace([each.entry for each in batch], {})
        (compiled,) = compile_targets(lower(program), [Target.parse("cpu")])
    except AotcError as error:
        if len(batch) == 1:
            lines = error.message.splitlines()
            yield batch[0], f"compile: {lines[0][:150]}"
            return
        size = -(-len(batch) // PARTS)
        for start in range(0, len(batch), size):
            yield from _outcomes(batch[start : start + size], mismatch)
        return
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    module = iree.VmContext(config.vm_instance, [*config.default_vm_modules, code])
    for each, entry in zip(batch, program.entries, strict=True):
        function = code.lookup_function(entry.name)
        yield each, _run(each, entry, module, function, config.device, mismatch)


def _run(
    each: Traced,
    entry: Any,
    module: Any,
    function: Any,
    device: Any,
    mismatch: Mismatch,
) -> str | None:
    arguments = iree.VmVariantList(len(each.arguments))
    results = iree.VmVariantList(len(entry.results))
    for port, array in zip(entry.arguments, each.arguments, strict=True):
        arguments.push_ref(sender(device, _leaf(port))(array))
    try:
        module.invoke(function, arguments, results)
    except Exception as error:  # the runtime's
        return f"it cannot be called: {str(error).splitlines()[0]}"
    for number, (port, want) in enumerate(
        zip(entry.results, each.case.outputs, strict=True)
    ):
        view = results.get_as_object(number, iree.HalBufferView)
        got = np.array(viewer(device, _leaf(port))(view))
        why = mismatch(got, want, max(each.case.rtol, 1e-3), max(each.case.atol, 1e-6))
        if why:
            return why
    return None


def _leaf(port: Any) -> Leaf:
    return Leaf(port.name, port.type.dtype, tuple(port.type.shape))
