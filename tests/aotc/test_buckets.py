"""Recorded traffic, and the buckets that pad its calls least."""

from itertools import combinations
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.dialects.sizes.contracts import Contract
from aotc.errors import InputError
from aotc.pipeline.buckets import Buckets, choose_buckets
from aotc.traffic import Traffic

sizes = st.integers(1, 12)
calls = st.dictionaries(st.tuples(sizes), st.integers(1, 9), min_size=1, max_size=6)
pairs = st.dictionaries(
    st.tuples(sizes, sizes), st.integers(1, 9), min_size=1, max_size=6
)


@given(calls, st.integers(1, 4), st.booleans())
def test_of_one_size_no_other_buckets_pad_less(counts, most, has_max):
    traffic = Traffic(("n",), counts)
    top = 12 if has_max else max(counts)[0]
    found = choose_buckets(
        traffic, most, {"n": Contract("n", 1, 12 if has_max else None)}
    )
    others = range(1, top)
    every = [
        Buckets(traffic, tuple((n,) for n in (*some, top)))
        for count in range(most)
        for some in combinations(others, count)
    ]
    assert found.overhead == pytest.approx(min(each.overhead for each in every))
    assert found.sizes[-1] == (top,)
    assert len(found.sizes) <= most
    assert found.coverage == 1


@given(pairs, st.integers(1, 5))
def test_of_two_sizes_all_calls_have_one_of_so_many_buckets(counts, most):
    traffic = Traffic(("n", "m"), counts)
    found = choose_buckets(
        traffic, most, {"n": Contract("n"), "m": Contract("m", 1, 20)}
    )
    assert len(found.sizes) <= most
    assert found.coverage == 1
    assert (max(n for n, _ in counts), 20) in found.sizes
    alone = Buckets(traffic, ((max(n for n, _ in counts), 20),))
    assert found.overhead <= alone.overhead


def test_thousands_of_distinct_sizes_are_no_obstacle():
    counts = {(n, n * 7 % 512 + 1): 1 + n % 3 for n in range(1, 4000)}
    contracts = {"n": Contract("n", multiple_of=1), "m": Contract("m")}
    found = choose_buckets(Traffic(("n", "m"), counts), 8, contracts)
    assert found.coverage == 1
    assert len(found.sizes) <= 8


def test_sizes_that_a_contract_refuses_have_no_bucket():
    traffic = Traffic(("n",), {(3,): 1, (4,): 2, (40,): 1})
    found = choose_buckets(traffic, 2, {"n": Contract("n", 1, 16, 4)})
    assert found.sizes == ((4,), (16,))
    assert found.coverage == 0.75  # a call of 3 is refused for another reason
    with pytest.raises(InputError, match="n in .* steps of 4") as caught:
        choose_buckets(Traffic(("n",), {(3,): 1}), 2, {"n": Contract("n", 1, 16, 4)})
    assert caught.value.code == "bad-traffic"


def test_the_report_says_what_padding_adds():
    found = Buckets(Traffic(("n", "m"), {(3, 2): 1, (4, 4): 1}), ((4, 4),))
    assert found.overhead == pytest.approx(32 / (6 + prod((4, 4))) - 1)
    assert str(found) == (
        "buckets n=4, m=4: 100.0% of 2 calls have one, padding adds 45.5% to their "
        "elements"
    )


# ---- files --------------------------------------------------------------------------


def read(tmp_path, text):
    file = tmp_path / "traffic.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Traffic.read(file)


def test_a_file_has_a_column_for_each_size_and_perhaps_one_of_counts(tmp_path):
    assert read(tmp_path, "n\n3\n3\n\n5\n").counts == {(3,): 2, (5,): 1}
    text = "\ufeff m , count,n\r\n# busy\r\n1,10, 4\r\n2,0,4\r\n1,1,4\r\n"
    found = read(tmp_path, text)
    assert found == Traffic(("m", "n"), {(1, 4): 11})
    assert found.calls == 11


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ":1"), ("\n\n", ":1"), ("count\n1\n", ":1"), ("n,n\n1,1\n", ":1"),
        ("3\n4\n", ":1"), ("n\n", ""), ("n,count\n4,0\n", ""), ("n\n1,2\n", ":2"),
        ("n\n1\n\n-1\n", ":4"), ("n\n1.5\n", ":2"), ("n\n²\n", ":2"),
        ("n,count\n4\n", ":2"), ("n\n" + "9" * 19 + "\n", ":2"), (b"n\n\xff\n", ""),
        ('n\n"4\n', ""), ("n\n\0\n", ":2"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused_with_the_line(tmp_path, text, line):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert caught.value.code == "bad-traffic"
    assert str(caught.value.where).endswith(f"traffic.csv{line}")
