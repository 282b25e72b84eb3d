"""Kernels that read at indices, and that find the first few of rows."""

from __future__ import annotations

import numpy as np
import pytest

from aotc import reference
from aotc.checks.kernel_check import EvaluatedKernels
from aotc.errors import CompileError

from .building import evaluated
from .comparing import kernels_of, left, require_equal, sizes_of, traced

pytestmark = pytest.mark.usefixtures("with_triton")

# how many launches of kernels a call has, and ops that are left to IREE
GATHERED = dict.fromkeys(
    ("embedded", "filled", "of_sequences", "by_two", "flags"), (1, 0)
)
SELECTED = dict.fromkeys(("between", "long", "routed", "several"), (1, 0))
SELECTED |= {"sampled": (1, 1), "chosen": (2, 1)}
FILES = {"gathered.py": GATHERED, "selected.py": SELECTED}


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file in FILES for name in FILES[file]]
)
def test_lookups_and_first_places_are_kernels_and_right(file: str, name: str) -> None:
    found = left(kernels_of(file), name)
    own, rest = FILES[file][name]
    assert found["movement"] + found["selection"] == own
    assert found.total() - own == rest, found
    for size in sizes_of(file, name):
        require_equal(file, name, size)


def odd_calls(name: str) -> list[list[np.ndarray]]:
    """Calls with indices that are not there, and with ties and what is no number."""
    rng = np.random.default_rng(0)
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1, 1e-40, -np.nan], "f4")
    if name == "embedded":
        at = np.array([[0, 89, 90, -90, -91, 2**40, -(2**40), 5]] * 4, "i8")
        words = np.arange(90 * 96, dtype="f4").reshape(90, 96) / 9000
        return [[words, np.zeros((8, 96), "f4"), at]]
    if name == "filled":
        at = np.array([0, 24, 25, 127, 128, 150, 255] * 9, "u1")
        return [[np.full((50, 70), np.inf, "f2"), at]]
    if name == "of_sequences":
        at = np.tile(np.array([-3, 7, 0, 2**31 - 1], "i4"), (3, 16))
        return [[np.ones((3, count, 8, 32), "f4"), at] for count in (0, 1)]
    if name == "flags":
        x, at = np.arange(3000) % 2 > 0, rng.integers(-4000, 4000, (70, 80))
        at[0, 0] = -1
        return [[x, at]]
    if name in ("sampled", "chosen"):
        x = rng.choice(odd, (40, 700))
        x[0], x[1], x[2] = np.nan, -np.inf, 0.0
        x[3] = np.where(rng.random(700) < 0.5, 0.0, -0.0)
        is_long = name == "sampled"
        return [[x, np.array(1, "f4")]] if is_long else [[x[:, :300].astype("f2")]]
    x = rng.choice(odd[[0, 1, 3, 5]], (5 if name == "long" else 2, 4200))
    x[0, 4199] = np.nan
    return [[x]]


ODD = ("embedded", "filled", "of_sequences", "flags", "sampled", "chosen", "long")


def file_of(name: str) -> str:
    return next(file for file, entries in FILES.items() if name in entries)


@pytest.mark.parametrize("name", [*ODD, "several"])
def test_odd_calls_give_what_the_dialect_says(name: str) -> None:
    """The nearest row, or zeros; the first of ties, and of what is no number."""
    require_same(kernels_of(file_of(name)), name)


def require_same(kernels: EvaluatedKernels, name: str) -> None:
    """Compare what kernels and the reference give: positions to the bit."""
    for arrays in odd_calls(name):
        found, _ = kernels.call(name, arrays)
        wanted = reference.evaluate(traced(file_of(name)).module, name, arrays)
        for x, y in zip(found, wanted, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def require_small(kernels: EvaluatedKernels, name: str) -> None:
    """Compare what they give of random arrays."""
    require_equal(file_of(name), name, 19, kernels)


# ---- faults that are planted --------------------------------------------------------

_PROGRAM = '"tt.get_program_id"() <{axis = 0 : i32}>'
_FIRST = '"arith.constant"() <{value = 0 : i32}>'


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        # indices that are not brought to the nearest one, and another table's size
        ("embedded", '"arith.minsi"', '"arith.maxsi"', "which has"),
        ("flags", "value = 3000 : i32", "value = 3001 : i32", "which has"),
        ("flags", "value = 3000 : i32", "value = 2999 : i32", "Mismatched"),
        # rows beyond the end, elements that nothing writes, or all programs do
        ("flags", "value = 5600 : i32", "value = 5601 : i32", "which has"),
        ("flags", "value = 5600 : i32", "value = 5599 : i32", "never"),
        ("by_two", _PROGRAM, _FIRST, "program 0 writes"),
        # a table that is the result, of which nothing is known yet
        ("flags", '"tt.splat"(%0)', '"tt.splat"(%2)', "before it is known"),
        # another order, an element that is found twice, another row
        ("chosen", '"arith.minui"', '"arith.maxui"', "nan location"),
        ("several", "predicate = 9 : i64", "predicate = 8 : i64", "Mismatched"),
        ("long", "value = 4200 : i32", "value = 4201 : i32", "which has"),
        ("between", _PROGRAM, _FIRST, "program 0 writes"),
    ],
)
def test_planted_faults_are_found(
    name: str, before: str, after: str, told: str
) -> None:
    """Reads out of bounds and of nothing, races, and results that are wrong."""
    kernels = evaluated(np.inf, {before: after}, file_of(name))
    compare = require_same if name in (*ODD, "several") else require_small
    with pytest.raises((AssertionError, CompileError), match=told):
        compare(kernels, name)
