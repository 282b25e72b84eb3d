"""Observers: ranges of inputs, whatever the data is cut into."""

import numpy as np
import pytest

from aotc.quantization.grids import fake_input
from aotc.quantization.observers import METHODS, ValueHistogram, input_grid

RNG = np.random.default_rng(0)


def histogram(*parts):
    """What is seen of some arrays."""
    found = ValueHistogram()
    for part in parts:
        found.add(part)
    return found


def grid(seen, method):
    """The grid by a method."""
    return input_grid(seen, method, 99.9)


def test_histogram_is_the_same_however_the_data_is_cut():
    x = (RNG.standard_normal(10_000) * np.geomspace(1e-3, 40, 10_000)).astype("f")
    whole, parts = histogram(x), histogram(*np.array_split(x, 17))
    assert whole.end == parts.end
    assert np.array_equal(whole.counts, parts.counts)
    assert (whole.low, whole.high) == (x.min(), x.max())
    assert whole.counts.sum() == x.size
    below = whole.counts[: len(whole.counts) // 2].sum()
    assert below == (x < 0).sum()


def test_what_is_no_number_is_not_counted():
    seen = histogram(np.array([np.nan, np.inf, -np.inf, 1, 0], "f"))
    assert seen.counts.sum() == 2
    assert (seen.low, seen.high) == (0, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("x", [np.zeros(0), np.zeros(9), np.full(9, -3.0)])
def test_degenerate_inputs_have_a_grid_that_holds_them(method, x):
    found = grid(histogram(x.astype("f")), method)
    assert found.scale > 0
    assert 0 <= found.zero_point <= 255
    assert np.abs(fake_input(x.astype("f"), found) - x).max(initial=0) <= 0.02


@pytest.mark.parametrize("method", METHODS)
def test_zero_is_a_value_of_every_grid(method):
    for x in (RNG.uniform(2, 3, 999), RNG.uniform(-3, -2, 999), RNG.normal(0, 1, 999)):
        found = grid(histogram(x.astype("f")), method)
        assert fake_input(np.zeros(1, "f"), found) == 0


def test_methods_trade_an_outlier_for_the_rest():
    x = RNG.standard_normal(100_000).astype("f")
    x[0] = 400
    grids = {method: grid(histogram(x), method) for method in METHODS}
    squares = {
        name: np.square(fake_input(x, found) - x) for name, found in grids.items()
    }
    rest = {name: square[1:].mean() for name, square in squares.items()}
    assert rest["percentile"] < rest["entropy"] < rest["min-max"] / 4, rest
    whole = {name: square.mean() for name, square in squares.items()}
    assert min(whole, key=whole.get) == "mean-square", whole


def test_grid_of_positive_numbers_wastes_no_steps_on_negative_ones():
    found = grid(histogram(RNG.uniform(0, 5, 999).astype("f")), "min-max")
    assert found.zero_point == 0
    assert found.scale == pytest.approx(5 / 255, rel=0.01)
