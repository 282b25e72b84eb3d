"""Kernels that read through views: what moves elements, and gradients of convolutions.

Each entry of the model files is computed by its kernels, in the evaluator, and by the
reference from the program as it was traced.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from aotc import dtypes, reference
from aotc.checks.kernel_check import EvaluatedKernels
from aotc.dialects.entries import entries_of
from aotc.dialects.functions import callee_of, functions_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.symbols import contracts_of
from aotc.dialects.types import evaluate_size
from aotc.errors import CompileError
from aotc.importers import load
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

from .building import HERE, evaluated
from .convolved import GRADIENTS

pytestmark = pytest.mark.usefixtures("with_triton")

BF16 = dtypes.to_numpy("bf16")
_BOUNDS = {"f32": 1e-5, "bf16": 2e-2, "f16": 4e-3}
# how many launches of kernels a call has, and ops that are left to IREE
MOVED = {
    "transposed": (1, 0),
    "transposed_between": (1, 0),
    "transposed_twice": (1, 2),
    "concatenated": (1, 0),
    "gated": (1, 0),
    "gated_by_gelu": (1, 0),
    "rotated": (1, 3),
    "reversed_integers": (1, 0),
    "masked": (1, 1),
    "looked_up": (1, 5),
    "stepped": (1, 3),  # one of them has both updates
}
# entries whose tables are as large as calls say, or not
SCATTERED = ("embedded", "added", "counted", "added_inside")
_FREE = ("broadcast", "constant", "iota", "reshape")


@cache
def traced(file: str) -> Unit:
    """A model file as it was traced, with its derivatives written."""
    unit = Unit(load(HERE / file))
    run_passes(unit, PASS_STAGES[0].passes()[:2], silently=True)
    return unit


@cache
def kernels_of(file: str) -> EvaluatedKernels:
    return evaluated(np.inf, file=file)


def left(kernels: EvaluatedKernels, entry: str) -> Counter[str]:
    """What a call of an entry computes, by ops and by families of kernels."""
    *ops, _ = functions_of(kernels.program.module)[entry].entry_block.operations
    names = (
        op.operation.name.removeprefix("graph.")
        if isinstance(op, GraphOp)
        else callee_of(op).partition("_")[0]
        for op in ops
    )
    return Counter(name for name in names if name not in _FREE)


def require_equal(
    file: str, name: str, size: int, kernels: EvaluatedKernels | None = None
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
        arrays[port.name] = x.astype(dtypes.to_numpy(port.type.dtype))
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
    bound = max(_BOUNDS.get(dtypes.canonical(x.dtype), 0) for x in arrays.values())
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


# ---- what moves elements ------------------------------------------------------------


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_is_one_kernel_and_right(name: str) -> None:
    kernels = kernels_of("moved.py")
    found = left(kernels, name)
    own, rest = MOVED[name]
    assert (found["movement"], found.total() - own) == (own, rest), found
    for size in sizes_of("moved.py", name):
        require_equal("moved.py", name, size)


@pytest.mark.parametrize("name", ["transposed", "concatenated", "rotated", "gated"])
def test_masks_and_strides_that_are_wrong_are_found(name: str) -> None:
    """Masks let one too many in, and other ops are written than were meant."""
    wrong = {
        "masks": ("predicate = 2 : i64", "predicate = 3 : i64"),
        "remainders": ('"arith.remsi"', '"arith.divsi"'),
        "sums": ('"arith.addf"', '"arith.subf"'),
    }
    whole = kernels_of("moved.py")
    region = next(
        callee_of(op)
        for op in functions_of(whole.program.module)[name].entry_block.operations
        if not isinstance(op, GraphOp) and op.operation.name == "func.call"
    )
    text = whole.known[region][0].text
    tried = 0
    for before, after in wrong.values():
        if before in text:
            kernels = evaluated(np.inf, {before: after}, "moved.py")
            with pytest.raises((AssertionError, CompileError)):
                require_equal("moved.py", name, 19, kernels)
            tried += 1
    assert tried


# ---- gradients of convolutions ------------------------------------------------------


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_convolutions_read_windows_where_they_lie(name: str) -> None:
    found = left(kernels_of("convolved.py"), name)
    assert not found["windows"]
    if GRADIENTS[name][0] != "f32":
        assert not found["reverse"]
    for size in (
        (3, 9) if "n" in GRADIENTS[name][1] or "h" in GRADIENTS[name][1] else (1,)
    ):
        require_equal("convolved.py", name, size)


# ---- scatters -----------------------------------------------------------------------


@pytest.mark.parametrize("name", SCATTERED)
def test_scatters_that_add_are_one_kernel_and_right(name: str) -> None:
    """Indices are 0 to 8, so that each is there several times."""
    assert left(kernels_of("scattered.py"), name)["scatter"] == 1
    for size in sizes_of("scattered.py", name):
        require_equal("scattered.py", name, size)


def test_scatters_add_in_order_and_nothing_that_goes_elsewhere() -> None:
    """Also what is behind the end of the table, or before it, and no number."""
    kernels = kernels_of("scattered.py")
    at = np.array([3, 39, 3, 3, 40, -41, 2**40, 7], "i8")
    rng, x = np.random.default_rng(0), np.zeros((40, 3), "f4")
    u = (rng.normal(size=(8, 3)) * 10.0 ** rng.integers(-6, 6, (8, 3))).astype("f4")
    u[7, 1] = np.nan
    given = [x.astype(BF16), at, u.astype(BF16)]
    (found,), _ = kernels.call("added", given)
    (wanted,) = reference.evaluate(traced("scattered.py").module, "added", given)
    np.testing.assert_array_equal(found.astype("f4"), wanted.astype("f4"))
    assert np.isnan(found.astype("f4")).sum() == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"arith.minsi"', '"arith.maxsi"'),
        ("predicate = 4 : i64", "predicate = 5 : i64"),
        ("predicate = 2 : i64", "predicate = 3 : i64"),
        ('"arith.addf"', '"arith.maximumf"'),
    ],
)
def test_scatters_that_are_wrong_are_found(before: str, after: str) -> None:
    """Another order, an update that is added twice, a row too many, other sums."""
    kernels = evaluated(np.inf, {before: after}, "scattered.py")

    def require_all() -> None:
        for name in SCATTERED:
            require_equal("scattered.py", name, 19, kernels)

    with pytest.raises((AssertionError, CompileError)):
        require_all()
