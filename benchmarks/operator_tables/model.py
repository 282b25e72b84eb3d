"""Every case as an entry of one bundle; AOTC_OPERATORS names some of them."""

import os

import aotc
import aotc.numpy as np
from aotc import nn
from operator_tables.cases import all_cases, arrays

OPERATORS = {
    "softmax": nn.softmax,
    "layer_norm": nn.layer_norm,
    "sum": lambda x: np.sum(x, axis=-1),
    "max": lambda x: np.max(x, axis=-1),
}
NAMED = {case.name: case for case in all_cases()}
CASES = [NAMED[name] for name in os.environ.get("AOTC_OPERATORS", "").split()]
CASES = CASES or list(NAMED.values())

weights = aotc.Weights({case.name: arrays(case)[1] for case in CASES if case.weight})


def computed(case, x, weight, other):
    """Compute the case on traced arrays; return the result."""
    if case.family == "conv":
        padding = case.weight[0] // 2
        return nn.conv2d(
            x, weight, strides=case.stride, padding=padding, groups=case.groups
        )
    if case.family == "gemm":
        return x @ weight
    return x @ other if case.family == "batched" else OPERATORS[case.family](x)


def entry(case):
    """Return an entry that computes the case."""
    x, other = (aotc.Spec(shape) for shape in (case.shape, case.other))
    if case.weight:

        def function(weights, x):
            return computed(case, x, weights[case.name], None)

        given = {"weights": weights, "x": x}
    elif case.other:

        def function(x, other):
            return computed(case, x, None, other)

        given = {"x": x, "other": other}
    else:

        def function(x):
            return computed(case, x, None, None)

        given = {"x": x}
    function.__name__ = function.__qualname__ = case.name
    return aotc.entry(**given)(function)


for each in CASES:
    globals()[each.name] = entry(each)
