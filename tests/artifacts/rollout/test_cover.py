"""The smallest set of targets for a fleet."""

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from aotc.artifacts.rollout.cover import Demand, smallest_cover

NAMES = "abcdefg"
DEVICES = st.dictionaries(
    st.lists(st.sampled_from(NAMES), max_size=4, unique=True).map(tuple),
    st.integers(1, 9),
    max_size=8,
)
DEMANDS = st.builds(Demand, DEVICES, st.integers(0, 12))


def left_out(chosen, demand):
    served = (t for t in demand.devices if set(t) & set(chosen))
    return sum(demand.devices.values()) - sum(demand.devices[t] for t in served)


def meets(chosen, demand):
    """Enough is served, or whatever can be."""
    return left_out(chosen, demand) <= max(demand.spare, left_out(NAMES, demand))


def cost(chosen, fleet):
    slowness = sum(
        count * min(targets.index(t) for t in targets if t in chosen)
        for targets, count in fleet.devices.items()
        if set(targets) & set(chosen)
    )
    return left_out(chosen, fleet), slowness


def all_sets():
    return chain.from_iterable(combinations(NAMES, k) for k in range(len(NAMES) + 1))


@given(DEMANDS, st.lists(DEMANDS, max_size=3), st.sets(st.sampled_from(NAMES)))
def test_no_smaller_set_meets_all_demands_and_none_as_small_is_better(
    fleet, parts, present
):
    found = smallest_cover(fleet, parts, present)
    assert present.isdisjoint(found)
    covers = [
        chosen
        for chosen in all_sets()
        if all(meets({*chosen, *present}, demand) for demand in (fleet, *parts))
    ]
    least = min(map(len, covers))
    assert found in covers
    assert len(found) == least
    costs = [cost({*c, *present}, fleet) for c in covers if len(c) == least]
    assert cost({*found, *present}, fleet) == min(costs)


@given(DEMANDS)
def test_a_demand_is_feasible_if_all_targets_meet_it(demand):
    assert demand.is_feasible == (left_out(NAMES, demand) <= demand.spare)
