"""The builder of graph ops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aotc.dialects import OPS, context
from aotc.dialects.builder import Builder
from aotc.dialects.graph import evaluate
from aotc.mlir import ext, ir

X = np.arange(60).reshape(3, 4, 5)
AXES = st.integers(0, 2)


def test_builder_declares_the_ops_of_several_results():
    several = {
        name
        for name, op in OPS.items()
        if sum(isinstance(field, ext.ResultDef) for field in op._fields) > 1
    }
    assert set(Builder.__annotations__) == several


def computed(write):
    """What the ops that a function writes of a constant give."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            b = Builder()
            value = write(b, b.constant(value=X))
        found = {}
        for op in module.body.operations:
            results = evaluate(op, [found[x] for x in op.operands], [])
            found.update(zip(op.results, results, strict=True))
        return found[value]


@given(AXES, AXES)
def test_an_axis_is_moved_as_in_numpy(source, to):
    moved = computed(lambda b, x: b.move_axis(x, source, to))
    np.testing.assert_array_equal(moved, np.moveaxis(X, source, to))


@given(st.permutations(range(5)).map(lambda axes: axes[:3]))
def test_a_value_is_repeated_with_its_axes_in_any_order(axes):
    shape = [2] * 5
    for axis, size in zip(axes, X.shape, strict=True):
        shape[axis] = size
    wide = computed(lambda b, x: b.spread(x, tuple(shape), axes))
    others = [axis for axis in range(5) if axis not in axes]
    moved = np.transpose(wide, [*others, *axes])
    np.testing.assert_array_equal(moved, np.broadcast_to(X, moved.shape))


@given(AXES, st.data())
def test_a_part_along_an_axis_is_a_slice_of_it(axis, data):
    start = data.draw(st.integers(0, X.shape[axis] - 1))
    size = data.draw(st.integers(1, X.shape[axis] - start))
    part = computed(lambda b, x: b.part(x, axis, start, size))
    np.testing.assert_array_equal(part, X.take(range(start, start + size), axis))


@given(st.tuples(*[st.integers(0, 3)] * 3))
def test_what_is_padded_to_a_shape_is_cut_to_the_one_it_had(more):
    shape = tuple(np.add(X.shape, more).tolist())
    padded = computed(lambda b, x: b.pad_to(x, shape))
    np.testing.assert_array_equal(padded, np.pad(X, [(0, n) for n in more]))
    cut = computed(lambda b, x: b.cut_to(b.pad_to(x, shape), X.shape))
    np.testing.assert_array_equal(cut, X)
