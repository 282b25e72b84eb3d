"""rematerialize: what is computed again is chosen alike in each process."""

from itertools import permutations
from types import SimpleNamespace

from aotc.passes import rematerialize


def test_no_order_of_the_values_that_are_lost_changes_what_they_cost():
    def seconds(work):
        walk = object.__new__(rematerialize._RematerializationWalk)
        walk._values = SimpleNamespace(work=(1.0, *work), place=range(len(work) + 1))
        return walk._lost_seconds(0, lambda value: set() if value else {1, 2, 3})

    assert len({seconds(order) for order in permutations((1e16, 1.0, 1.0))}) == 1
