"""Traced arrays that are looked at after their trace, as by debuggers and reports."""

import gc
import traceback

import numpy as np
import pytest

import aotc
from aotc.errors import InputError

pytestmark = pytest.mark.usefixtures("without_compiler")


def test_frames_of_an_error_in_a_function_that_is_traced_can_be_shown():
    def f(x):
        raise KeyError("asked nothing of x")

    jitted = aotc.jit(f)
    shown = []
    for rows in (3, 4, 5):
        with pytest.raises(InputError) as error:
            jitted(np.ones(rows, "f4"))
        gc.collect()
        for frame, _ in traceback.walk_tb(error.value.__cause__.__traceback__):
            shown += map(repr, frame.f_locals.values())
    assert "Array(f32[3])" in shown


def test_arrays_of_earlier_traces_have_a_type_and_no_values():
    kept = []

    def f(x):
        kept.extend([x, x * 2, aotc.vmap(lambda row: kept.append(row) or row)(x)])
        return x + 1

    jitted = aotc.jit(f)
    with pytest.warns(UserWarning, match="changes 'kept'"):
        jitted(np.ones((3, 2), "f4"))
    for rows in (4, 5):
        jitted(np.ones((rows, 2), "f4"))
    del jitted
    gc.collect()
    for each in kept:
        assert repr(each).startswith("Array(f32[")
        assert each.dtype == "f32"
        assert len(each.shape) == each.ndim
        with pytest.raises(InputError) as error:
            np.asarray(each)
        assert error.value.code == "traced-value"
