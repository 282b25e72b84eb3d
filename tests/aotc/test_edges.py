"""Public functions at their edges give what those give that they are named after."""

from collections import Counter
from functools import cache

import pytest

from benchmarks.fuzz.edges.comparing import FAMILIES, compared
from benchmarks.fuzz.edges.documented import DOCUMENTED, reason_of

ALIKE = ("same", "refused")


@cache
def found(library, family):
    """The verdicts on a package, the faults, and the rows that explain the others."""
    verdicts, faults, used = Counter(), [], set()
    for each in compared(frozenset({library}), f"{family}."):
        verdicts[each.verdict] += 1
        if each.verdict not in ALIKE:
            row = reason_of(each)
            used.add(row)
            faults += [str(each)] if row is None else []
    return verdicts, faults, used


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_are_numpys_at_their_edges(family):
    _, faults, _ = found("numpy", family)
    assert faults == []


def test_every_documented_difference_from_numpy_is_one():
    used = set().union(*(found("numpy", family)[2] for family in FAMILIES))
    rows = [row for row in DOCUMENTED if row.library == "numpy"]
    assert [row.reason for row in rows if row not in used] == []


def test_most_edges_are_compared():
    verdicts = sum((found("numpy", family)[0] for family in FAMILIES), Counter())
    assert verdicts["same"] > 30_000
    assert verdicts["refused"] > 5_000
