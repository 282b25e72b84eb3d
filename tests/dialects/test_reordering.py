"""`reorder`: an op on operands whose axes come in another order gives the same."""

from itertools import islice, permutations

import numpy as np

from aotc.dialects import context
from aotc.dialects.builder import Builder
from aotc.dialects.graph import evaluate
from aotc.dialects.movement.permutations import inverse
from aotc.mlir import ir

MOST = 6  # orders that are tried of those that there are


def test_reorder_gives_the_results_in_the_orders_that_it_says(case, graph):
    if not hasattr(case.cls, "reorder"):
        return
    sizes = next(case.size_choices())
    case = case.with_static_sizes(sizes)
    (op, end) = case.build(graph).block.operations
    arrays = case.arrays(sizes)
    want = evaluate(op, arrays, [])
    for order in islice(permutations(range(arrays[0].ndim)), MOST):
        with context(), ir.Location.unknown(), ir.InsertionPoint(end):
            given = [Builder().constant(value=_in(order, x)) for x in arrays]
            made = case.cls.reorder(Builder(), op, given, order)[0].owner.opview
        got = evaluate(made, [_in(order, x) for x in arrays], [])
        orders = case.cls.result_orders(op, order)
        for moved, expected, own in zip(got, want, orders, strict=True):
            np.testing.assert_array_equal(moved.shape, _in(own, expected).shape)
            case.assert_equal(np.transpose(moved, own), expected)


def _in(order, array):
    """The array whose transpose by `order` is `array`."""
    return np.transpose(array, inverse(order)).copy()
