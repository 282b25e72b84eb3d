"""Subnormal numbers: comparisons, bools and signs tell them from 0."""

from typing import Any

import iree.runtime as iree
import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc.backend import compile_targets
from aotc.machine.target import Target
from aotc.pipeline import lower
from aotc.tracing.assembly import trace

FUNCTIONS = {
    "less": lambda x: x < anp.roll(x, 1),
    "at_most": lambda x: x <= 0,
    "greater": lambda x: x > 0,
    "at_least": lambda x: x >= anp.roll(x, 1),
    "equal": lambda x: x == 0,
    "different": lambda x: x != 0,
    "truth": lambda x: x.astype("bool"),
    "none": anp.logical_not,
    "any": anp.any,
    "all": anp.all,
    "count": anp.count_nonzero,
    "sign": anp.sign,
    "choice": lambda x: anp.where(x > 0, 1.0, 2.0),
}
# in the terms of NumPy
RIGHT: dict[str, Any] = {
    "less": lambda x: x < np.roll(x, 1),
    "at_most": lambda x: x <= 0,
    "greater": lambda x: x > 0,
    "at_least": lambda x: x >= np.roll(x, 1),
    "equal": lambda x: x == 0,
    "different": lambda x: x != 0,
    "truth": lambda x: x.astype(bool),
    "none": np.logical_not,
    "any": np.any,
    "all": np.all,
    "count": np.count_nonzero,
    "sign": np.sign,
    "choice": lambda x: np.where(x > 0, 1.0, 2.0),
}
# what decides where a derivative goes sees numbers as arithmetic does
DERIVED = {
    "slope_of_max": aotc.grad(anp.max),
    "place_of_max": lambda x: anp.argmax(x),
}
TINY = {"f32": 1e-40, "f64": 1e-310}


@pytest.mark.parametrize("target", ["x86_64-v3", "vmvx"])
def test_subnormal_numbers_are_not_zero(target):
    dtypes = list(TINY) if target != "vmvx" else ["f32"]
    entries = []
    for dtype in dtypes:
        for name, function in (FUNCTIONS | DERIVED).items():

            def entry(x, function=function):
                return function(x)

            entry.__name__ = f"{name}_{dtype}"
            entries.append(aotc.entry(x=aotc.Spec(("n",), dtype))(entry))
    compiled = Target.parse(target)
    (variant,) = compile_targets(lower(trace(entries, {}), compiled), [compiled])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    module = iree.load_vm_module(code, config)
    for dtype in dtypes:
        tiny = np.array([1, -1, 0, -0.0, 3, np.nan, np.inf]) * TINY[dtype]
        x = np.concatenate([tiny, [1, 1, -1]]).astype(dtype.replace("f", "float"))
        for name in FUNCTIONS:
            found = np.asarray(getattr(module, f"{name}_{dtype}")(x))
            np.testing.assert_array_equal(found, RIGHT[name](x), f"{name} {dtype}")
        few = (np.array([1, 3, 2]) * TINY[dtype]).astype(x.dtype)
        place = getattr(module, f"place_of_max_{dtype}")(few)
        assert int(np.asarray(place)) in range(3)
        slope = np.asarray(getattr(module, f"slope_of_max_{dtype}")(few))
        np.testing.assert_allclose(slope.sum(), 1, 1e-6)
