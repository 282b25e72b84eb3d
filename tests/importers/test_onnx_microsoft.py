"""Quantised operators of ONNX Runtime give what it computes.

Its results are recorded in `microsoft.npz`, so that they are compared where it is not
installed: `python tests/importers/test_onnx_microsoft.py` writes them anew.
"""

from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from aotc.errors import InputError  # noqa: E402
from aotc.importers.onnx import from_onnx  # noqa: E402

RECORDED = Path(__file__).with_name("microsoft.npz")
TYPES = {np.dtype(x): helper.np_dtype_to_tensor_dtype(np.dtype(x)) for x in
         ("f4", "f2", "u1", "i1", "i4", "i8")}  # fmt: skip


@dataclass
class Case:
    """A node: its inputs by name, which are given at a call if they are in `calls`.

    Args:
        op: the operator.
        inputs: None for one that is left out.
        calls: which of them are no initialisers.
        attributes: of the node.
        results: how many there are.
        kind: of the results' elements.
        domain: of the operator.
        codes: element types of initialisers that NumPy has none of.
    """

    op: str
    inputs: dict
    calls: tuple
    attributes: dict = field(default_factory=dict)
    results: int = 1
    kind: int = TensorProto.UINT8
    domain: str = "com.microsoft"
    codes: dict = field(default_factory=dict)

    def model(self):
        """The file."""
        names = [n if x is not None else "" for n, x in self.inputs.items()]
        outputs = [f"y{n}" for n in range(self.results)]
        node = helper.make_node(
            self.op, names, outputs, domain=self.domain, **self.attributes
        )
        given = [self._input(name) for name in self.calls]
        made = [helper.make_tensor_value_info(x, self.kind, None) for x in outputs]
        weights = [self._weight(n) for n in names if n and n not in self.calls]
        graph = helper.make_graph([node], "g", given, made, weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _input(self, name):
        array = self.inputs[name]
        return helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape)

    def _weight(self, name):
        array = self.inputs[name]
        if name not in self.codes:
            return numpy_helper.from_array(array, name)
        return helper.make_tensor(
            name, self.codes[name], array.shape, array.reshape(-1)
        )

    def given(self):
        """What a call gives."""
        return {name: self.inputs[name] for name in self.calls}


def f(number):
    return np.float32(number)


def cases():
    """The cases by name; the same numbers in each process."""
    for dtype in ("u1", "i1"):
        kind = TYPES[np.dtype(dtype)]
        yield from ((f"{n}-{dtype}", c) for n, c in _elementwise(dtype, kind))
        yield from ((f"{n}-{dtype}", c) for n, c in _products(dtype))
    yield from _blocks()
    yield from _attention()


def _numbers(name, dtype, shape):
    rng = np.random.default_rng(crc32(name.encode()))
    if dtype[0] in "ui":
        bounds = np.iinfo(dtype)
        return rng.integers(bounds.min, bounds.max + 1, shape, dtype)
    return rng.standard_normal(shape).astype(dtype)


def _elementwise(dtype, kind):
    zero = {"u1": 120, "i1": -7}[dtype]
    point, other = np.array(zero, dtype), np.array(zero + 5, dtype)
    x, y = (_numbers(name, dtype, (2, 4, 6, 6)) for name in "xy")
    one = {"x": x, "xs": f(0.0213), "xz": point, "ys": f(0.0307), "yz": other}
    none = one | {"xz": None, "yz": None}
    row = y[0, :1]
    two = {"a": x, "as": f(0.0213), "az": point, "b": y, "bs": f(0.0307), "bz": other}
    to = {"ys": f(0.0611), "yz": point}
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        facts = {"alpha": 0.1} if "Leaky" in op else {}
        yield op, Case(op, one | {"ys": f(0.0137)}, ("x",), facts, kind=kind)
        yield f"{op}-no-zeros", Case(op, none, ("x",), facts, kind=kind)
    for op in ("QLinearAdd", "QLinearMul"):
        yield op, Case(op, two | to, ("a", "b"), kind=kind)
        yield f"{op}-row", Case(op, two | to | {"b": row}, ("a",), kind=kind)
    op = "QLinearGlobalAveragePool"
    for last in (0, 1):
        facts = {"channels_last": last}
        yield (
            f"{op}-{last}",
            Case(op, one | {"ys": f(0.0043)}, ("x",), facts, kind=kind),
        )
    windows = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    for count in (0, 1):
        facts = windows | {"count_include_pad": count}
        yield (
            f"QLinearAveragePool-{count}",
            Case(
                "QLinearAveragePool", one | {"ys": f(0.0137)}, ("x",), facts, kind=kind
            ),
        )
    soft = {"u1": 0, "i1": -128}[dtype]
    ends = {"ys": f(1 / 256), "yz": np.array(soft, dtype)}
    for opset, axis in ((13, -1), (11, 2)):
        facts = {"opset": opset, "axis": axis}
        yield (
            f"QLinearSoftmax-{opset}",
            Case("QLinearSoftmax", one | ends, ("x",), facts, kind=kind),
        )
    parts = to | {k: two[k] for k in ("a", "as", "az", "b", "bs", "bz")}
    yield (
        "QLinearConcat",
        Case("QLinearConcat", parts, ("a", "b"), {"axis": 1}, kind=kind),
    )
    chosen = {"c": _numbers("c", "u1", (2, 4, 6, 6)) > 99}
    yield (
        "QLinearWhere",
        Case("QLinearWhere", chosen | two | to, ("a", "b"), kind=kind),
    )


def _products(dtype):
    floats, point = TensorProto.FLOAT, np.array({"u1": 128, "i1": 3}[dtype], dtype)
    a, b = _numbers("a", "u1", (5, 12)), _numbers("b", dtype, (12, 7))
    x = _numbers("x", "f4", (5, 12))
    scales = np.abs(_numbers("s", "f4", 7)) / 50
    points = _numbers("p", dtype, 7)
    bias = _numbers("bias", "f4", 7)
    dynamic = {"a": x, "b": b, "bs": scales, "bz": points, "bias": bias}
    op = "DynamicQuantizeMatMul"
    yield op, Case(op, dynamic, ("a",), kind=floats)
    plain = dynamic | {"bs": f(0.0213), "bz": None, "bias": None}
    yield f"{op}-plain", Case(op, plain, ("a",), kind=floats)
    op = "MatMulIntegerToFloat"
    both = {"a": a, "b": b, "as": f(0.0137), "bs": scales, "az": np.uint8(100),
            "bz": points, "bias": bias}  # fmt: skip
    yield op, Case(op, both, ("a",), kind=floats)
    one = both | {"bs": f(0.0213), "az": None, "bz": None, "bias": None}
    yield f"{op}-plain", Case(op, one, ("a",), kind=floats)
    sums = _numbers("c", "i4", 7) // 2**16
    whole = {"a": a, "as": f(0.0137), "az": np.uint8(99), "b": b, "bs": f(0.0213),
             "bz": point}  # fmt: skip
    yield "QGemm", Case("QGemm", whole, ("a",), kind=floats)
    more = whole | {"c": sums, "ys": f(0.513), "yz": np.uint8(77)}
    yield "QGemm-quantized", Case("QGemm", more, ("a",))
    turned = more | {"b": np.ascontiguousarray(b.T), "a": np.ascontiguousarray(a.T)}
    facts = {"transA": 1, "transB": 1, "alpha": 0.5}
    yield "QGemm-turned", Case("QGemm", turned, ("a",), facts)


def _blocks():
    rows, inputs, outputs, block = 3, 80, 6, 32  # the last block is padded
    blocks = 3
    x = _numbers("x", "f4", (rows, inputs))
    scales = np.abs(_numbers("s", "f4", (outputs, blocks))) / 10
    bias = _numbers("bias", "f4", outputs)
    for bits in (2, 4, 8):
        b = _numbers(f"b{bits}", "u1", (outputs, blocks, block * bits // 8))
        packed = _numbers(f"z{bits}", "u1", (outputs, -(-blocks * bits // 8)))
        floats = _numbers("f", "f4", (outputs, blocks)) + 2 ** (bits - 1)
        facts = {"K": inputs, "N": outputs, "bits": bits, "block_size": block}
        for name, zeros in (("", None), ("-zeros", packed), ("-floats", floats)):
            given = {"a": x, "b": b, "s": scales, "z": zeros, "g": None, "bias": bias}
            if bits != 4 and name == "-floats":  # which its CPU code does not have
                continue
            yield (
                f"MatMulNBits-{bits}{name}",
                Case("MatMulNBits", given, ("a",), facts, kind=TensorProto.FLOAT),
            )
    facts = {"K": inputs, "N": outputs, "bits": 4, "block_size": block}
    groups = np.random.default_rng(1).permutation(np.arange(inputs) // block)
    b = _numbers("b4", "u1", (outputs, blocks, block // 2))
    flat = {"a": x, "b": b, "s": scales.reshape(-1)}
    yield (
        "MatMulNBits-groups",
        Case("MatMulNBits", flat | {"z": None, "g": groups.astype("i4")}, ("a",),
             facts, kind=TensorProto.FLOAT),
    )  # fmt: skip
    for bits in (4, 8):
        table = _numbers(f"t{bits}", "u1", (5, 64 * bits // 8))
        zeros = _numbers(f"tz{bits}", "u1", (5, 4 * bits // 8))
        at = np.array([[0, 4], [2, -1]])
        steps = np.abs(_numbers("ts", "f4", (5, 4)))
        facts = {"bits": bits, "block_size": 16, "quantize_axis": 1, "gather_axis": 0}
        given = {"data": table, "at": at, "s": steps, "z": zeros}
        yield (
            f"GatherBlockQuantized-{bits}",
            Case("GatherBlockQuantized", given, ("at",), facts, kind=TensorProto.FLOAT),
        )
    for code, low in ((TensorProto.INT4, -8), (TensorProto.UINT4, 0)):
        q = np.random.default_rng(2).integers(low, low + 16, (7, 96))
        zero = np.random.default_rng(3).integers(low, low + 16, (7, 3))
        given = {"x": q, "s": np.abs(_numbers("qs", "f4", (7, 3))), "z": zero}
        facts = {"axis": 1, "block_size": 32}
        yield (
            f"DequantizeLinear-{code}",
            Case("DequantizeLinear", given, (), facts, kind=TensorProto.FLOAT,
                 domain="", codes={"x": code, "z": code}),
        )  # fmt: skip


def _attention():
    batch, length, size, heads, past = 2, 5, 8, 2, 3
    x = _numbers("x", "u1", (batch, length, size))
    given = {
        "x": x, "w": _numbers("w", "i1", (size, 3 * size)),
        "bias": _numbers("b", "f4", 3 * size), "xs": f(0.0137), "ws": f(0.0213),
        "m": None, "xz": np.uint8(128), "wz": np.int8(3), "past": None,
    }  # fmt: skip
    shape = (2, batch, heads, past, size // heads)
    before = {"past": _numbers("past", "f4", shape)}
    counts = {"m": np.array([5, 3], "i4")}
    mask = {"m": (_numbers("m", "u1", (batch, length)) > 90).astype("i4")}
    for name, more, causal in (
        ("", {}, 0),
        ("-counts", counts, 0),
        ("-mask", mask, 0),
        ("-causal", {}, 1),
        ("-past", before, 1),
    ):
        facts = {"num_heads": heads, "unidirectional": causal}
        calls = ("x", "past") if "past" in name else ("x",)
        yield (
            f"QAttention{name}",
            Case("QAttention", given | more, calls, facts, 2 if "past" in name else 1,
                 TensorProto.FLOAT),
        )  # fmt: skip


CASES = dict(cases())


def run_onnxruntime(case):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(case.model().SerializeToString(), options)
    return session.run(None, case.given())


def close(found, expected, name):
    """Integers may be a step apart, where a float lies in the middle of two."""
    assert found.shape == expected.shape, name
    if expected.dtype.kind == "f":
        size = max(float(np.abs(expected).max()), 1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6 * size)
        return
    steps = np.abs(found.astype(int) - expected.astype(int))
    assert steps.max() <= 1, name
    assert (steps > 0).mean() <= 0.01, name


def compute(case, folder):
    """The results of aotc's import, computed at once; it is traced as well."""
    file = folder / "net.onnx"
    onnx.save(case.model(), file)
    net = from_onnx(file)
    net.program()
    stored = [] if net.weights is None else [net.weights.tree]
    found = net(*stored, *case.given().values())
    found = found.values() if isinstance(found, dict) else [found]
    return [np.asarray(x) for x in found]


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_that_onnxruntime_gave(name, tmp_path):
    with np.load(RECORDED) as recorded:
        for number, found in enumerate(compute(CASES[name], tmp_path)):
            close(found, recorded[f"{name}.{number}"], name)


def test_the_installed_onnxruntime_gives_what_is_recorded():
    pytest.importorskip("onnxruntime")
    with np.load(RECORDED) as recorded:
        for name, case in CASES.items():
            for number, found in enumerate(run_onnxruntime(case)):
                close(found, recorded[f"{name}.{number}"], name)


def test_weights_of_four_bits_stay_packed(tmp_path):
    rng = np.random.default_rng(5)
    q = rng.integers(-8, 8, (128, 96))
    given = {"x": q, "s": np.ones((128, 3), "f4"), "z": np.zeros((128, 3), int)}
    codes = {"x": TensorProto.INT4, "z": TensorProto.INT4}
    case = Case("DequantizeLinear", given, (), {"axis": 1, "block_size": 32},
                kind=TensorProto.FLOAT, domain="", codes=codes)  # fmt: skip
    model = case.model()
    packed = ((q[:, ::2] & 15) | ((q[:, 1::2] & 15) << 4)).astype("u1").tobytes()
    (weight,) = (each for each in model.graph.initializer if each.name == "x")
    dims = weight.dims
    weight.CopyFrom(helper.make_tensor("x", TensorProto.INT4, dims, packed, raw=True))
    file = tmp_path / "net.onnx"
    onnx.save(model, file)
    net = from_onnx(file)
    assert net.weights.tree["x"].nbytes == 128 * 96 // 2
    np.testing.assert_array_equal(np.asarray(net(net.weights.tree)), q)


@pytest.mark.parametrize("change", [{"bits": 5}, {"weight_prepacked": 1}])
def test_other_weights_in_blocks_are_refused(tmp_path, change):
    case = CASES["MatMulNBits-4"]
    file = tmp_path / "net.onnx"
    facts = case.attributes | change
    onnx.save(Case(case.op, case.inputs, case.calls, facts).model(), file)
    with pytest.raises(InputError, match="weights ") as caught:
        from_onnx(file).program()
    assert caught.value.code == "unsupported-ops"


if __name__ == "__main__":
    results = {
        f"{name}.{number}": result
        for name, case in CASES.items()
        for number, result in enumerate(run_onnxruntime(case))
    }
    np.savez_compressed(RECORDED, **results)
