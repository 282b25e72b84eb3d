"""Shapes that files declare are those that their import comes to, or it is refused."""

import numpy as np
import pytest

import aotc
from aotc import Dim
from aotc.errors import InputError
from aotc.importers.stablehlo import from_stablehlo

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, parser  # noqa: E402

from aotc.importers.onnx import from_onnx  # noqa: E402


def stored(folder, between, out, size="n"):
    """A file of two nodes whose values are declared to have these shapes."""
    text = f"""
        <ir_version: 9, opset_import: ["": 18]>
        net (float[{size}, 3] x) => (float y) {{ h = Transpose(x)  y = Neg(h) }}
    """
    proto = parser.parse_model(text)
    if between is not None:
        info = helper.make_tensor_value_info("h", TensorProto.FLOAT, between)
        proto.graph.value_info.append(info)
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, out)
    proto.graph.output[0].CopyFrom(end)
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("between", "out", "where"),
    [([4, None], None, "'h' of Transpose"), (None, [3, None, 1], "'y' of Neg")],
)
def test_a_declared_shape_that_is_contradicted_is_an_error_at_its_node(
    tmp_path, between, out, where
):
    with pytest.raises(InputError) as caught:
        from_onnx(stored(tmp_path, between, out)).program()
    error = caught.value
    assert error.code == "declared-shape"
    assert where in error.message
    assert "[3, n]" in error.message
    assert "net.onnx:" in error.where


@pytest.mark.parametrize(
    ("between", "out"),
    [
        ([3, "other"], ["p", "q"]),  # names are no promise
        ([3, 1], [3, 1]),  # of the size that the file had before it was opened
        ([0, -1], [0, -1]),  # what exporters write for nothing known
        ([], []),
    ],
)
def test_shapes_that_say_nothing_for_sure_are_not_compared(tmp_path, between, out):
    path = stored(tmp_path, between, out)
    from_onnx(path).program()
    from_onnx(path, dims={"n": 8}).program()
    from_onnx(path, dims={"n": Dim("n", max=5)}).program()


def test_a_declared_shape_of_a_fixed_file_is_compared(tmp_path):
    with pytest.raises(InputError, match="declared-shape"):
        from_onnx(stored(tmp_path, [3, 5], None, size=4)).program()


def test_shapes_of_stablehlo_are_compared(tmp_path, monkeypatch):
    from aotc.importers.stablehlo.ops import OPS

    file = tmp_path / "net.mlir"
    file.write_text("""
        func.func public @main(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
          %0 = stablehlo.negate %x : tensor<4x3xf32>
          return %0 : tensor<4x3xf32>
        }
    """)
    from_stablehlo(file).program()
    monkeypatch.setitem(OPS, "stablehlo.negate", lambda op, x: x[1:])
    with pytest.raises(InputError, match=r"stablehlo.negate with the shape \[4, 3\]"):
        from_stablehlo(file).program()


def test_shapes_of_pytorch_are_compared(monkeypatch):
    torch = pytest.importorskip("torch")
    from aotc.importers.torch.ops import OPS

    class Negation(torch.nn.Module):
        def forward(self, x):
            return -x

    batch = torch.export.Dim("batch")
    net = aotc.from_torch(
        Negation(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: batch}}
    )
    net.program()
    monkeypatch.setitem(OPS, "aten.neg", lambda x: x[:, 1:])
    with pytest.raises(InputError, match=r"with the shape \[\?, 3\].*\[batch, 2\]"):
        net.program()


def test_a_network_may_be_called_with_other_sizes(tmp_path):
    """Then what the file declares of its values is not theirs."""
    x = np.ones((7, 3), "f4")
    assert from_onnx(stored(tmp_path, [3, 4], [3, 4], size=4))(x).shape == (3, 7)
