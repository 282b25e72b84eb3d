"""The calls of a replay stand for the traffic, and are the same for a seed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from aotc.evidence.requests import draw_requests
from aotc.traffic import Traffic

counts = st.dictionaries(
    st.tuples(st.integers(0, 99)), st.integers(1, 10**15), min_size=1, max_size=30
)


@given(counts, st.integers(1, 500), st.integers(0, 99))
def test_each_size_comes_as_often_as_its_share(counts, count, seed):
    traffic = Traffic(("n",), counts)
    requests = draw_requests(traffic, count, seed, {"m": 7})
    assert len(requests.order) == count
    drawn = Counter(requests.sizes[place]["n"] for place in requests.order)
    assert len(requests.sizes) == len(drawn)
    assert all(each["m"] == 7 for each in requests.sizes)
    for (size,), recorded in counts.items():
        whole, rest = divmod(recorded * count, traffic.calls)
        assert whole <= drawn[size] <= whole + (rest > 0)


def test_as_many_as_were_recorded_are_just_these_in_another_order():
    traffic = Traffic(("n",), {(1,): 50, (2,): 30, (9,): 1})
    requests = draw_requests(traffic, 81, 3, {})
    sizes = [requests.sizes[place]["n"] for place in requests.order]
    assert Counter(sizes) == {1: 50, 2: 30, 9: 1}
    assert sizes != sorted(sizes)
    assert requests == draw_requests(traffic, 81, 3, {})
    assert requests.order != draw_requests(traffic, 81, 4, {}).order
