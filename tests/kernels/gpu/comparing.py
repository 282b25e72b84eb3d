"""Compares entries of model files with the reference, and counts what is left to IREE.

Each entry is computed by its kernels, in the evaluator, and by the reference from the
program as it was traced.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from aotc import reference
from aotc.checks.kernel_check import EvaluatedKernels
from aotc.core import dtypes
from aotc.dialects.functions.entries import entries_of
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.symbols import contracts_of
from aotc.dialects.types import evaluate_size
from aotc.importers import load
from aotc.passes import run_passes
from aotc.passes.base import Unit

from .building import HERE, evaluated

_BOUNDS = {"f32": 1e-5, "bf16": 2e-2, "f16": 4e-3}
_FREE = ("broadcast", "constant", "iota", "reshape")


@cache
def traced(file: str) -> Unit:
    """A model file as it was traced, with its derivatives written."""
    unit = Unit(load(HERE / file))
    run_passes(unit, ["autodiff", "inline"], silently=True)
    return unit


@cache
def kernels_of(file: str) -> EvaluatedKernels:
    return evaluated(np.inf, file=file)


def left(kernels: EvaluatedKernels, entry: str) -> Counter[str]:
    """Return the results of an entry, by ops and by families of kernels."""
    *ops, _ = functions_of(kernels.program.module)[entry].entry_block.operations
    names = (
        op.operation.name.removeprefix("graph.")
        if isinstance(op, GraphOp)
        else callee_of(op).partition("_")[0]
        for op in ops
    )
    return Counter(name for name in names if name not in _FREE)


def require_equal(
    file: str,
    name: str,
    size: int,
    kernels: EvaluatedKernels | None = None,
) -> None:
    """Compare what an entry returns and leaves in states with the reference."""
    kernels, unit = kernels or kernels_of(file), traced(file)
    (entry,) = (x for x in entries_of(unit.module) if x.name == name)
    count = len(contracts_of(functions_of(unit.module)[name]))
    symbols, rng = [size + n for n in range(count)], np.random.default_rng(0)
    arrays, kinds = {}, {}
    for port in entry.arguments:
        shape = [evaluate_size(n, symbols) for n in port.type.shape]
        x = rng.normal(size=shape)
        if not dtypes.is_float(port.type.dtype):
            x = rng.integers(0, 9, shape)
        x = unit.program.parameters.get(port.name, x)
        arrays[port.name] = np.asarray(x).astype(dtypes.to_numpy(port.type.dtype))
        kinds[port.name] = port.kind
    inputs = [x for key, x in arrays.items() if kinds[key] == "input"]
    before = {
        state.name: [arrays[leaf] for leaf in state.leaves]
        for state in kernels.program.states
        if all(leaf in arrays for leaf in state.leaves)
    }
    outputs, states = kernels.call(name, inputs, before, [*before])
    wanted = reference.evaluate(unit.module, name, [*arrays.values()])
    ports = [*zip(entry.results, wanted, strict=True)]
    theirs = [y for kind in ("output", "state") for p, y in ports if p.kind == kind]
    bound = max(
        _BOUNDS.get(dtypes.canonical_dtype(x.dtype), 0) for x in arrays.values()
    )
    for x, y in zip([*outputs, *states], theirs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        scale = abs(y.astype("f8")).max(initial=1.0)
        np.testing.assert_allclose(
            x.astype("f8"), y.astype("f8"), rtol=bound, atol=bound * scale
        )


def sizes_of(file: str, name: str) -> tuple[int, ...]:
    """Sizes of calls: of an entry with symbols, 0 and 1 among them."""
    function = functions_of(traced(file).module)[name]
    return (0, 1, 19) if len(contracts_of(function)) else (1,)
