"""Random small graphs mean the same before and after graph → graph passes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc.numpy as anp

UNARY = {
    "exp": lambda x: anp.exp(anp.clip(x, -3.0, 3.0)),
    "tanh": anp.tanh,
    "negate": lambda x: -x,
    "double": lambda x: x * 2.0,
    "same": lambda x: x * 1.0 + 0.0,
    "transpose": lambda x: anp.transpose(x),
    "center": lambda x: x - anp.mean(x, axis=0, keepdims=True),
    "total": lambda x: x + anp.sum(x),
    "clip": lambda x: anp.maximum(x, 0.5),
    "flip": lambda x: anp.flip(x, 0),
    "roll": lambda x: anp.concatenate([x[1:], x[:1]]),
    "row": lambda x: anp.broadcast_to(x[1], (3, 3)),
    "column": lambda x: anp.broadcast_to(x[:, :1], (3, 3)),
    "part": lambda x: anp.concatenate([x, x * 2.0])[1::2],
    "upper": lambda x: anp.where(anp.arange(3)[:, None] >= 0, x, -x),
}
BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "matmul": lambda x, y: anp.tanh(x @ y),
    "choose": lambda x, y: anp.where(x > y, x, y),
}

unary_steps = st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 9))
binary_steps = st.tuples(
    st.sampled_from(sorted(BINARY)), st.integers(0, 9), st.integers(0, 9)
)
graphs = st.lists(st.one_of(unary_steps, binary_steps), min_size=1, max_size=10)


def build(steps):
    """A function that applies each step to earlier values and returns the last."""

    def function(x, y):
        values = [x, y]
        for name, *sources in steps:
            operands = [values[number % len(values)] for number in sources]
            table = UNARY if name in UNARY else BINARY
            values.append(table[name](*operands))
        return values[-1], values[len(values) // 2]

    return function


@pytest.mark.parametrize("passes", [("simplify",), ("cse",), ("simplify", "cse")])
@settings(max_examples=40, deadline=None)
@given(steps=graphs)
def test_simplify_and_cse_keep_the_meaning_of_random_graphs(model, passes, steps):
    with np.errstate(all="ignore"):
        graph = model(build(steps), "f64[3, 3]", "f64[3, 3]")
        graph.keeps_meaning_under(*passes)
        assert graph.module.operation.verify()
