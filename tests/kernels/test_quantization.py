"""Kernels round to bytes as the graph says, whatever the numbers are."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.machine.target import Target
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "quantizations.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
LARGE = [2.0**22, 2.0**23 + 1, 2.0**24, 2.0**31, 2.0**33, 3e38, np.inf]
SPECIAL = [0.0, 2.0**-149, 0.49999997, *LARGE]


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, bundles):
    target = Target.parse(request.param)
    require_runs_here(target)
    return aotc.load(bundles(target), allow_unsigned=True)


def numbers(shape):
    """Numbers with ties, ends of ranges, infinities and NaN among them."""
    rng = np.random.default_rng(0)
    found = rng.integers(-600, 600, np.prod(shape)).astype("f") / 2
    special = np.array([sign * x for x in SPECIAL for sign in (-1, 1)] + [np.nan], "f")
    near = np.arange(-3, 3, 0.5, "f")
    near = [near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)]
    special = np.concatenate([special, *near])[: found.size]
    found[: len(special)] = special
    return rng.permutation(found).reshape(shape)


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("name", [entry.name for entry in load(MODEL).entries])
def test_bytes_are_those_of_the_reference(bundle, program, terms, name):
    entry = program.entry(name)
    inputs = {
        port.name: numbers(
            [n if isinstance(n, int) else 9 for n in port.type.shape]
        ).astype(dtypes.to_numpy(port.type.dtype))
        for port in entry.ports("input")
    }
    given = [inputs[each.name] for each in entry.arguments]
    expected = reference.evaluate(program.module, name, given)
    found = bundle.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    by_terms = terms.evaluate(name, inputs)
    for place, results in enumerate(zip(found, by_terms, expected, strict=True)):
        mine, theirs, right = results
        np.testing.assert_array_equal(mine, right, err_msg=f"result {place}")
        np.testing.assert_array_equal(theirs, right, err_msg=f"result {place}")


def test_each_quantisation_is_a_kernel(terms):
    functions = functions_of(terms.unit.module)
    counts = {"forms": 8, "other_forms": 2, "gated": 2, "symbolic": 3}
    counts |= {"of_bf16": 4, "of_f16": 4}
    for name, count in counts.items():
        calls = [
            op.attributes["callee"].value
            for op in functions[name].entry_block.operations
            if op.operation.name == "func.call"
        ]
        families = [fused_of(functions[each]).kernel for each in calls]
        assert families == ["quantization"] * count, name
