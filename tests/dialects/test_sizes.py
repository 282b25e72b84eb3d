"""Sizes compute, compare, bound and print as the integers that they stand for."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc.artifacts.shapes import SizeExpression
from aotc.dialects import context
from aotc.dialects.functions.symbol_solver import solve_symbols
from aotc.dialects.sizes import affine
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import (
    SymbolicDim,
    Tensor,
    bounds,
    ceil_divide,
    evaluate_size,
    maximum,
    minimum,
    quotient,
    same_count,
    shape_map,
    shape_of_map,
)
from aotc.errors import InputError

CONTRACTS = [Contract("n"), Contract("m", 2, 9), Contract("k", 4, 16, multiple_of=4)]
VALUES = st.tuples(
    st.integers(1, 30), st.integers(2, 9), st.integers(1, 4).map(lambda i: 4 * i)
)


@pytest.fixture(autouse=True)
def _known():
    with context(), known_contracts(CONTRACTS):
        yield


def sizes():
    """The sizes called n, m and k."""
    return SymbolicDim.symbol(0), SymbolicDim.symbol(1), SymbolicDim.symbol(2) * 4


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "ceil": lambda a, b: -(-a // b),
    "padded": lambda a, b: -(-a // b * b),
    "exact": lambda a, b: (a * b) // b + (a * b) % b,
    "min": lambda a, b: minimum(a, b),
    "max": lambda a, b: maximum(a, b),
}

# trees of operations: (name, left, right); leaves are numbers or places of a symbol
leaves = st.integers(0, 6) | st.sampled_from(["n", "m", "k"])
trees = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(st.sampled_from(["+", "-", "min", "max"]), inner, inner)
        | st.tuples(
            st.sampled_from(["*", "//", "%", "ceil", "padded", "exact"]),
            inner,
            st.integers(1, 4),
        )
    ),
    max_leaves=8,
)


def computed(tree, leaf):
    """The tree over sizes or numbers."""
    if not isinstance(tree, tuple):
        return leaf.get(tree, tree)
    name, left, right = tree
    return OPERATIONS[name](computed(left, leaf), computed(right, leaf))


@settings(max_examples=200, deadline=None)
@given(trees, st.lists(VALUES, min_size=1, max_size=4))
def test_an_expression_of_sizes_is_that_of_their_values(tree, drawn):
    size = computed(tree, dict(zip("nmk", sizes(), strict=True)))
    low, high = bounds(size)
    text = SizeExpression.parse(str(size))
    assert shape_of_map(shape_map((size,))) == (size,)
    for n, m, k in drawn:
        names = {"n": n, "m": m, "k": k}
        value = computed(tree, names)
        assert evaluate_size(size, [n, m, k // 4]) == value
        assert low <= value <= high
        assert text.value(names) == value


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["//", "%", "ceil"]), trees, VALUES)
def test_a_quotient_has_bounds_where_no_contract_says_that_its_divisor_is_not_0(
    name, tree, values
):
    named = dict(zip("nmk", values, strict=True))
    numerator = computed(tree, dict(zip("nmk", sizes(), strict=True)))
    quotient_size = OPERATIONS[name](numerator, SymbolicDim.symbol(1))
    with known_contracts([]):
        low, high = bounds(quotient_size)
    assert low <= OPERATIONS[name](computed(tree, named), named["m"]) <= high


def test_equal_sizes_are_equal_however_they_were_computed():
    n, m, _ = sizes()
    assert maximum(n, m) == maximum(m, n) != minimum(n, m)
    assert maximum(n, m) + minimum(n, m) == n + m
    assert minimum(n, 3) + maximum(n - 3, 0) == n
    assert maximum(2 * n, 6) == 2 * maximum(n, 3)
    assert maximum(maximum(n - 2, 0) - 1, 0) == maximum(n - 3, 0)
    assert -(-n // 4) == ceil_divide(n, 4) == (n + 3) // 4
    assert -(-n // 4 * 4) == ceil_divide(n, 4) * 4
    assert -(-n // m * m) == ceil_divide(n, m) * m
    assert ceil_divide(n, 8) * 8 // ceil_divide(n, 8) == 8
    assert ceil_divide(n, 8) * 8 % ceil_divide(n, 8) == 0
    assert (n * m * 4) // (m * 2) == n * 2
    assert -n // 8 + ceil_divide(n, 8) == 0
    assert n * m == m * n
    assert (n * m) // m == n
    assert hash(n + 1) == hash(1 + n)


def test_contracts_decide_comparisons_minima_and_maxima():
    n, m, k = sizes()
    assert n >= 1
    assert not n < 1
    assert m > 1
    assert k <= 16
    assert n
    assert minimum(m, 9) == m
    assert maximum(m, 2) == m
    assert minimum(n - n // 2, 1) == 1
    assert n // 2 <= n
    with known_contracts(()):
        assert minimum(m, 9) != m
    for undecided in (
        lambda: n > 1,
        lambda: n < m,
        lambda: bool(n - 1),
        lambda: [0][n],
    ):
        with pytest.raises(InputError) as caught:
            undecided()
        assert caught.value.code == "symbolic-size"
    with pytest.raises(InputError, match="cannot divide the size 'n' by 'n - 1'"):
        n // (n - 1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda n, m, k: k, "k"),
        (lambda n, m, k: k * 2 + 1, "k * 2 + 1"),
        (lambda n, m, k: k // 2, "k // 2"),
        (lambda n, m, k: k // 3 * 2, "(k // 3) * 2"),
        (lambda n, m, k: (n + 1) // 2 * 3 - m, "((n + 1) // 2) * 3 - m"),
        (lambda n, m, k: 3 - n, "3 - n"),
        (lambda n, m, k: -(-n // 8 * 8), "((n + 7) // 8) * 8"),
        (lambda n, m, k: n * m * 2, "n * m * 2"),
        (lambda n, m, k: (n + 1) * (m % 3), "(n + 1) * (m % 3)"),
        (lambda n, m, k: minimum(n, 3), "min(n, 3)"),
        (lambda n, m, k: maximum(n, m) * m, "max(n, m) * m"),
        (lambda n, m, k: minimum(maximum(n - 2, 0), 3), "min(max(n - 2, 0), 3)"),
    ],
)
def test_sizes_are_shown_by_the_names_of_their_symbols(make, text):
    assert str(make(*sizes())) == text


def test_shapes_divide_by_common_factors():
    n, m, k = sizes()
    assert quotient((n, m, 4), (m, 2)) == n * 2
    assert quotient((n * m, 3), (3, n)) == m
    assert quotient((k, 3), (2,)) == (k // 4) * 6
    assert quotient((2 * n + 2,), (n + 1,)) == 2
    assert quotient((n,), (4,)) is None
    assert quotient((n, 0), (0,)) is None
    assert same_count((k,), (k // 4, 4))
    assert same_count((n + n * m,), (n * (m + 1),)) is False  # not multiplied out


def test_symbols_are_solved_from_sizes_that_are_linear_in_them():
    n, m, k = sizes()
    types = [Tensor((2 * n + m, k), "f32"), Tensor((m - 1, n * n), "f32")]
    found = {b.symbol: b for b in solve_symbols(types)}
    values = [0, 0, 0]
    arrays = [np.zeros((2 * 5 + 7, 8)), np.zeros((6, 25))]
    for b in solve_symbols(types):
        size = arrays[b.input].shape[b.axis]
        values[b.symbol] = (size - evaluate_size(b.rest, values)) // b.factor
    assert values == [5, 7, 2]
    assert found[2].factor == 4
    assert not solve_symbols([Tensor((n * n, n + m), "f32")])
    assert not solve_symbols([Tensor((n // 2, minimum(m, 3)), "f32")])


def test_a_product_is_one_size_in_whatever_order_it_is_written():
    """What sizes are of a shape is written and read again, and broadcast to."""
    four = [SymbolicDim.symbol(i) for i in range(4)]
    expected = 6 * four[0] * four[1] * four[2] * four[3]
    for a, b, c, d in itertools.permutations(four):
        assert (a * 2) * (b * (c * 3)) * d == expected
        assert a * ((b * 6) * (c * d)) == expected
        assert a * b * c + d == d + c * b * a
        assert shape_of_map(shape_map((a * b * c,))) == (c * (a * b),)


def test_iree_misjudges_sums_whose_negative_terms_share_a_factor_as_unsigned() -> None:
    n, m, _ = sizes()
    wrong = [n * 3 - 1, n * 3 - m, (n * 5 - 1) // 2, n * 6 - 1, n * 3 - 4]
    right = [n - 1, n * 2 - 1, n * 3 + 1, n * 3 - 3, n * 4 - 2, n // 3, n * m - m]
    assert all(affine.is_misjudged(size.expr) for size in wrong)
    assert not any(affine.is_misjudged(size.expr) for size in right)


@given(VALUES, st.lists(st.integers(-9, 9), min_size=3, max_size=3))
def test_a_difference_of_two_sums_is_the_size(values, factors) -> None:
    size = sum((s * f for s, f in zip(sizes(), factors, strict=True)), start=-7)
    if isinstance(size, SymbolicDim):
        added, taken = map(SymbolicDim, affine.as_difference(size.expr))
        known = [values[0], values[1], values[2] // 4]
        left, right = (evaluate_size(each, known) for each in (added, taken))
        assert left - right == evaluate_size(size, known)
        assert min(left, right) >= 0
