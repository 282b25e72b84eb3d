"""What importers compute of sizes holds for every call that the contracts allow."""

import math
import operator
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc.dialects import context
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import SymbolicDim, evaluate_size
from aotc.errors import InputError
from aotc.importers.common import known_sizes
from aotc.importers.common.scaling import rounding

CONTRACTS = [Contract("n"), Contract("m", 2, 9), Contract("k", 4, 16, multiple_of=4)]
CALLS = [(n, m, k) for n in (1, 2, 3, 7, 40) for m in range(2, 10) for k in range(1, 5)]


@pytest.fixture(autouse=True)
def _known():
    with context(), known_contracts(CONTRACTS):
        yield


def decided(function, *sizes):
    """The result; None where the contracts do not decide it."""
    with suppress(InputError):
        return function(*sizes)
    return None


def truncated(a, b):
    return math.trunc(Fraction(a, b))


# what each function of sizes is of integers
INTEGERS = {
    known_sizes.divide: truncated,
    known_sizes.remainder: lambda a, b: a - b * truncated(a, b),
    known_sizes.modulo: operator.mod,
    known_sizes.is_equal: operator.eq,
    known_sizes.is_different: operator.ne,
}
NUMBERS = st.integers(-20, 20)


@st.composite
def sizes(draw):
    """A number, or a sum of n, m and k: as small ones as decide something."""
    a, b, c = (draw(st.sampled_from([-1, 0, 0, 1, 3])) for _ in range(3))
    n, m, k = (SymbolicDim.symbol(i) for i in range(3))
    return n * a + m * b + k * 4 * c + draw(NUMBERS)


@pytest.mark.parametrize("function", INTEGERS, ids=lambda f: f.__name__)
@given(a=sizes(), b=sizes() | NUMBERS)
@settings(max_examples=100, deadline=None)
def test_what_is_decided_of_sizes_holds_for_all_that_they_can_be(function, a, b):
    found = decided(function, a, b)
    assert (
        found is not None
        or b == 0
        or isinstance(a, SymbolicDim)
        or isinstance(b, SymbolicDim)
    )
    if found is None:
        return
    for call in CALLS:
        x, y = evaluate_size(a, call), evaluate_size(b, call)
        value = found if isinstance(found, bool) else evaluate_size(found, call)
        assert value == INTEGERS[function](x, y), (a, b, call)


@given(a=sizes())
@settings(max_examples=100, deadline=None)
def test_a_sign_that_is_decided_is_that_of_all_sizes(a):
    found = decided(known_sizes.sign, a)
    assert found is not None or isinstance(a, SymbolicDim)
    signs = {np.sign(evaluate_size(a, call)) for call in CALLS}
    assert found is None or signs == {found}


def test_decides_what_the_contracts_do():
    n, m, k = SymbolicDim.symbol(0), SymbolicDim.symbol(1), SymbolicDim.symbol(2) * 4
    assert known_sizes.is_equal(n + m, m + n)
    assert known_sizes.is_different(m, 10)
    assert known_sizes.sign(m - 1) == 1
    assert known_sizes.divide(k * n, k) == n
    assert known_sizes.remainder(k, 4) == 0
    with pytest.raises(InputError, match="'m == 9' depends on the sizes"):
        known_sizes.is_equal(m, 9)


@given(value=st.integers(-(2**70), 2**70), dtype=st.sampled_from(["i1", "i4", "i8"]))
def test_wraps_as_integers_of_that_width(value, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    low = np.array(value % 2**bits, f"u{dtype[1:]}").view(dtype)
    assert known_sizes.wrap(value, bits) == int(low)


def test_numbers_that_are_not_whole_are_no_sizes():
    assert known_sizes.whole(4.0) == 4
    with pytest.raises(InputError, match="symbolic-size"):
        known_sizes.whole(2.5)
    up = rounding(math.ceil)
    assert (up(2.5), up(-2.5), up(3), up(math.inf)) == (3, -2, 3, math.inf)
    assert up(SymbolicDim.symbol(0)) == SymbolicDim.symbol(0)


def test_functions_of_sizes_broadcast_over_arrays():
    n = SymbolicDim.symbol(0)
    sizes = np.array([[n, 7], [-7, 2 * n]], object)
    twice = known_sizes.elementwise(known_sizes.divide)(sizes[1:], np.array(2, object))
    assert twice.tolist() == [[-3, n]]
    chosen = known_sizes.select(np.array([True, False], object), sizes, 0)
    assert chosen.tolist() == [[n, 0], [-7, 0]]
