"""The self-check of a build catches faults that are planted in the code generator.

A part of `python -m benchmarks.planted_faults`, with those that only inputs with
structure show.
"""

import pytest

from benchmarks.planted_faults.faults import FAULTS
from benchmarks.planted_faults.hostile import PROGRAMS
from benchmarks.planted_faults.planting import outcomes, rounds_of

SHOWN_BY_STRUCTURE = [
    "a block is skipped by the first vector of its mask",
    "a norm has no epsilon",
    "ties are in the opposite order",
    "halves are rounded up, not to even",
    "the sign of 0 is 1",
    "the last row of a table is not reached",
    "the last position of a cache is not reached",
    "the last of equal elements is the greatest",
]


def test_there_are_faults_of_all_families():
    from aotc.kernels.families import FAMILIES

    assert {fault.family for fault in FAULTS} == {*FAMILIES, "IREE"}
    assert len(FAULTS) >= 40
    assert len(PROGRAMS) == 100


def test_what_faults_replace_is_there():
    assert not [x.says for x in FAULTS if not hasattr(x.owner, x.name)]


def test_faults_that_meet_are_not_planted_together():
    for group in rounds_of(FAULTS):
        spoiled = [name for fault in group for name in fault.spoils]
        assert len(spoiled) == len(set(spoiled))
        assert len({fault.entry for fault in group}) == len(group)


_chosen = [fault for fault in FAULTS if fault.says in SHOWN_BY_STRUCTURE]


def test_faults_that_structure_shows_are_caught():
    (group,) = rounds_of(_chosen)
    assert not [str(each) for each in outcomes(group) if not each.is_caught]


@pytest.mark.slow
@pytest.mark.parametrize("group", rounds_of([f for f in FAULTS if f not in _chosen]))
def test_all_other_faults_are_caught(group):
    assert not [str(each) for each in outcomes(group) if not each.is_caught]
