"""Public functions at their edges give what those give that they are named after."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from aotc import numpy as anp
from aotc.errors import AotcError
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
    numpys = [r for r in DOCUMENTED if r.library == "numpy" and r.code != "bad-order"]
    rows = [row for row in numpys if not row.of_pairs]
    assert [row.reason for row in rows if row not in used] == []


def test_most_edges_are_compared():
    verdicts = sum((found("numpy", family)[0] for family in FAMILIES), Counter())
    assert verdicts["same"] > 30_000
    assert verdicts["refused"] > 5_000


# ---- JAX's functions, without JAX ---------------------------------------------------


@pytest.mark.parametrize("start", [-100, -6, -5, -2, -1, 0, 3, 100])
@pytest.mark.parametrize("dtype", ["i1", "i4", "i8"])
def test_negative_starts_of_slices_count_from_the_end(start, dtype):
    x, starts = np.arange(5, dtype="f4"), np.array([start], dtype)
    first = min(max(start + 5 if start < 0 else start, 0), 3)
    expected, written = x[first : first + 2], x.copy()
    written[first : first + 2] = 9
    for given in (starts, [starts[0]], [int(start)]):
        found = anp.dynamic_slice(x, given, (2,))
        assert np.array_equal(found, expected)
        found = anp.dynamic_update_slice(x, np.full(2, 9, "f4"), given)
        assert np.array_equal(found, written)


def test_the_dtype_of_starts_need_not_hold_the_size():
    x = np.arange(300, dtype="f4")
    assert np.array_equal(
        anp.dynamic_slice(x, np.array([-2], "i1"), (2,)), [298.0, 299.0]
    )


@pytest.mark.parametrize("family", ["numpy.dynamic_", "nn.", "special."])
def test_functions_are_those_of_other_libraries_at_their_edges(family):
    library = "scipy" if family == "special." else "jax"
    pytest.importorskip(library)
    found = compared(frozenset({library}), family)
    faults = [e for e in found if e.verdict not in ALIKE and reason_of(e) is None]
    assert list(map(str, faults)) == []


def test_every_start_of_rollaxis_is_numpys():
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    for axis in range(-4, 4):
        for start in range(-5, 6):
            try:
                expected = np.rollaxis(x, axis, start)
            except np.exceptions.AxisError:
                with pytest.raises(AotcError, match="out of range"):
                    anp.rollaxis(x, axis, start)
                continue
            assert np.array_equal(anp.rollaxis(x, axis, start), expected)
