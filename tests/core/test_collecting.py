"""Garbage is collected rarely within a block, and as before after it."""

import gc

import pytest

from aotc.core.collecting import THRESHOLD, collecting_rarely


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_thresholds_are_those_of_before_after_the_outermost_block():
    gc.set_threshold(700, 11, 12)
    with pytest.raises(ValueError), collecting_rarely():  # noqa: PT011, PT012
        with collecting_rarely():
            assert gc.get_threshold() == (THRESHOLD, 11, 12)
        assert gc.get_threshold() == (THRESHOLD, 11, 12)
        raise ValueError
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("youngest", [0, 10 * THRESHOLD])
def test_who_collects_never_or_more_rarely_goes_on_so(youngest):
    gc.set_threshold(youngest, 11, 12)
    with collecting_rarely():
        assert gc.get_threshold() == (youngest, 11, 12)
