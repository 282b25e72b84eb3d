"""Conditions on sizes: what they say, and what is none."""

import pytest

from aotc.artifacts.conditions import Condition


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("n != m", True),
        ("n * m % 6 == 0 and not n == 2", False),
        ("1 < n < m", True),
        ("n // 2 == 1 or m == n", True),
        ("max(n, m) == 3 and min(n, -m) == -3", True),
        ("floor(n * 0.75) == 1 and ceil(m / 2) == 2", True),
        ("m % (n - 2) == 0", False),  # division by zero holds never
        ("not m % (n - 2) == 0", False),
    ],
)
def test_a_condition_holds_for_sizes(text, holds):
    assert Condition.parse(text).holds({"n": 2, "m": 3}) is holds


@pytest.mark.parametrize(
    "text",
    ["n", "n + 1", "n == [1]", "n is m", "f(n) > 1", "min(n) > 1", "n == 'a'"]
    + ["min == 1", "n.x == 1", "(n > 1) + 1", "n > 1 if m else n", "", "n ==", "\0"]
    + ["n == True", "n << 5 > 1", "x" * 3000, "(" * 500 + "n > 1" + ")" * 500],
)
def test_all_else_is_no_condition(text):
    with pytest.raises(ValueError, match="not a condition"):
        Condition.parse(text)


def test_terms_take_the_place_of_names():
    found = Condition.parse("n * m != k").substitute({"n": "a + 1", "k": "7"})
    assert str(found) == "(a + 1) * m != 7"
