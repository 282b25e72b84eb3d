"""Images of other sizes in ONNX files and PyTorch modules, also of symbolic sizes."""

import math

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects import context
from aotc.dialects.types import evaluate_size
from aotc.errors import InputError
from aotc.importers.common.scaling import SymbolicFloat, scaled_size
from aotc.tracing.assembly import trace

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from aotc.importers.onnx.network import network_of  # noqa: E402
from aotc.importers.onnx.reading import model_of  # noqa: E402
from aotc.importers.onnx.tensors import OnnxFiles  # noqa: E402


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
    return network_of(model_of(model, "resize", OnnxFiles(None, b"")), {})


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


# operators and numbers, as PyTorch and exporters compute sizes
COMPUTED = [
    ([("*", 0.7)], math.trunc),
    ([("*", 1.3)], math.ceil),
    ([("/", 1.5)], math.floor),
    ([("/", 32.0)], math.ceil),
    ([("+", 2.0), ("/", 3.0), ("+", 1.0)], math.floor),
    ([("*", 0.5), ("+", 0.5)], math.floor),  # halves are rounded up
    ([("*", 0.3), ("*", 0.3)], math.floor),
    ([("*", 0.3), ("-", 0.1)], math.ceil),
    ([("*", 0.1), ("+", 0.3)], math.floor),  # never whole but for 3 of 10
]
NUMPY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_size_that_is_computed_in_floats_is_what_they_give_or_refused(kind):
    for steps, rounding in COMPUTED:
        sizes = []

        @aotc.entry(x=aotc.Spec((aotc.Dim("n", max=3000),)))
        def computed(x):
            found = SymbolicFloat(x.type.shape[0], kind, tuple(steps))  # noqa: B023
            sizes.append(found.round(rounding))  # noqa: B023
            return x

        (entry,) = trace([computed], {}).entries
        n = np.arange(1, 3001)
        floats = n.astype(kind)
        for sign, number in steps:
            floats = NUMPY[sign](floats, kind(number))
        wanted = getattr(np, rounding.__name__)(floats).astype(int)
        refused = 0
        for size, number in zip(n.tolist(), wanted, strict=True):
            if not all(guard.holds({"n": size}) for guard in entry.guards):
                refused += 1
                continue
            with context():
                assert evaluate_size(sizes[0], [size]) == number, (steps, size)
        assert refused < 300, steps


def test_what_no_call_can_round_alike_is_refused_with_the_way_out():
    def computed(steps, rounding=math.floor):
        @aotc.entry(x=aotc.Spec((aotc.Dim("n", max=99),)))
        def entry(x):
            SymbolicFloat(x.type.shape[0], np.float64, steps).round(rounding)
            return x

        with pytest.raises(InputError) as caught:
            trace([entry], {})
        assert caught.value.code == "symbolic-size"
        return f"{caught.value.message} {caught.value.hint}"

    assert "negative" in computed((("-", 5.5),), math.trunc)
    assert "small numbers" in computed((("*", 0.7318264519283),) * 2)
    assert "size * 7 // 10" in computed((("*", 1e30),))


def sized(steps, dtype, opset=19):
    """A Resize to sizes that are computed of those of `x` in floats of a dtype."""
    code = {"f4": TensorProto.FLOAT, "f8": TensorProto.DOUBLE}[dtype]
    stored = {"two": np.int64([2]), "four": np.int64([4]), "ones": np.int64([1, 1])}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "two", "four"], ["v"]),
        helper.make_node("Cast", ["v"], ["v0"], to=code),
    ]
    for i, (op, *numbers) in enumerate(steps, 1):
        inputs = [f"v{i - 1}", *(f"c{i}" for _ in numbers)]
        stored |= {f"c{i}": np.array(number, dtype) for number in numbers}
        nodes.append(helper.make_node(op, inputs, [f"v{i}"]))
    nodes += [
        helper.make_node("Cast", [f"v{len(steps)}"], ["i"], to=TensorProto.INT64),
        helper.make_node("Concat", ["ones", "i"], ["sizes"], axis=0),
        helper.make_node(
            "Resize",
            ["x", "", "", "sizes"],
            ["y"],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 1, "h", "w"]), ("y", [1, 1, None, None]))
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "sizes", ends[:1], ends[1:], tensors)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sizes_that_an_onnx_file_computes_in_floats_are_onnx_runtimes(dtype):
    """90 times 0.7 is 63 in f32, and 62 in f64, for which calls are refused."""
    runtime = pytest.importorskip("onnxruntime")
    for steps in (
        [("Mul", 0.7), ("Floor",)],
        [("Mul", [0.7, 1.3])],
        [("Div", 1.5), ("Floor",)],
        [("Mul", 0.3), ("Ceil",)],
        [("Div", 32.0), ("Ceil",), ("Mul", 32.0)],
        [("Add", 2.0), ("Div", 3.0), ("Add", 1.0), ("Floor",)],
    ):
        model = sized(steps, dtype)
        session = runtime.InferenceSession(model.SerializeToString())
        program = network_of(
            model_of(model, "sizes", OnnxFiles(None, b"")), {}
        ).program()
        (entry,) = program.entries
        refused = []
        for h, w in ((2, 3), (10, 20), (33, 7), (90, 50), (100, 31), (170, 64)):
            x = np.arange(h * w, dtype="f4").reshape(1, 1, h, w)
            values = {each.name: {"h": h, "w": w}[each.name] for each in entry.symbols}
            if not all(guard.holds(values) for guard in entry.guards):
                refused.append((h, w))
                continue
            given = [program.parameters.get(port.name, x) for port in entry.arguments]
            (found,) = reference.evaluate(program.module, "main", given)
            np.testing.assert_array_equal(found, session.run(None, {"x": x})[0])
        assert len(refused) <= 3, steps
        if steps[0] == ("Mul", 0.7):
            assert refused == ([] if dtype == "f4" else [(90, 50), (170, 64)])


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


def test_sizes_that_pytorch_computes_in_floats_are_its_own():
    torch = pytest.importorskip("torch")
    from torch.export import Dim

    class Network(torch.nn.Module):
        def forward(self, x):
            resize = torch.nn.functional.interpolate
            height, width = x.shape[2:]
            smooth = {"mode": "bilinear", "recompute_scale_factor": True}
            return [
                resize(x, scale_factor=0.7, **smooth),
                resize(x, scale_factor=(1.3, 0.5), recompute_scale_factor=True),
                resize(x, size=(math.floor(height / 1.5), math.ceil(width * 0.3))),
                resize(x, size=(torch.sym_int((height + 2) / 4 + 1), 5)),
                x * (height * 0.3) + torch.sym_sqrt(width * 0.5),
                x * (height * 0.25 / width),
            ]

    # between places of some hundred, f32 leaves as much as the bound of steep pixels
    torch.manual_seed(0)
    net, example = Network(), torch.randn(1, 2, 20, 30)
    sizes = {2: Dim("h", min=4, max=200), 3: Dim("w", min=4, max=200)}
    program = aotc.from_torch(net, (example,), dynamic_shapes=(sizes,)).program()
    (entry,) = program.entries
    refused = []
    for size in ((20, 30), (10, 80), (7, 199), (30, 60), (90, 50), (50, 180)):
        x = torch.randn(1, 2, *size)
        symbols = dict(zip((s.name for s in entry.symbols), size, strict=True))
        if not all(guard.holds(symbols) for guard in entry.guards):
            refused.append(size)
            continue
        found = reference.evaluate(program.module, "main", [x.numpy()])
        for array, wanted in zip(found, net(x), strict=True):
            assert array.shape == tuple(wanted.shape)
            np.testing.assert_allclose(array, wanted.numpy(), rtol=2e-5, atol=2e-5)
    assert refused == [(90, 50), (50, 180)]  # torch: 62 of 90, which is not 7/10


def test_a_size_of_two_sizes_in_floats_is_refused_with_the_way_out():
    torch = pytest.importorskip("torch")
    from torch.export import Dim

    class Network(torch.nn.Module):
        def forward(self, x):
            size = torch.sym_int(x.shape[2] * 0.5 * x.shape[3] / 9)
            return torch.nn.functional.interpolate(x, size=(size, 5))

    sizes = {2: Dim("h", min=4, max=99), 3: Dim("w", min=4, max=99)}
    example = torch.randn(1, 2, 20, 30)
    with pytest.raises(InputError, match="several sizes") as caught:
        aotc.from_torch(Network(), (example,), dynamic_shapes=(sizes,)).program()
    assert caught.value.code == "symbolic-size"
    assert "whole numbers" in caught.value.hint
