"""Random Python programs on sizes are what Python makes of them, or refused.

`python -m benchmarks.fuzz.sizes` draws more.
"""

import pytest

from benchmarks.fuzz.evaluated import without_compiler
from benchmarks.fuzz.sizes import WAYS, Program, check, random_program


@pytest.mark.parametrize("seed", range(30))
def test_programs_on_sizes_are_what_python_makes_of_them(seed):
    with without_compiler():
        outcomes = dict(check(random_program(seed)))
    assert set(outcomes) == set(WAYS)
    assert set(outcomes.values()) <= {"right", "refused"}


def test_a_wrong_answer_is_noticed():
    source = "def program(x, y):\n    return np.sum(x) + isinstance(x.shape[0], int)\n"
    calls = ((2, 3, 1), (4, 3, 1))
    with without_compiler():
        outcomes = dict(check(Program(0, source, ({}, {}, {}), calls)))
    assert {way: text.partition(" ")[0] for way, text in outcomes.items()} == {
        way: "gives" for way in WAYS
    }
