"""recover-ops: what exporters write in parts is the one op of the dialect again."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import pipeline, special
from aotc.dialects.limits import graph_ops
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.recovery import matching
from aotc.passes.recovery.table import ROWS
from aotc.programs.parameter_archive import UnevaluatedArray
from aotc.tracing.assembly import trace

ALL = ("inline", "simplify", "cse", "recover-ops", "simplify")
X, LINE = "f32[n, 6, 8]", "f32[8]"


def mean(x):
    return anp.mean(x, -1, keepdims=True)


def variance(x):
    return mean((x - mean(x)) ** 2)


def variance_by_squares(x):
    return anp.maximum(0.0, mean(x * x) - mean(x) * mean(x))


def batch_norm_form(x, scale, shift):
    factor = anp.rsqrt(variance(x) + 1e-3) * scale
    return x * factor + (shift - mean(x) * factor)


NORMS = {
    "torch": lambda x, a, b: (x - mean(x)) / anp.sqrt(variance(x) + 1e-5) * a + b,
    "no scale": lambda x, a, b: (x - mean(x)) / anp.sqrt(variance(x) + 1e-5),
    "no epsilon": lambda x, a, b: (x - mean(x)) / anp.sqrt(variance(x)),
    "power": lambda x, a, b: (x - mean(x)) * anp.power(1e-5 + variance(x), -0.5),
    "factor first": lambda x, a, b: (
        (x - mean(x)) * (anp.rsqrt(variance(x) + 1e-6) * a) + b
    ),
    "flax": lambda x, a, b: (
        (x - mean(x)) * (anp.rsqrt(variance_by_squares(x) + 1e-6) * a) + b
    ),
    "tensorflow": batch_norm_form,
    "two axes": lambda x, a, b: (
        (x - anp.mean(x, (1, 2), keepdims=True))
        * anp.rsqrt(anp.var(x, (1, 2), keepdims=True) + 1e-5)
    ),
    "symbolic axis": lambda x, a, b: (
        (x - anp.mean(x, 0))
        / anp.sqrt(anp.mean(anp.square(x - anp.mean(x, 0)), 0) + 1e-5)
    ),
    "rms": lambda x, a, b: a * (x * anp.rsqrt(mean(x**2) + 1e-6)),
    "rms by division": lambda x, a, b: a * (x / anp.sqrt(mean(x * x) + 1e-6)),
    "rms by inverse": lambda x, a, b: x * (1.0 / anp.sqrt(mean(x * x) + 1e-6)),
    "rms factor first": lambda x, a, b: x * (anp.rsqrt(mean(x * x) + 1e-6) * a),
}


@pytest.mark.parametrize("name", NORMS)
def test_recovers_a_normalisation(model, name):
    types = [kind.replace("f32", "f64") for kind in (X, LINE, LINE)]  # to compare with
    made = model(NORMS[name], *types, symbols=("n",))
    made.keeps_meaning_under(*ALL)
    assert made.ops.count("normalize") == 1
    assert not {"reduce_sum", "rsqrt", "sqrt", "power", "divide"} & set(made.ops)
    assert not made.run("recover-ops")


C = np.sqrt(2 / np.pi)


def tanh_gelu(x):
    return 0.5 * x * (1.0 + anp.tanh(C * (x + 0.044715 * anp.power(x, 3.0))))


ACTIVATIONS = {
    "torch": ("gelu", lambda x: x * (special.erf(x / 1.4142135) + 1.0) * 0.5),
    "tf2onnx": ("gelu", lambda x: 0.5 * x * (1.0 + special.erf(0.70710677 * x))),
    "halves": ("gelu", lambda x: x * (0.5 + 0.5 * special.erf(0.70710677 * x))),
    "jax": ("gelu", lambda x: (0.5 * x) * special.erfc(-x * np.sqrt(0.5))),
    "tanh": ("gelu", tanh_gelu),
    "jax tanh": (
        "gelu",
        lambda x: x * (0.5 * (1.0 + anp.tanh(C * (x + 0.044715 * (x * x * x))))),
    ),
    "fast": (
        "gelu",
        lambda x: 0.5 * x * (1.0 + anp.tanh(x * C * (1.0 + 0.044715 * x * x))),
    ),
    "of a product": ("gelu", lambda x: tanh_gelu(x * anp.sin(x))),
    "logistic": ("logistic", lambda x: 1.0 / (1.0 + anp.exp(-x))),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_recovers_an_activation(model, name):
    op, function = ACTIVATIONS[name]
    made = model(function, X, symbols=("n",))
    made.keeps_meaning_under(*ALL)
    expected = ["sin", "multiply", op] if name == "of a product" else [op]
    assert made.ops == expected
    assert not made.run("recover-ops")


def powers(x, axis=-1):
    return anp.exp(x - anp.max(x, axis, keepdims=True))


def logsum(x):
    return anp.log(anp.sum(powers(x), -1, keepdims=True))


SOFTMAXES = {
    "softmax": lambda x: powers(x) / anp.sum(powers(x), -1, keepdims=True),
    "middle": lambda x: powers(x, 1) * (1.0 / anp.sum(powers(x, 1), 1, keepdims=True)),
    "symbolic": lambda x: powers(x, 0) / anp.sum(powers(x, 0), 0),
    "log_softmax": lambda x: (x - anp.max(x, -1, keepdims=True)) - logsum(x),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_recovers_a_softmax(model, name):
    made = model(SOFTMAXES[name], X, symbols=("n",))
    made.keeps_meaning_under(*ALL)
    assert made.ops == ["log_softmax" if name == "log_softmax" else "softmax"]
    assert not made.run("recover-ops")


OTHERS = {
    "variance of another axis": lambda x: (
        (x - mean(x)) * anp.rsqrt(anp.var(x, 1, keepdims=True) + 1e-5)
    ),
    "mean at another place": lambda x: (
        (x - anp.mean(x, -1)[:, None, :]) * anp.rsqrt(variance(x) + 1e-5)
    ),
    "sum instead of mean": lambda x: (
        x * anp.rsqrt(anp.sum(x * x, -1, keepdims=True) + 1e-5)
    ),
    "unbiased variance": lambda x: (
        (x - mean(x)) * anp.rsqrt(variance(x) * (8 / 7) + 1e-5)
    ),
    "epsilon of each row": lambda x: x * anp.rsqrt(mean(x * x) + anp.abs(x[:, :, :1])),
    "another mean": lambda x: (x - mean(x * x)) * anp.rsqrt(variance(x) + 1e-5),
    "another constant": lambda x: 0.5 * x * (1.0 + special.erf(0.7 * x)),
    "quick gelu": lambda x: x * (1.0 + special.erf(0.70710677 * x)),
    "another argument": lambda x: 0.5 * x * (1.0 + special.erf(0.70710677 * (x + 1.0))),
    "less than the logistic": lambda x: 1.0 / (2.0 + anp.exp(-x)),
    "another maximum": lambda x: (
        powers(x, 1) / anp.sum(powers(x, 1), -1, keepdims=True)
    ),
    "no maximum": lambda x: anp.exp(x) / anp.sum(anp.exp(x), -1, keepdims=True),
}


@pytest.mark.parametrize("name", OTHERS)
def test_leaves_another_function_alone(model, name):
    made = model(OTHERS[name], "f32[n, 8, 8]", symbols=("n",))
    made.run("inline", "simplify", "cse")
    assert not made.run("recover-ops")


def test_leaves_what_is_read_in_between_alone(model):
    """It would be computed twice."""

    def f(x):
        share = special.erf(0.70710677 * x)
        return 0.5 * x * (1.0 + share), share

    made = model(f, X, symbols=("n",))
    assert not made.run("inline", "simplify", "cse", "recover-ops")


def test_leaves_what_a_derivative_reads_alone(model):
    def loss(x):
        return tanh_gelu(x).sum()

    made = model(aotc.value_and_grad(loss), X, symbols=("n",))
    made.run("autodiff", *ALL[:4])
    count = len(made.ops)
    made.keeps_meaning_under("recover-ops", "simplify")
    assert made.ops.count("tanh") == 1
    assert len(made.ops) == count


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_reads_constants_in_the_precision_of_the_graph(model, dtype):
    made = model(tanh_gelu, f"{dtype}[4]")
    made.run(*ALL)
    assert made.ops == ["gelu"]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_a_variance_by_one_less_is_another(model, dtype):
    def norm(x, less):
        mean = anp.mean(x, -1, keepdims=True)
        squares = anp.sum((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) * anp.rsqrt(squares * (1 / (64 - less)) + 1e-3)

    for less, expected in ((0, True), (1, False)):
        made = model(lambda x, less=less: norm(x, less), f"{dtype}[3, 64]")
        made.run(*ALL)
        assert ("normalize" in made.ops) == expected


EXTREME = np.array([[-3e38, -1e4, -90, -1e-30, 0, 1e-30, 90, 1e4]], "f")


@pytest.mark.parametrize(
    "function",
    [
        ACTIVATIONS["tf2onnx"][1],
        ACTIVATIONS["jax tanh"][1],
        ACTIVATIONS["logistic"][1],
        SOFTMAXES["softmax"],
        SOFTMAXES["log_softmax"],
    ],
)
def test_is_the_same_at_large_and_small_values(model, function):
    made = model(function, "f32[1, 8]")
    (before,) = made(EXTREME)
    assert made.run(*ALL[:-1])
    (after,) = made(EXTREME)
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-37)


def test_axes_of_size_one_and_none(model):
    for types in (["f32[1, 1, 1]", "f32[1]", "f32[1]"], ["f32[0, 6, 8]", LINE, LINE]):
        made = model(NORMS["torch"], *types)
        made.keeps_meaning_under(*ALL)
    assert "normalize" in made.ops


def test_weights_with_one_element_are_the_numbers_that_they_are(tmp_path):
    """ONNX has its constants as initializers."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Div", ["x", "root"], ["a"]),
        helper.make_node("Erf", ["a"], ["b"]),
        helper.make_node("Add", ["b", "one"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["d"]),
        helper.make_node("Mul", ["d", "half"], ["e"]),
        helper.make_node("ReduceMean", ["e"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["e", "mean"], ["f"]),
        helper.make_node("Pow", ["f", "two"], ["g"]),
        helper.make_node("ReduceMean", ["g"], ["h"], axes=[-1]),
        helper.make_node("Add", ["h", "epsilon"], ["i"]),
        helper.make_node("Sqrt", ["i"], ["j"]),
        helper.make_node("Div", ["f", "j"], ["y"]),
    ]
    numbers = {"root": 2**0.5, "one": 1, "half": 0.5, "two": 2, "epsilon": 1e-5}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [3, 8])],
        [value("y", TensorProto.FLOAT, [3, 8])],
        [numpy_helper.from_array(np.float32(n), k) for k, n in numbers.items()],
    )
    file = tmp_path / "model.onnx"
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset), file)
    text = pipeline.build(file, stop_after="optimized").ir
    assert "graph.gelu" in text
    assert "graph.normalize" in text
    assert not {"graph.erf", "graph.reduce_sum", "graph.multiply"} & set(text.split())


def test_no_row_needs_an_op_that_another_row_writes():
    """So the ops that a graph has at first say which rows it can have."""
    written = {"attention", "gelu", "log_softmax", "logistic", "normalize", "softmax"}
    for row in ROWS:
        assert not any(f"Call(name='{name}'" in repr(row.term) for name in written)


def test_what_a_derivative_reads_is_looked_at_once(monkeypatch):
    looked = []
    match = matching._Matcher.match
    monkeypatch.setattr(
        matching._Matcher, "match", lambda *x: looked.append(x) or match(*x)
    )

    @aotc.entry(x=aotc.Spec((4, 8)))
    def gradient(x):
        return aotc.grad(lambda x: anp.sum(NORMS["no scale"](x, 1.0, 0.0)))(x)

    module = trace([gradient], {}).module
    run_passes(module, ("autodiff", "inline", "simplify", "cse"))
    run_passes(module, ("recover-ops",))
    assert 0 < len(looked) < 40 * len(graph_ops(module))  # without, 400 for each


def test_weights_that_no_pattern_asks_for_are_not_computed():
    class Unasked(UnevaluatedArray):
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("a weight that is computed when it is asked for")

    @aotc.entry(w=aotc.Weights(np.ones((8, 8), "f4")), x=aotc.Spec(("n", 8)))
    def layer(w, x):
        return anp.maximum(x @ w / 2.0, 0.0)

    program = trace([layer], {})
    (name,) = program.parameters
    program.parameters[name] = Unasked((8, 8), np.dtype("f4"))
    run_passes(Unit(program), ALL)
