"""share-kernels: kernels of processors that differ in numbers alone are one."""

import aotc
from aotc import nn
from aotc import numpy as np
from aotc.kernels.lowered import kernels_of
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace


def shared(*functions, shape=(24, 44)):
    """The kernels of some functions before the pass and after it, which repeats it."""
    entries = [aotc.entry(x=aotc.Spec(shape))(each) for each in functions]
    unit = Unit(trace(entries, {})).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    run_passes(unit, ["lower-to-linalg"])
    before = [*kernels_of(unit.module)]
    run_passes(unit, ["share-kernels"])
    after = [*kernels_of(unit.module)]
    run_passes(unit, ["share-kernels"])
    assert [*kernels_of(unit.module)] == after
    return before, after


def test_zero_points_are_numbers_that_one_kernel_is_told():
    def f(x):
        return [nn.quantize(x, 0.5, zero, "u8") for zero in (3, 100, 0)]

    for shape, symbols in (((24, 44), 0), (("n", 44), 1)):
        before, (kernel,) = shared(f, shape=shape)
        assert len(before) == 3
        assert {each.symbols for each in before} == {symbols}
        assert kernel.symbols == symbols + 3  # two bounds, and what is added
        shares = symbols + 3
        assert all(f"s{shares}]" in each for each in kernel.elements)


def test_entries_share_a_kernel():
    def f(x):
        return nn.quantize(x, 0.5, 3, "u8")

    def g(x):
        return nn.quantize(x, 0.5, 100, "u8")

    before, after = shared(f, g)
    assert (len(before), len(after)) == (2, 1)


def test_equal_kernels_of_tensors_of_other_shapes_are_one():
    def f(x):
        return np.transpose(x), np.transpose(x.reshape(24, 4, 11), (1, 2, 0))

    before, after = shared(f)
    assert (len(before), len(after)) == (2, 1)


def test_what_is_divided_by_different_numbers_stays_apart():
    def f(x):
        return [nn.quantize(x, scale, 3, "u8") for scale in (0.3, 0.7)]

    before, after = shared(f)
    assert len(before) == len(after) == 2


def test_bounds_that_are_not_those_of_bytes_stay_apart():
    def f(x):
        rounded = [np.round(np.clip(x, 0.0, most)) for most in (6.0, 7.0)]
        return [nn.softmax(each) for each in rounded]

    before, after = shared(f)
    assert len(before) == len(after) == 2
