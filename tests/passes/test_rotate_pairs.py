"""rotate-pairs: a rotation of pairs of features is one sum of two products."""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn

ALL = ("inline", "simplify", "cse", "rotate-pairs", "simplify", "cse")
X = "f32[n, 5, 3, 8]"
RNG = np.random.default_rng(1)
COSINES, SINES = RNG.normal(size=(2, 5, 1, 8)).astype("f")


def turned(x, sign=1.0):
    """The halves of the last axis, the other way round, one of them negative."""
    first, second = anp.split(x, 2, -1)
    return anp.concatenate([-second, first] if sign > 0 else [second, -first], -1)


def by_halves(x, cosines, sines):
    first, second = anp.split(x, 2, -1)
    left = first * cosines - second * sines
    return anp.concatenate([left, second * cosines + sines * first], -1)


def partly(x):
    first, second = x[..., :8], x[..., 8:]
    return anp.concatenate([first * COSINES + turned(first) * SINES, second], -1)


def by_heads(x):
    """As PyTorch has it: batch, heads, length, depth."""
    x = anp.swapaxes(x, 1, 2)
    return anp.swapaxes(x * COSINES[:, 0] + turned(x) * SINES[:, 0], 1, 2)


def along_axis(x):
    first, second = x[:, :2], x[:, 2:4]
    parts = [first * 0.6 - second * SINES[:2], second * 0.6 + first * SINES[:2]]
    return anp.concatenate(parts, 1)


ROTATIONS = {
    "a whole": (lambda x: x * COSINES + turned(x) * SINES, ()),
    "a whole, the table first": (lambda x: SINES * turned(x) + COSINES * x, ()),
    "back": (lambda x: x * COSINES + turned(x, -1.0) * SINES, ()),
    "less what is turned": (lambda x: x * COSINES - turned(x, -1.0) * SINES, ()),
    "negative": (lambda x: -(x * COSINES) - turned(x) * SINES, ()),
    "one number": (lambda x: x * 0.8 + turned(x) * 0.6, ()),
    "halves": (lambda x: by_halves(x, COSINES[..., :4], SINES[..., 4:]), ()),
    "halves of one number": (lambda x: by_halves(x, 0.8, SINES[..., 4:]), ()),
    "by positions": (nn.rotary_embedding, ()),
    "by heads": (by_heads, ()),
    "along another axis": (along_axis, ()),
    "by tables of a call": (
        lambda x, c, s: x * c + turned(x) * s,
        ("f32[n, 5, 1, 8]", "f32[5, 1, 8]"),
    ),
    "halves by tables of a call": (by_halves, ("f32[5, 1, 4]", "f32[1, 1, 4]")),
}


@pytest.mark.parametrize("name", ROTATIONS)
def test_a_rotation_concatenates_no_results(model, name):
    function, more = ROTATIONS[name]
    made = model(function, X, *more, symbols=("n",))
    keeps_all_bits_under(made, *ALL)
    assert made.ops.count("concatenate") <= 2
    assert "subtract" not in made.ops
    assert not made.run("rotate-pairs")
    assert made.ops.count("add") == 1


def keeps_all_bits_under(made, *passes):
    inputs = made.inputs()
    (before,) = made(*inputs)
    assert made.run(*passes[: passes.index("rotate-pairs") + 1])
    made.run(*passes)
    np.testing.assert_array_equal(made(*inputs)[0], before)


def test_what_is_not_turned_stays(model):
    made = model(partly, "f32[n, 5, 3, 12]", symbols=("n",))
    keeps_all_bits_under(made, *ALL)
    assert made.ops.count("concatenate") == 1
    assert made.ops[-1] == "concatenate"


def test_what_is_turned_may_have_other_readers(model):
    made = model(
        lambda x: (by_halves(x, COSINES[..., :4], 0.5), anp.exp(x[..., 4:])),
        "f32[2, 5, 3, 8]",
    )
    made.keeps_meaning_under(*ALL)


def read_between(x):
    other = turned(x)
    return x * COSINES + other * SINES, other


def two_values(x, y):
    first, second = x[..., :4], y[..., 4:]
    parts = [first * 0.6 - second * 0.8, second * 0.6 + first * 0.8]
    return anp.concatenate(parts, -1)


def three_terms(x):
    first, second = x[..., :4], x[..., 4:]
    left = first * 0.6 - second * 0.8 + first * 0.1
    return anp.concatenate([left, second * 0.6 + first * 0.8], -1)


def shifted(x, y):
    """A rotation, and what is no product besides."""
    first, second = anp.split(x, 2, -1)
    left = first * COSINES[..., :4] - second * SINES[..., :4] + anp.tanh(y)
    return anp.concatenate([left, second * 0.6 + first * 0.8 - anp.exp(y)], -1)


def doubled(x):
    """2**40 paths lead through sums to a product."""
    y = x * 0.6
    for _ in range(40):
        y = y + y
    return anp.concatenate([y, y], -1)


def long_sum(x):
    """So many terms that nothing may call itself for each."""
    y = x
    for number in range(1200):
        y = y + x * float(number)
    return anp.concatenate([y, x], -1)


OTHERS = {
    "read between": (read_between, ()),
    "of two values": (two_values, (X,)),
    "of unequal parts": (
        lambda x: x * COSINES + anp.concatenate([-x[..., 6:], x[..., :6]], -1) * SINES,
        (),
    ),
    "of one half twice": (
        lambda x: x * COSINES + anp.concatenate([x[..., :4], x[..., :4]], -1) * SINES,
        (),
    ),
    "of three terms": (three_terms, ()),
    "shifted": (shifted, (X.replace("8", "4"),)),
    "doubled": (doubled, ()),
    "of many terms": (long_sum, ()),
    "neighbours": (lambda x: nn.rotary_embedding(x, interleaved=True), ()),
    "by tables as large": (lambda x, c: x * c + turned(x) * SINES, (X,)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_leaves_what_is_no_rotation_alone(model, name):
    function, more = OTHERS[name]
    made = model(function, "f32[2, 5, 3, 8]", *[x.replace("n", "2") for x in more])
    made.keeps_meaning_under("inline", "simplify", "cse")
    assert not made.run("rotate-pairs")
