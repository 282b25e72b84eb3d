"""Images of other sizes in ONNX files and PyTorch modules, also of symbolic sizes."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects import context
from aotc.dialects.types import evaluate_size
from aotc.errors import InputError
from aotc.importers.common.scaling import scaled_size
from aotc.tracing.assembly import trace

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from aotc.importers.onnx.network import network_of  # noqa: E402
from aotc.importers.onnx.reading import model_of  # noqa: E402
from aotc.importers.onnx.tensors import Files  # noqa: E402


def resized(size, factor, op="Resize", opset=19, **attributes):
    """The network of one Resize of a line, of a fixed size or of a named one."""
    tensors = {"scales": np.array([factor], "f4"), "roi": np.array([0.1, 0.9], "f4")}
    inputs = ["x", "roi", "scales"] if opset > 10 else ["x", "scales"]
    node = helper.make_node(op, inputs, ["y"], **attributes)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [length])
        for name, length in (("x", size), ("y", None))
    ]
    stored = [numpy_helper.from_array(a, n) for n, a in tensors.items() if n in inputs]
    graph = helper.make_graph([node], "resize", ends[:1], ends[1:], stored)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets)
    return network_of(model_of(model, "resize", Files(None, b"")), {})


def taken(size, factor, is_open, **attributes):
    """The places that the elements of a resized line come from."""
    x = np.arange(size, dtype="f4")
    network = resized("n" if is_open else size, factor, **attributes)
    if not is_open:
        return np.asarray(network(x)).tolist()
    return reference.evaluate(network.program().module, "main", [x])[0].tolist()


# what ONNX Runtime 1.32 gives: size, factor, nearest_mode, coordinates, and the places
NEAREST = [
    (10, 0.7, "floor", "asymmetric", [0, 1, 2, 4, 5, 7, 8]),
    (7, 0.6, "floor", "asymmetric", [0, 1, 3, 5]),
    (20, 0.3, "round_prefer_ceil", "half_pixel", [1, 5, 8, 11, 15, 18]),
    (10, 0.7, "ceil", "half_pixel_symmetric", [1, 2, 4, 5, 6, 8, 9]),
    (5, 1.7, "floor", "align_corners", [0, 0, 1, 1, 2, 2, 3, 4]),
    (7, 1.1, "floor", "asymmetric", [0, 1, 2, 3, 4, 5, 6]),
]


@pytest.mark.parametrize("is_open", [False, True])
def test_sizes_and_neighbours_are_those_of_onnx_runtime(is_open):
    for size, factor, rounding, places, wanted in NEAREST:
        named = {"nearest_mode": rounding, "coordinate_transformation_mode": places}
        assert taken(size, factor, is_open, mode="nearest", **named) == wanted
    ends = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    assert taken(4, 0.6, is_open, **ends) == [0, 3]
    assert taken(7, 0.6, is_open, **ends) == pytest.approx([0, 2, 4, 6])


def test_an_upsample_that_shrinks_takes_the_neighbours_above():
    assert taken(7, 0.6, False, opset=10, mode="nearest") == [0, 2, 4, 5]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_size_times_a_factor_is_the_product_of_floats_or_refused(kind):
    for factor in (0.3, 0.5, 0.7, 0.731, 1.1, 1.3, 1.7, 2.7):
        sizes = []

        @aotc.entry(x=aotc.Spec((aotc.Dim("n"),)))
        def scaled(x):
            sizes.append(scaled_size(x.type.shape[0], factor, kind))  # noqa: B023
            return x

        (entry,) = trace([scaled], {}).entries
        refused = 0
        for n in (*range(1, 3000), 10**5, 2**20, 2**20 + 1):
            if not all(guard.holds({"n": n}) for guard in entry.guards):
                refused += 1
                continue
            with context():
                found = evaluate_size(sizes[0], [n])  # noqa: B023
            assert found == int(kind(n) * kind(factor)), (factor, n)
        assert refused < 300


@pytest.mark.parametrize("size", [5, "n"])
def test_a_crop_to_the_same_size_is_refused(size):
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    with pytest.raises(InputError, match="returns all of it"):
        resized(size, 1.0, mode="linear", **crop).program()


# ---- PyTorch ------------------------------------------------------------------------


def test_images_of_pytorch_may_have_any_size():
    torch = pytest.importorskip("torch")
    from torch.export import Dim

    smooth = {"mode": "bilinear", "align_corners": False}

    class Network(torch.nn.Module):
        def forward(self, x):
            resize = torch.nn.functional.interpolate
            half = torch.nn.functional.max_pool2d(x, 2)
            return [
                resize(half, size=x.shape[-2:], **smooth),
                resize(half, size=x.shape[-2:]),
                resize(x, scale_factor=2, mode="bilinear", align_corners=True),
                resize(x, scale_factor=2, mode="bicubic"),
                resize(x, size=(9, 4), mode="nearest-exact"),
                *(resize(x, scale_factor=f, **smooth) for f in (0.7, 1.2)),
                *(resize(x, scale_factor=f) for f in (0.7, 1.2, 2.3)),
                resize(x, scale_factor=0.7, antialias=True, **smooth),
            ]

    net, sizes = Network(), {2: Dim.AUTO, 3: Dim.AUTO}
    example = torch.randn(1, 2, 8, 12)
    imported = aotc.from_torch(net, (example,), dynamic_shapes={"x": sizes})
    module = imported.program().module
    for height, width in ((8, 12), (3, 5), (10, 20), (33, 4)):
        x = torch.randn(1, 2, height, width)
        found = reference.evaluate(module, "main", [x.numpy()])
        for ours, theirs in zip(found, net(x), strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), 1e-4, 1e-5)
