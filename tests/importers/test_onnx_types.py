"""Types of ONNX files, quantised ones among them, as ONNX has them."""

import warnings

import numpy as np
import pytest

from aotc.errors import InputError

onnx = pytest.importorskip("onnx")

from aotc.importers.onnx import from_onnx  # noqa: E402
from aotc.importers.onnx.network import network_of  # noqa: E402
from aotc.importers.onnx.reading import model_of  # noqa: E402
from aotc.importers.onnx.tensors import OnnxFiles  # noqa: E402
from tests.importers.onnx_files import sizes_of  # noqa: E402

# ---- types --------------------------------------------------------------------------


def test_small_types_keep_their_values(written):
    for kind in ("INT4", "UINT4", "FLOAT8E4M3FN", "BFLOAT16"):
        code = getattr(onnx.TensorProto, kind)
        values = [0, 1, 2, 3, 7, 5]
        tensor = onnx.helper.make_tensor("w", code, (2, 3), values)
        proto = written.proto(
            "g (float[2, 3] x) => (float[2, 3] y) "
            "{ c = Cast<to = 1>(w) y = Add(x, c) }",
            21,
        )
        proto.graph.initializer.append(tensor)
        written.file.write_bytes(proto.SerializeToString())
        net = from_onnx(written.file)
        stored = [] if net.weights is None else [net.weights.tree]
        found = np.asarray(net(*stored, np.zeros((2, 3), np.float32)))
        np.testing.assert_array_equal(found.reshape(-1), values, kind)


QUANTISED = {
    "QDQ": """
        q (float[n, 2, 5, 5] x) => (float[n, 3] y) {
            xq = QuantizeLinear(x, s, z)
            xd = DequantizeLinear(xq, s, z)
            wd = DequantizeLinear<axis = 0>(w, ws, wz)
            a = Conv<pads = [1, 1, 1, 1]>(xd, wd)
            b = Relu(a)
            c = GlobalAveragePool(b)
            y = Flatten<axis = 1>(c)
        }
    """,
    "QOperator": """
        q (float[n, 2, 5, 5] x) => (float[n, 3, 5, 5] y) {
            xq = QuantizeLinear(x, s, z)
            a = QLinearConv<pads = [1, 1, 1, 1]>(xq, s, z, w, ws, wz, s2, z)
            y = DequantizeLinear(a, s2, z)
        }
    """,
    "dynamic": """
        q (float[n, 2, 5, 5] x) => (float[n, 3, 5, 5] y) {
            xq, xs, xz = DynamicQuantizeLinear(x)
            a = ConvInteger<pads = [1, 1, 1, 1]>(xq, w, xz, wz0)
            b = Cast<to = 1>(a)
            y = Mul(b, xs)
        }
    """,
}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("MaxPool(x)", "lacks the attribute 'kernel_shape'"),
        ("Conv<ceil_mode = 1>(x, x)", "attribute 'ceil_mode' is not supported"),
        ('RNN<direction = "sideways">(x, x, x)', "got 'sideways'"),
    ],
)
def test_attributes_that_an_operator_lacks_or_does_not_have_are_told(
    written, node, reason
):
    with pytest.raises(InputError, match=reason):
        written(f"g (float[1, 1, 1] x) => (float[1, 1, 1] y) {{ y = {node} }}")(
            np.zeros((1, 1, 1), "f4")
        )


def test_sums_of_small_integers_are_exact_beyond_the_digits_of_floats(written):
    net = written(
        """g (uint8[1, 300, 1, 1] x, uint8[1, 300, 1, 1] w) => (int32[1, 1, 1, 1] y) {
            y = ConvInteger(x, w)
        }"""
    )
    x = np.full((1, 300, 1, 1), 255, "u1")
    w = x.copy()
    w[0, -1] = 254
    found = np.asarray(net(x, w)).reshape(-1).tolist()
    assert found == [299 * 255 * 255 + 255 * 254]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_an_even_number_of_channels_nearby_has_more_behind(written, size):
    net = written(
        f"net (float[1, 5, 1, 2] x) => (float[1, 5, 1, 2] y) "
        f"{{ y = LRN<size = {size}, alpha = 0.5>(x) }}"
    )
    x = np.arange(10, dtype="f4").reshape(1, 5, 1, 2)
    before, behind = (size - 1) // 2, size - 1 - (size - 1) // 2
    near = [x[:, max(c - before, 0) : c + behind + 1] for c in range(5)]
    squares = np.stack([(each**2).sum(1) for each in near], 1)
    np.testing.assert_allclose(net(x), x / (1 + 0.5 / size * squares) ** 0.75, 1e-5)


def test_norms_of_halves_are_squared_and_summed_where_they_do_not_overflow(written):
    net = written(
        """g (float16[4] x)
            => (float16[1] a, float16[4] b, float16[4] c, float16[1] d) {
            a = ReduceL2(x)
            b = LpNormalization(x)
            c = LpNormalization <p = 1> (x)
            d = ReduceLogSum(x)
        }"""
    )
    x = np.full(4, 30000, "f2")
    want = (60000, 0.5, 0.25, np.log(120000))
    for got, exact in zip(net(x).values(), want, strict=True):
        assert got.dtype == "f16"
        np.testing.assert_allclose(np.asarray(got).astype("f8"), exact, 1e-3)


@pytest.mark.parametrize(
    ("attributes", "ways", "reason"),
    [
        ('direction="bidirectional", activations=["Tanh"]', 2, "expected 2 activ.*1:"),
        ('activations=["Relu", "Tanh"]', 1, "expected 1 activations.*got 2: .'Relu'"),
        ("clip=0.0", 1, "expected a clip above 0; got 0"),
        ("layout=0", 2, "of 1 direction.*'forward' has; got f32.2, 3, 1"),
        ('direction="bidirectional"', 1, "of 2 direction.*got f32.1, 3, 1"),
    ],
)
def test_recurrent_nodes_fit_the_directions_that_they_name(
    written, attributes, ways, reason
):
    kernel, recurrent = np.ones((ways, 3, 1), "f4"), np.ones((ways, 3, 3), "f4")
    text = f"""g (float[2, 1, 1] x) => (float[2, d, 1, 3] y) {{
        y = RNN<hidden_size=3, {attributes}>(x, w, r)
    }}"""
    with pytest.raises(InputError, match=reason) as failed:
        written(text, w=kernel, r=recurrent).program()
    assert failed.value.code == "bad-node"


@pytest.mark.parametrize("kind", QUANTISED)
def test_quantised_models_compute_what_onnx_says(written, kind):
    reference = pytest.importorskip("onnx.reference")
    rng = np.random.default_rng(0)
    net = written(
        QUANTISED[kind],
        21,
        w=rng.integers(-128, 127, (3, 2, 3, 3), np.int8),
        ws=np.array([0.02, 0.05, 0.01], np.float32),
        wz=np.zeros(3, np.int8),
        wz0=np.array(0, np.int8),
        s=np.array(0.03, np.float32),
        s2=np.array(0.4, np.float32),
        z=np.array(120, np.uint8),
    )
    x = rng.normal(size=(4, 2, 5, 5)).astype(np.float32)
    (want,) = reference.ReferenceEvaluator(str(written.file)).run(None, {"x": x})
    stored = [] if net.weights is None else [net.weights.tree]
    np.testing.assert_allclose(net(*stored, x), want, 1e-5, 1e-5)
    assert sizes_of(net) == ["n"]


def test_onnx_own_tests_of_the_commonest_operators_pass():
    """A few of each; `benchmarks/frontends/onnx_nodes.py` runs them all."""
    cases = pytest.importorskip("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case.name: case for case in cases.collect_testcases(None)}
    for name in _CASES:
        case = found[name]
        inputs, outputs = case.data_sets[0]
        net = network_of(model_of(case.model, name, OnnxFiles(None, b"")), {})
        results = net(*inputs)
        results = list(results.values()) if isinstance(results, dict) else [results]
        for got, want in zip(results, outputs, strict=True):
            np.testing.assert_allclose(got, want, case.rtol, case.atol, err_msg=name)


_CASES = [
    "test_averagepool_2d_ceil",
    "test_basic_conv_with_padding",
    "test_batchnorm_example",
    "test_clip",
    "test_concat_3d_axis_negative_2",
    "test_convtranspose_autopad_same",
    "test_cumsum_1d_reverse_exclusive",
    "test_div_int32_trunc",
    "test_expand_dim_changed",
    "test_gather_elements_negative_indices",
    "test_gathernd_example_int32_batch_dim1",
    "test_gemm_all_attributes",
    "test_gru_with_initial_bias",
    "test_layer_normalization_default_axis",
    "test_lstm_with_peepholes",
    "test_maxpool_2d_dilations",
    "test_qlinearconv",
    "test_quantizelinear_blocked_asymmetric",
    "test_reduce_max_keepdims_random",
    "test_resize_upsample_sizes_nearest_ceil_half_pixel",
    "test_scatter_elements_with_reduction_max",
    "test_slice_negative_axes",
    "test_softmax_axis_0",
    "test_split_variable_parts_2d_opset18",
    "test_top_k_smallest",
    "test_where_long_example",
]


def test_running_statistics_are_buffers(written):
    net = written(
        """
        net (float[2, 3] x) => (float[2, 3] z) {
            y = BatchNormalization(x, scale, shift, mean, variance)
            z = Mul(y, gain)
        }
        """,
        **{name: np.ones(3, "f4") for name in ("scale", "shift", "mean", "variance")},
        gain=np.ones(3, "f4"),
    )
    assert set(net.buffers) == {"mean", "variance"}
    assert set(net.params) == {"scale", "shift", "gain"}
