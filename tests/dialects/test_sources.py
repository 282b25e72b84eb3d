"""Tensors that come from no memory: see Note [reductions of nothing]."""

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
