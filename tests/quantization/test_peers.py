"""int8 beside the quantiser of ONNX Runtime, on one ONNX file and the same data."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.data import Data
from tests.quantization.models import DIGITS, load, quantized

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def digits_onnx(path):
    """The digits example as an ONNX file: images are NCHW, dense weights (in, out)."""
    weights = {
        name.replace(".", "_"): array
        for name, array in load_file(DIGITS / "digits.safetensors").items()
    }
    for name in ("conv1_kernel", "conv2_kernel"):
        weights[name] = weights[name].transpose(3, 2, 0, 1)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Mul", ["x", "share"], ["x0"]),
        node("Conv", ["x0", "conv1_kernel", "conv1_bias"], ["c1"], pads=[1] * 4),
        node("Relu", ["c1"], ["x1"]),
        node("Conv", ["x1", "conv2_kernel", "conv2_bias"], ["c2"], pads=[1] * 4),
        node("Relu", ["c2"], ["x2"]),
        node("MaxPool", ["x2"], ["x3"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", ["x3"], ["x4"], perm=[0, 2, 3, 1]),
        node("Flatten", ["x4"], ["x5"]),
        node("Gemm", ["x5", "dense1_kernel", "dense1_bias"], ["d1"]),
        node("Relu", ["d1"], ["x6"]),
        node("Gemm", ["x6", "dense2_kernel", "dense2_bias"], ["y"]),
    ]
    weights["share"] = np.array(1 / 16, "f")
    graph = onnx.helper.make_graph(
        nodes,
        "digits",
        [value("x", onnx.TensorProto.FLOAT, ["n", 1, 8, 8])],
        [value("y", onnx.TensorProto.FLOAT, ["n", 10])],
        [
            onnx.numpy_helper.from_array(np.ascontiguousarray(x), n)
            for n, x in weights.items()
        ],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def peer_agreement(path, out, calibration, x):
    """How often ONNX Runtime's int8 of a file agrees with the file."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.rest = iter(np.array_split(calibration, 4))

        def get_next(self):
            part = next(self.rest, None)
            return None if part is None else {"x": part}

    quantization.quantize_static(
        path,
        out,
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
    )
    answers = []
    for file in (path, out):
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        answers.append(session.run(None, {"x": x})[0].argmax(-1))
    return np.mean(answers[0] == answers[1])


def test_int8_agrees_with_floats_as_often_as_that_of_a_peer(
    tmp_path, calibration, held_out
):
    path = str(tmp_path / "digits.onnx")
    digits_onnx(path)
    images, test = (
        np.ascontiguousarray(data.arrays["x"].transpose(0, 3, 1, 2))
        for data in (calibration, held_out)
    )
    assert len(images) == 128
    peer = peer_agreement(path, str(tmp_path / "peer.onnx"), images, test)
    data = Data({"x": images}, "calibration"), Data({"x": test}, "held out")
    found = quantized(load(path), QuantizationOptions("int8"), *data)
    assert {row.plan.precision for row in found.report.rows} == {"int8"}
    lost = found.recipe.quality["lost"]
    assert found.recipe.quality["samples"] == 360
    assert lost <= 0.005
    assert 1 - lost >= peer - 0.003  # one of 360
