"""The axes that a reshape makes of others."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from aotc.dialects.movement.permutations import permute
from aotc.dialects.movement.reshaping import reshape_groups


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.booleans(), st.booleans())))
def test_groups_have_all_axes_and_as_many_elements_on_both_sides(parts):
    """Of shapes that merge neighbours of the same sizes, each in its own way."""
    old, new = ([1], [1])
    for size, joins_old, joins_new in parts:
        for shape, joins in ((old, joins_old), (new, joins_new)):
            if joins:
                shape[-1] *= size
            else:
                shape.append(size)
    groups = reshape_groups(tuple(old), tuple(new))
    for shape, side in zip((old, new), zip(*groups, strict=True), strict=True):
        assert [axis for axes in side for axis in axes] == [*range(len(shape))]
    for own, made in groups:
        assert prod(permute(old, own)) == prod(permute(new, made))


def test_groups_are_as_small_as_can_be():
    groups = reshape_groups((5, 2, 3, 4, 1), (5, 6, 2, 2))
    assert [(list(own), list(made)) for own, made in groups] == [
        ([0], [0]),
        ([1, 2], [1]),
        ([3, 4], [2, 3]),
    ]
