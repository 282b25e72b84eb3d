"""What IREE must not find, or find in memory; see the notes in `lowering`."""

import numpy

import aotc
from aotc import nn
from aotc import numpy as anp
from aotc.pipeline import lower
from aotc.tracing.assembly import trace


def lowered(function) -> str:
    """The linalg of an entry of four numbers."""
    entry = aotc.entry(x=aotc.Spec((4,)))(function)
    return str(lower(trace([entry], {})).module)


def test_sums_of_what_may_be_one_number_share_an_unknown_zero():
    def entry(x):
        i = anp.astype(x, "i32")
        repeated = anp.ones(5).sum() + anp.arange(5, dtype="f32").max()
        return repeated, (i == i).sum(), (i * 0).sum(), anp.roll(anp.ones(3), 1).sum()

    assert lowered(entry).count("optimization_barrier") == 1


def test_sums_of_inputs_and_stored_arrays_need_no_barrier():
    def entry(x):
        stored = anp.sum(anp.asarray([1.0, 2.0]) * x[:2])
        return anp.sum(x * 2.0), stored, anp.roll(x, 1).max(), nn.softmax(x)

    assert "optimization_barrier" not in lowered(entry)


def test_sums_of_what_comparisons_choose_need_no_barrier():
    def entry(x):
        hidden = anp.exp(x) - x.mean()
        return (
            anp.where(x > 0, x, 0.0).sum() + anp.where(x > 0, 1.0, 0.0).sum(),
            *(anp.where(x == c, 2.0, x).sum() for c in (0.0, -1.5, 1e-40)),
            anp.where(hidden <= 1, hidden, x * 2.0).max(),
            anp.where(x < x.mean(), x, 0.0).sum(),
        )

    assert "optimization_barrier" not in lowered(entry)


def test_what_iree_finds_of_comparisons_and_selections_is_varied():
    functions = {
        "no number": lambda x: anp.where(x > numpy.nan, 1.0, 2.0),
        "one value": lambda x: anp.where(x < anp.negative(-x), 1.0, 2.0),
        "integers": lambda x: anp.where((x > 0).astype("f32") < -1.0, 1.0, 2.0),
        "nested": lambda x: anp.where(x > 0, anp.where(x > 0, 1.0, x), 1.0),
    }
    for name, function in functions.items():

        def entry(x, function=function):
            return function(x).sum()

        assert lowered(entry).count("optimization_barrier") == 1, name


def test_what_is_read_by_index_is_no_slice_with_gaps():
    def flipped(x):
        return anp.flip(anp.reshape(x, (2, 2))[:, 1], 0)

    def whole(x):
        return anp.flip(x[1:3], 0), anp.reshape(x, (2, 2))[:, 1] + 1.0

    assert "optimization_barrier" in lowered(flipped)
    assert "optimization_barrier" not in lowered(whole)
