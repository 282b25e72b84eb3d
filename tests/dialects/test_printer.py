"""The form of graph modules for people."""

import numpy as np
import pytest

from aotc.dialects import context
from aotc.dialects.printer import format_module
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.mlir import ir
from aotc.tracing.tracing import Array, Trace


@pytest.fixture
def trace(graph):
    """A function of x: f32[batch, 4] and an argument without a name."""
    with context():
        types = [Tensor((SymbolicDim.symbol(0) * 2, 4), "f32"), Tensor((4, 2), "f32")]
        built = Trace(graph, "predict", types, [Contract("batch", 2, 64, 2)])
        names = [{"graph.name": ir.StringAttr.get("x")}, {}]
        built.function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get(n) for n in names]
        )
    return built


def finish(trace, *values):
    trace.finish([Array(value=value, trace=trace) for value in values])


def test_names_sizes_arguments_and_lines(graph, trace):
    x, weights = trace.block.arguments
    with trace.active():
        hidden = trace.build("exp", x)
        product = trace.build(
            "dot_general",
            hidden,
            weights,
            lhs_batch=(),
            rhs_batch=(),
            lhs_contract=(1,),
            rhs_contract=(0,),
        )
        finish(trace, product)
    head, exp, dot, ret = format_module(graph).splitlines()
    assert head == (
        "func predict(x: f32[batch, 4], %arg1: f32[4, 2]) -> f32[batch, 2]"
        "   where batch in [2, 64] in steps of 2"
    )
    assert exp.startswith("  %0 = exp(x) : f32[batch, 4]   # test_printer.py:")
    attributes = "{lhs_contract=(1,), rhs_contract=(0,)}"
    assert f"%1 = dot_general(%0, %arg1) {attributes} : f32[batch, 2]" in dot
    assert ret == "  return %1"


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(1.5), "value=1.5"),
        (np.array([1, 2], "i4"), "value=[1, 2]"),
        (np.arange(100), "value=[0, 1, 2, …, 97, 98, 99]"),
    ],
)
def test_long_constants_are_cut_short(graph, trace, array, text):
    with trace.active():
        finish(trace, trace.build("constant", value=np.asarray(array)))
    assert f"{{{text}}}" in format_module(graph)


def test_shows_calls_and_several_results(graph, trace):
    with context():
        inner = Trace(graph, "inner", [Tensor((3,), "f32")], [], parent=trace)
    with inner.active():
        value = inner.block.arguments[0]
        finish(inner, value, inner.build("negate", value))
    text = format_module(graph)
    assert "func inner(%arg0: f32[3]) -> (f32[3], f32[3])\n" in text
    assert "  return %arg0, %0" in text
