"""What IREE computes from the lowered ops equals what NumPy computes by their `ref`."""

from typing import Any

import numpy as np
import pytest

from aotc import dtypes, reference

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
