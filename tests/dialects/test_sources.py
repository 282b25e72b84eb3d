"""What IREE must find in memory: Notes [reductions of nothing, reads with gaps]."""

import aotc
from aotc import numpy as anp
from aotc.frontends.assembly import trace
from aotc.pipeline import lower


def lowered(function) -> str:
    """The linalg of an entry of four numbers."""
    entry = aotc.entry(x=aotc.Spec((4,)))(function)
    return str(lower(trace([entry], {})).module)


def test_sums_of_repeated_numbers_are_read_from_memory():
    def entry(x):
        return anp.ones(5).sum() + x, anp.arange(5, dtype="f32").max() + x

    assert lowered(entry).count("optimization_barrier") == 1  # one function for both


def test_sums_of_inputs_and_stored_arrays_need_no_barrier():
    def entry(x):
        return anp.sum(x * 2.0), anp.sum(anp.asarray([1.0, 2.0]) * x[:2])

    assert "optimization_barrier" not in lowered(entry)


def test_what_is_read_by_index_is_no_slice_with_gaps():
    def flipped(x):
        return anp.flip(anp.reshape(x, (2, 2))[:, 1], 0)

    def whole(x):
        return anp.flip(x[1:3], 0), anp.reshape(x, (2, 2))[:, 1] + 1.0

    assert "optimization_barrier" in lowered(flipped)
    assert "optimization_barrier" not in lowered(whole)
