"""Elements that jump where rounding carries a number past a kink or a middle."""

import numpy as np
import pytest

from aotc.checks.judging import Rounding, judge

BLOCKS, SIZE = 40, 5  # one number that jumps moves a block of elements
NOISE, JUMP = 1e-6, 1e-4


def expected():
    return np.linspace(0.5, 1, BLOCKS * SIZE).astype("f4").reshape(BLOCKS, SIZE)


def noisy(rng, jumps):
    """The gradient of a relu: all is moved a little, and one block much."""
    found = expected() + rng.uniform(-NOISE, NOISE, (BLOCKS, SIZE)).astype("f4")
    found[rng.integers(BLOCKS)] += np.float32(JUMP * jumps)
    return found


def verdict(found, jumps=1, others=None):
    """The verdict on an array, and those on further ones."""
    rng = np.random.default_rng(4)
    results = [expected(), *[x for x, _ in others or []]]

    def evaluate(_):
        return [noisy(rng, jumps), *[x for x, _ in others or []]]

    rounding = Rounding(results, evaluate)
    founds = [found, *[x for _, x in others or []]]
    return [x.passed for x in judge([""] * len(results), founds, results, rounding)]


def moved(size, count=SIZE):
    found = expected()
    found.reshape(-1)[7 : 7 + count] += np.float32(size)
    return found


@pytest.mark.parametrize(
    ("size", "count", "jumps", "passes"),
    [
        (0.5 * JUMP, SIZE, 1, True),  # as a run that is not among those drawn
        (0.5 * JUMP, SIZE, 0, False),  # no run jumps
        (10 * JUMP, SIZE, 1, False),  # further than any jumps
        (0.5 * JUMP, 20 * SIZE, 1, False),  # more than any run moves
    ],
)
def test_few_elements_may_jump_no_further_than_those_of_noisy_runs(
    size, count, jumps, passes
):
    assert verdict(moved(size, count), jumps) == [passes]


def test_a_result_may_jump_where_another_one_of_the_call_does_but_not_a_number():
    steady = expected(), moved(0)
    assert verdict(moved(0.5 * JUMP), others=[steady]) == [True, True]
    number = np.float32(1), np.float32(1 + 1e-4)
    assert verdict(moved(0.5 * JUMP), others=[number]) == [True, False]
