"""What people who come from NumPy, PyTorch or JAX write, and what they are told."""

import linecache
import re

import pytest

import aotc
from aotc.tracing import spellings

ENTRY = """\
import math
import numpy
import aotc
import aotc.numpy as np
from aotc import control, nn, random

ones = numpy.ones((4, 4), "f4")
weights = aotc.Weights({{"kernel": ones, "bias": ones[0]}})
image, nchw, oihw = np.zeros((2, 8, 8, 3)), np.zeros((2, 3, 8, 8)), (16, 3, 3, 3)

@aotc.entry(x=aotc.Spec(("batch", 4)), n=aotc.Spec((), "i32"))
def f(weights, x, n):
    {body}
"""

# what is written, the code of the error, and what its hint or message says
MISTAKES = [
    # random functions without a key
    (
        "return random.normal(x.shape)",
        "bad-key",
        "normal(key, shape) with key = aotc.random.key(0)",
    ),
    (
        "return nn.dropout(x, 0.5)",
        "bad-key",
        "dropout(key, x, rate) with key = aotc.random.key(0)",
    ),
    ("return nn.dropout(x, rate=0.5)", "bad-key", "keep the key in an aotc.State"),
    (
        "return random.normal(0, (3,))",
        "bad-key",
        "expected a random key, u32[2], first; got 0",
    ),
    ("return random.PRNGKey(0)", "unknown-name", "aotc.random.key(seed)"),
    # Python's control flow over values
    (
        "for row in x: pass\nreturn x",
        "symbolic-size",
        "aotc.control.scan(step, initial, x)",
    ),
    (
        "return [row for row in x]",
        "symbolic-size",
        "aotc.control.scan(step, initial, x)",
    ),
    (
        "for i in range(x.shape[0]): pass\nreturn x",
        "symbolic-size",
        "aotc.control.fori_loop(0, x.shape[0], ",
    ),
    (
        "for i in range(len(x)): pass\nreturn x",
        "symbolic-size",
        "aotc.control.fori_loop(0, x.shape[0], ",
    ),
    (
        "for i in range(1, n): x = -x\nreturn x",
        "traced-value",
        "aotc.control.fori_loop(1, n, ",
    ),
    (
        "if x.sum() > 0:\n    x = -x\nreturn x",
        "traced-value",
        "aotc.control.cond(x.sum() > 0, lambda: a, lambda: b)",
    ),
    ("if n > 0 and not x.any():\n    x = -x\nreturn x", "traced-value", "aotc.numpy."),
    (
        "if x.shape[0] > 3:\n    x = -x\nreturn x",
        "symbolic-size",
        "aotc.Dim with min, max",
    ),
    (
        "return x if x.sum() > 0 else -x",
        "traced-value",
        "aotc.numpy.where(x.sum() > 0, x, -x)",
    ),
    (
        "return x if n in (1, 2) else -x",
        "traced-value",
        "aotc.numpy.where(aotc.numpy.isin(n, (1, 2)), x, -x)",
    ),
    (
        "return x if 0 < n < 3 else -x",
        "traced-value",
        "aotc.numpy.where((0 < n) & (n < 3), x, -x)",
    ),
    ("return x and n", "traced-value", "aotc.numpy.logical_and(x, n)"),
    ("return not x", "traced-value", "aotc.numpy.logical_not(x)"),
    (
        "while x.sum() > 0: x = x - 1\nreturn x",
        "traced-value",
        "aotc.control.while_loop(condition, body, initial)",
    ),
    (
        "assert (x > 0).all(), 'above 0'\nreturn x",
        "traced-value",
        "aotc.debug.check((x > 0).all(), 'above 0')",
    ),
    (
        "return control.scan(lambda c: c, x[0], x)",
        "bad-call",
        "gets the carried value and one element of `xs`",
    ),
    # Python's functions of numbers
    ("return max(x.sum(), 1.0)", "traced-value", "aotc.numpy.maximum(x.sum(), 1.0)"),
    ("return sorted(x[0])", "traced-value", "aotc.numpy.sort(x[0])"),
    ("return float(n)", "traced-value", 'aotc.numpy.astype(n, "f32")'),
    ("return int(n)", "traced-value", 'aotc.numpy.astype(n, "i32")'),
    ("return len(x)", "symbolic-size", "x.shape[0]"),
    ("return f'{n:d}'", "traced-value", "aotc.debug.print"),
    ("return math.sin(x)", "traced-value", "aotc.numpy.sin for math.sin"),
    # functions of other libraries
    ("return numpy.exp(x)", "traced-value", "aotc.numpy.exp for numpy.exp"),
    (
        "return numpy.linalg.norm(x)",
        "traced-value",
        "aotc.linalg.norm for numpy.linalg.norm",
    ),
    ("return numpy.random.normal(x)", "traced-value", "aotc.random.normal(key, …)"),
    # parameters
    ("return x @ weights['kernal']", "no-such-key", "weights['kernel']"),
    ("return x @ weights['b']", "no-such-key", "'bias', 'kernel'"),
    ("return x @ weights.kernel", "unknown-name", "weights['kernel']"),
    ("return x @ weights", "not-an-array", "'bias', 'kernel'"),
    ("return x.shape[2]", "no-such-key", "x.shape is (batch, 4)"),
    # shapes and layouts
    ("return np.reshape(x, ('n', 2))", "bad-shape", "x.shape[0]"),
    (
        "return nn.conv2d(image, np.zeros(oihw))",
        "bad-window",
        "aotc.numpy.transpose(kernel, (2, 3, 1, 0))",
    ),
    (
        "return nn.conv2d(nchw, np.zeros(oihw))",
        "shape-mismatch",
        "transpose(x, (0, 2, 3, 1)) and aotc.numpy.transpose(kernel, (2, 3, 1, 0))",
    ),
    (
        "return nn.conv2d(nchw, np.zeros((5, 5, 3, 16)))",
        "shape-mismatch",
        "write aotc.numpy.transpose(x, (0, 2, 3, 1))",
    ),
    # PyTorch's keywords, methods and names
    (
        "return nn.softmax(x, dim=1)",
        "bad-call",
        "axis= for dim=; the call is softmax(x, axis=-1",
    ),
    ("return x.sum(1, keepdim=True)", "bad-call", "keepdims= for keepdim="),
    ("return nn.relu(x, inplace=True)", "bad-call", "leave out inplace="),
    ("return nn.softmax(x, axs=1)", "bad-call", "did you mean axis=?"),
    ("return nn.cross_entropy(x)", "bad-call", "cross_entropy(logits, labels"),
    ("return x.unsqueeze(0)", "unknown-name", "aotc.numpy.expand_dims(x, axis)"),
    ("return x.permute(1, 0)", "unknown-name", "x.transpose(axes)"),
    ("return x.view(-1)", "unknown-name", "x.reshape(shape)"),
    ("return x.size(0)", "unknown-name", "x.shape[axis]"),
    ("return x.mm(x.T)", "unknown-name", "x @ other"),
    ("return x.detach()", "unknown-name", "aotc.nn.stop_gradient(x)"),
    ("return x.numpy()", "unknown-name", "no value yet"),
    ("return x.exp()", "unknown-name", "aotc.numpy.exp(x)"),
    ("return x.add_(1)", "unknown-name", "arrays never change"),
    ("x[0] = 1\nreturn x", "immutable-array", "x.at[key].set(values)"),
    ("return np.cat([x, x])", "unknown-name", "aotc.numpy.concatenate(arrays, axis)"),
    ("return np.softmax(x)", "unknown-name", "aotc.nn.softmax"),
    ("return np.linalg.norm(x)", "unknown-name", "from aotc import linalg"),
    ("return nn.Linear(4, 4)(x)", "unknown-name", "aotc.nn.dense(x, kernel, bias)"),
    ("return nn.layernorm(x)", "unknown-name", "aotc.nn.layer_norm"),
    ("return aotc.compile(x)", "unknown-name", "aotc.entry"),
    ("return aotc.jit(x)", "bad-entry", "expected a function"),
    ("return np.float32(x)", "unknown-name", "(x).astype(np.float32)"),
]


@pytest.mark.parametrize(("body", "code", "words"), MISTAKES)
def test_a_mistake_is_told_what_to_write_instead(model, body, code, words):
    linecache.clearcache()  # each model.py is a new one at its path
    error = model.refused(ENTRY.format(body=body.replace("\n", "\n    ")))
    assert error.code == code, error
    assert words in f"{error.message} {error.hint}", error
    assert error.where == "model.py:13", error


def test_an_array_given_to_torch_is_told_of_the_function_here(model):
    pytest.importorskip("torch")
    body = "import torch\n    return torch.nn.functional.relu(x)"
    error = model.refused(ENTRY.format(body=body))
    assert (error.code, error.where) == ("traced-value", "model.py:14")
    assert "write aotc.nn.relu for torch.nn.functional.relu" in error.hint


def test_weights_that_no_parameter_names_are_told_how_they_come_in(model):
    for use in ("x @ params['kernel']", "x @ params", "x @ params.kernel"):
        error = model.refused(
            f"""
            import aotc
            import numpy

            params = aotc.Weights({{"kernel": numpy.ones((4, 4), "f4")}})

            @aotc.entry(x=aotc.Spec(("batch", 4)))
            def f(x):
                return {use}
            """
        )
        assert error.code == "not-a-parameter", error
        assert "'params' is no parameter of entry 'f', which takes (x)" in error.message
        assert "def f(params, x)" in error.hint
        assert error.where == "model.py:9"


def test_two_contracts_of_one_size_are_shown_with_both_entries(model):
    error = model.refused(
        """
        import aotc

        @aotc.entry(x=aotc.Spec((aotc.Dim("batch", max=64), 4)))
        def first(x):
            return x

        @aotc.entry(x=aotc.Spec(("batch", 4)))
        def second(x):
            return x
        """
    )
    assert (error.code, error.where) == ("bad-contract", "model.py:8")
    for part in ("'second'", "batch >= 1", "'first' at model.py:4", "batch in [1, 64]"):
        assert part in error.message


def test_an_error_in_a_helper_names_the_lines_that_called_it(model):
    model.write("def project(x, w):\n    return x @ w\n", "blocks.py")
    error = model.refused(
        """
        import aotc
        import aotc.numpy as np
        from blocks import project

        def layer(x):
            return project(x, np.ones((3, 2)))

        @aotc.entry(x=aotc.Spec(("batch", 4)))
        def f(x):
            return aotc.vmap(layer)(x)
        """
    )
    assert (error.code, error.where) == ("shape-mismatch", "blocks.py:2")
    assert error.callers == ("model.py:7, in layer", "model.py:11, in f")
    assert "called at model.py:7, in layer" in str(error)
    assert error.to_json()["callers"] == list(error.callers)


def test_every_name_in_the_tables_of_spellings_exists():
    texts = [*spellings.ATTRIBUTES.values(), *spellings.FUNCTIONS.values()]
    for name in re.findall(r"aotc(?:\.\w+)+", " ".join(texts)):
        value = aotc
        for part in name.split(".")[1:]:
            value = getattr(value, part)


def test_what_is_advised_can_be_typed(model):
    body = """\
a, b = np.zeros_like(x), -x
    a = aotc.numpy.where(aotc.numpy.isin(n, (1, 2)), x, -x)
    a = a + aotc.numpy.where((0 < n) & (n < 3), x, -x)
    b = aotc.control.cond(x.sum() > 0, lambda: a, lambda: b)
    b = aotc.control.fori_loop(0, x.shape[0], lambda i, value: value + 1, b)
    aotc.debug.check((x > 0).all(), 'above 0')
    _, c = aotc.control.scan(lambda carry, row: (carry, row), 0.0, x)
    large = aotc.numpy.where(aotc.numpy.asarray(x.shape[0]) > 3, 1.0, 2.0)
    key = aotc.random.key(0)
    return b + c + nn.dropout(key, x, 0.5) * large"""
    assert model.load(ENTRY.format(body=body))
