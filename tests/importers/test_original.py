"""Networks run by the frameworks they come from, beside aotc's own evaluation."""

import numpy as np
import pytest

import aotc
from aotc.core.pytree import flatten
from aotc.tracing.survey import watch_nodes


def agree(network, inputs, updates=False):
    """Both compute the same results."""
    found = network.compute(inputs)
    found = [np.asarray(x) for x in flatten(found[1] if updates else found)[0]]
    wanted = flatten(network.original.run(inputs))[0]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def steps_agree(network, inputs):
    """Each node that both compute gives the same; the number of these nodes."""
    theirs, count = network.original.steps(inputs), 0

    def look(node, op, place, results):
        nonlocal count
        wanted = theirs.get(node)
        if hasattr(wanted, "dtype") and hasattr(results, "dtype"):
            np.testing.assert_allclose(results, wanted, rtol=1e-5, atol=1e-6)
            count += 1

    with watch_nodes(look):
        network.compute(inputs)
    return count


def test_quantized_files_are_compared_as_they_are_written(tmp_path):
    """ONNX Runtime's optimisations round a QDQ graph elsewhere."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    proto = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 19]>
        net (float[16, 64] x) => (float[16, 64] y)
        <float s = {0.05}, int8 z = {3}, float t = {0.37}, float u = {0.008}> {
            a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
            w = DequantizeLinear(q, u, none)  c = MatMul(b, w)
            d = QuantizeLinear(c, t, z)  e = DequantizeLinear(d, t, z)
            f = Add(e, b)  g = QuantizeLinear(f, t, z)  h = DequantizeLinear(g, t, z)
            i = Softmax(h)  j = QuantizeLinear(i, u, none)
            y = DequantizeLinear(j, u, none)
        }
    """)
    rng = np.random.default_rng(0)
    levels = rng.integers(-127, 128, (64, 64), dtype=np.int8)
    for name, array in {"q": levels, "none": np.zeros((), np.int8)}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    file = tmp_path / "net.onnx"
    file.write_bytes(proto.SerializeToString())
    network = aotc.from_onnx(file)
    inputs = {"x": rng.standard_normal((16, 64)).astype("f4")}
    found = np.asarray(network.compute(inputs))
    np.testing.assert_allclose(found, network.original.run(inputs), atol=1e-7)


def test_modules_of_torch_with_buffers_run_as_they_were_exported():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)
            self.table = torch.nn.Embedding(5, 3)

        def forward(self, x, options):
            return {"sum": self.norm(x) + self.table(options["ids"]), "none": None}

    torch.manual_seed(0)
    example = (torch.randn(4, 3), {"ids": torch.tensor([0, 4, 2, 2])})
    network = aotc.from_torch(Net(), example)
    inputs = {
        "x": np.random.default_rng(0).standard_normal((4, 3)).astype("f"),
        "options": {"ids": np.array([1, 2, 3, 4])},
    }
    before = flatten(network.state.tree)[0]
    agree(network, inputs, updates=True)
    agree(network, inputs, updates=True)  # the first run has changed nothing
    for x, y in zip(before, flatten(network.state.tree)[0], strict=True):
        np.testing.assert_array_equal(x, y)
    assert steps_agree(network, inputs) >= 3
    assert network.original.example["options"]["ids"].tolist() == [0, 4, 2, 2]


def test_functions_of_jax_run_with_their_weights():
    jax = pytest.importorskip("jax")

    def apply(params, x):
        return {"y": jax.numpy.tanh(x @ params["w"]), "n": x.sum()}

    weights = aotc.Weights({"w": np.ones((4, 3), "f") / 3})
    network = aotc.from_jax(apply, (weights, aotc.Spec(("batch", 4))))
    agree(network, {"x": np.arange(8, dtype="f").reshape(2, 4)})


def test_modules_of_stablehlo_run_by_its_own_interpreter():
    pytest.importorskip("jaxlib")
    network = aotc.from_stablehlo("""
        func.func @main(%a: tensor<?x3xf32>, %p: tensor<3xi1>, %n: tensor<2xui8>)
            -> (tensor<?x3xf32>, tensor<3xi1>, tensor<2xui8>) {
          %0 = stablehlo.add %a, %a : tensor<?x3xf32>
          %1 = stablehlo.not %p : tensor<3xi1>
          %2 = stablehlo.add %n, %n : tensor<2xui8>
          func.return %0, %1, %2 : tensor<?x3xf32>, tensor<3xi1>, tensor<2xui8>
        }""")
    names = list(network.inputs)
    arrays = [np.ones((2, 3), "f"), np.array([True, False, True])]
    arrays.append(np.array([250, 3], np.uint8))
    agree(network, dict(zip(names, arrays, strict=True)))
