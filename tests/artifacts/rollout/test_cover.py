"""The smallest set of targets for a fleet."""

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from aotc.artifacts.rollout.cover import Need, smallest_cover

NAMES = "abcdefg"
NEEDS = st.lists(
    st.builds(
        Need,
        st.lists(st.sampled_from(NAMES), max_size=4, unique=True).map(tuple),
        st.integers(1, 9),
    ),
    max_size=8,
)


def serves(chosen, needs):
    return all(set(n.targets) & set(chosen) for n in needs if n.targets)


def slowness(chosen, needs):
    return sum(
        n.count * min(n.targets.index(t) for t in n.targets if t in chosen)
        for n in needs
        if n.targets
    )


def all_sets():
    return chain.from_iterable(combinations(NAMES, k) for k in range(len(NAMES) + 1))


@given(NEEDS)
def test_no_smaller_set_covers_and_none_as_small_is_faster(needs):
    found = smallest_cover(needs)
    covers = [chosen for chosen in all_sets() if serves(chosen, needs)]
    least = min(map(len, covers))
    assert serves(found, needs)
    assert len(found) == least
    best = min(slowness(chosen, needs) for chosen in covers if len(chosen) == least)
    assert slowness(found, needs) == best


@given(NEEDS, st.sets(st.sampled_from(NAMES), max_size=3))
def test_what_is_there_already_is_not_asked_for_again(needs, given):
    found = smallest_cover(needs, given)
    assert given.isdisjoint(found)
    covers = [c for c in all_sets() if serves({*c, *given}, needs)]
    assert len(found) == min(map(len, covers))
    assert serves({*found, *given}, needs)
