"""Operators that ONNX defines by others keep their digits far away from zero."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import parser  # noqa: E402

from aotc.importers.onnx.network import network_of  # noqa: E402
from aotc.importers.onnx.reading import model_of  # noqa: E402
from aotc.importers.onnx.tensors import OnnxFiles  # noqa: E402

SHAPE = (4, 6, 5, 7)
NOISE = np.random.default_rng(0).standard_normal(SHAPE)


def unit(x, axes, epsilon=1e-5):
    """Less the mean, over the deviation."""
    centered = x - x.mean(axes, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axes, keepdims=True) + epsilon)


def groups(x):
    """Three groups of two channels, normalised."""
    return unit(x.reshape(4, 3, 2, 5, 7), (2, 3, 4)).reshape(SHAPE)


def log_sum(x, axis):
    """The logarithm of the sum of exponentials."""
    most = x.max(axis, keepdims=True)
    return most + np.log(np.exp(x - most).sum(axis, keepdims=True))


NODES = {
    "MeanVarianceNormalization(x)": lambda x: unit(x, (0, 2, 3), 0),
    "MeanVarianceNormalization<axes=[2, 3]>(x)": lambda x: unit(x, (2, 3), 0),
    "InstanceNormalization(x, one, zero)": lambda x: unit(x, (2, 3)),
    "LayerNormalization<axis=2>(x, row, none)": lambda x: unit(x, (2, 3)),
    "GroupNormalization<num_groups=3>(x, one, zero)": groups,
    "BatchNormalization<training_mode=1>(x, one, zero, zero, one)": lambda x: unit(
        x, (0, 2, 3)
    ),
    "Softmax<axis=1>(x)": lambda x: np.exp(x - log_sum(x, 1)),
    "LogSoftmax<axis=1>(x)": lambda x: x - log_sum(x, 1),
    "ReduceLogSumExp<keepdims=1>(x, axis)": lambda x: log_sum(x, 1),
    "Softplus(x)": lambda x: x + np.log1p(np.exp(-x)),
    "Mish(x)": lambda x: x * np.tanh(x + np.log1p(np.exp(-x))),
}


@pytest.mark.parametrize("node", NODES)
def test_a_mean_of_1000_costs_no_digits(node):
    tensors = """
        float[6] one = {1, 1, 1, 1, 1, 1}, float[6] zero = {0, 0, 0, 0, 0, 0},
        float[7] row = {1, 1, 1, 1, 1, 1, 1}, float[7] none = {0, 0, 0, 0, 0, 0, 0},
        int64[1] axis = {1}
    """
    proto = parser.parse_model(f"""
        <ir_version: 9, opset_import: ["": 21]>
        net (float[4, 6, 5, 7] x) => (float[a, b, c, d] y) <{tensors}> {{ y = {node} }}
    """)
    x = (NOISE + 1000).astype("f4")
    network = network_of(model_of(proto, "net", OnnxFiles(None, b"")), {})
    stored = [] if network.weights is None else [network.weights.tree]
    wanted = NODES[node](x.astype("f8"))
    np.testing.assert_allclose(np.asarray(network(*stored, x)), wanted, 1e-3, 1e-3)
