"""`aotc build --io-layout`: bundles that take and return images in another layout."""

import json

import numpy as np
import pytest

import aotc
from aotc.checks.parity import ComparisonOptions
from aotc.cli.main import main
from aotc.errors import AotcError, InputError
from aotc.machine.target import Target
from aotc.pipeline import build

onnx = pytest.importorskip("onnx")

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[batch,3,8,6] x, float[3,4] table) => (float[batch,5,8,6] y, float[batch,5] z)
{
  h = Conv<pads = [1, 1, 1, 1]>(x, kernel)
  y = Relu(h)
  z = ReduceMean<axes = [2, 3], keepdims = 0>(y)
}
"""
CHOICES = {"targets": [Target.parse("x86_64-v3")], "sign": False}


@pytest.fixture
def source(tmp_path):
    """An .onnx file with a convolution, whose channels come first."""
    proto = onnx.parser.parse_model(MODEL)
    rng = np.random.default_rng(5)
    kernel = rng.normal(size=(5, 3, 3, 3)).astype("f4")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(kernel, "kernel"))
    file = tmp_path / "net.onnx"
    onnx.save(proto, file)
    return file


def test_an_imported_network_takes_and_returns_images_of_channels_last(
    source, tmp_path, capsys
):
    """The comparison with its framework, the manifest, calls, and IR of any stage."""
    dump, bundle = tmp_path / "ir", tmp_path / "a"
    asked = {**CHOICES, "io_layout": "nhwc", "dump": dump, "output": bundle}
    report = build(source, parity=ComparisonOptions(), self_check="off", **asked)
    (parity,) = report.parities
    assert parity.passed
    assert len(parity.sizes) == 2
    assert [str(each) for each in report.images] == [
        "main: input x is nhwc, nchw in the source",
        "main: output y is nhwc, nchw in the source",
    ]
    for stage in ("optimized", "regions"):
        (file,) = dump.rglob(f"{stage}.mlir")
        assert "graph.transpose" not in file.read_text()
    assert main(["inspect", str(report.bundle)]) == 0
    shown = capsys.readouterr().out
    assert "x: f32[batch, 8, 6, 3] nhwc, table: f32[3, 4])" in shown
    assert "y: f32[batch, 8, 6, 5] nhwc, z: f32[batch, 5]" in shown
    model = aotc.load(report.bundle, allow_unsigned=True)
    table = np.zeros((3, 4), "f4")
    found = model.main(x=np.ones((2, 8, 6, 3), "f4"), table=table)
    assert [x.shape for x in found.values()] == [(2, 8, 6, 5), (2, 5)]
    with pytest.raises(AotcError, match="looks like nchw: .* layout nhwc") as caught:
        model.main(x=np.ones((2, 3, 8, 6), "f4"), table=table)
    assert caught.value.guard == "layout of x"
    manifests = [_manifest(report)]
    for stage in ("graph", "optimized", "regions"):
        (file,) = dump.rglob(f"{stage}.mlir")
        again = build(file, self_check="off", output=tmp_path / stage, **CHOICES)
        assert again.images == report.images
        manifests.append(_manifest(again))
    for each in manifests:
        each.pop("parity", None)
    assert all(each == manifests[0] for each in manifests)


def _manifest(report):
    return json.loads((report.bundle / "manifest.json").read_bytes())


def test_a_layout_is_asked_for_of_a_graph_with_images(source, tmp_path):
    build(source, dump=tmp_path / "ir", stop_after="optimized")
    graph, late = (tmp_path / "ir" / f"{n}.mlir" for n in ("graph", "optimized"))
    assert build(graph, io_layout="nhwc", stop_after="graph").images
    with pytest.raises(InputError, match="stage 'graph' or before for --io-layout"):
        build(late, io_layout="nhwc")
    with pytest.raises(InputError, match="layout of images of nhwc, nchw; got 'nhcw'"):
        build(source, io_layout="nhcw")
    plain = tmp_path / "plain.py"
    plain.write_text(
        "import aotc\n@aotc.entry(x=aotc.Spec((2, 3, 4, 5)))\ndef f(x):\n    return x\n"
    )
    assert main(["build", str(plain), "--io-layout", "nhwc"]) == 2
    with pytest.raises(InputError) as caught:
        build(plain, io_layout="nhwc")
    assert caught.value.code == "no-images"


def test_images_that_are_enlarged_keep_their_layout(tmp_path):
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[batch,3,8,6] x) => (float[batch,3,h,w] y)
        <float[4] scales = {1.0, 1.0, 2.0, 3.0}>
        {
          a = Conv<pads = [1, 1, 1, 1]>(x, kernel)
          b = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric",
                     nearest_mode = "floor">(a, , scales)
          y = Conv<pads = [1, 1, 1, 1]>(b, kernel)
        }
        """
    )
    kernel = np.ones((3, 3, 3, 3), "f4")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(kernel, "kernel"))
    onnx.save(proto, tmp_path / "net.onnx")
    report = build(tmp_path / "net.onnx", io_layout="nhwc", stop_after="optimized")
    assert "graph.broadcast" in report.ir
    assert "graph.transpose" not in report.ir
