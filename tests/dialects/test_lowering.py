"""What IREE computes from the lowered ops equals what NumPy computes by their `ref`."""

import re
from typing import Any

import numpy as np
import pytest

from aotc import dtypes, reference
from aotc import numpy as anp
from aotc.backend import require_upstream_only
from aotc.dialects import context
from aotc.dialects.types import Tensor
from aotc.frontends.tracing import Trace
from aotc.mlir import ir
from aotc.passes import run_passes

# Largest difference, relative to the larger of 1 and the reference; integers are equal.
# f32: the transcendental functions of IREE are good to a few units in the last place.
TOLERANCE = {"f64": 1e-13, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}


def assert_close(got: Any, want: Any) -> None:
    """Equal shapes, equal infinities and NaNs, and values within tolerance."""
    assert got.shape == want.shape
    tolerance = TOLERANCE.get(dtypes.canonical(want.dtype))
    if tolerance is None:
        np.testing.assert_array_equal(got, want)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want) / np.maximum(1, np.abs(want))
    fits = (got == want) | (np.isnan(got) & np.isnan(want)) | (error <= tolerance)
    np.testing.assert_array_equal(got[~fits], want[~fits])


def new_module() -> Any:
    """An empty module of the graph dialect."""
    with context(), ir.Location.unknown():
        return ir.Module.create()


@pytest.fixture(scope="module")
def chosen(cases, request):
    """The cases of this run: narrow ones, or with `-m slow` the others."""
    wide = "slow" in request.config.option.markexpr
    return [case for case in cases if case.is_narrow != wide]


@pytest.fixture(scope="module")
def every(chosen, build_all):
    """A module with a function for each case."""
    return build_all(chosen)


@pytest.fixture(scope="module")
def cpu(chosen, build_all, compiled):
    """The same functions, compiled for this machine."""
    return compiled(build_all(chosen), "cpu")


def test_compiled_op_equals_its_reference(compiled_case, every, cpu):
    case = compiled_case
    for sizes in case.drawn():
        inputs = case.inputs(sizes)
        (want,) = reference.evaluate(every, str(case), inputs)
        (got,) = cpu(str(case), inputs)
        assert_close(got, want)


def test_vmvx_computes_f32_ops_as_the_reference(cases, build_all, compiled):
    # VMVX knows neither f16 nor bf16, and f64 only in part; see docs/dialect.md.
    chosen = [case for case in cases if re.fullmatch(r"\d_f32|edge_u8", case.label)]
    every = build_all(chosen)
    vmvx = compiled(build_all(chosen), "vmvx")
    for case in chosen:
        for sizes in case.drawn():
            inputs = case.inputs(sizes)
            (want,) = reference.evaluate(every, str(case), inputs)
            (got,) = vmvx(str(case), inputs)
            assert_close(got, want)


def test_compiled_vjps_equal_their_reference(structured_cases, differentiate, compiled):
    # Elementwise ops are left out: their derivatives are elementwise ops again.
    every, lowered = new_module(), new_module()
    for case in structured_cases:
        differentiate.build_vjp(case, every)
        differentiate.build_vjp(case, lowered)
    run_passes(lowered, ["simplify", "cse"])
    cpu = compiled(lowered, "cpu")
    for case in structured_cases:
        for sizes in case.drawn():
            shape = case.infer(sizes).shape
            inputs = [*case.inputs(sizes), case.rng().standard_normal(shape)]
            wanted = reference.evaluate(every, str(case), inputs)
            for got, want in zip(cpu(str(case), inputs), wanted, strict=True):
                assert_close(got, want)


def test_lowering_leaves_upstream_ops_only(cases, build_all):
    module = build_all(cases)
    run_passes(module, ["lower-to-linalg"])
    require_upstream_only(module)


POSITIONS = {
    "taken": lambda x: anp.take(x[:, ::2], np.array([2, 0], "i4"), axis=0),
    "reversed": lambda x: x[:, ::-2],
    "transposed": lambda x: anp.flip(anp.transpose(x), 0),
    "column": lambda x: anp.flip(x[:, 1], 0),
    "shifted": lambda x: anp.concatenate([x[1:, ::3], x[:1, ::3]], 0),
}


def test_ops_that_compute_positions_read_slices_with_gaps(compiled):
    # IREE cannot compile a vector gather from a buffer whose last axis has a stride.
    every, lowered = new_module(), new_module()
    for module in (every, lowered):
        for name, function in POSITIONS.items():
            with context():
                trace = Trace(module, name, [Tensor((4, 9), "f32")], [])
            with trace.active():
                trace.finish([function(*trace.arguments)])
    cpu = compiled(lowered, "cpu")
    x = np.arange(36, dtype="f").reshape(4, 9)
    for name in POSITIONS:
        (want,) = reference.evaluate(every, name, [x])
        assert_close(cpu(name, [x])[0], want)
