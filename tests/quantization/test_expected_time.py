"""Expected times: the roofline of each layer, before and after."""

import pytest

from aotc.dialects import context
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.expected_time import expected_times
from aotc.quantization.layers import layers_of, prepare
from aotc.quantization.quantizer import quantize
from tests.quantization.models import DIGITS, load

DOT = Target.parse("x86_64-v4-dot")  # 32 multiply-adds a cycle, 8 bytes of memory
PRODUCTS, BYTES = 3e9 * 32, 3e9 * 8


@pytest.fixture(scope="module")
def layers():
    program = load(DIGITS / "model.py", "predict")
    with context(), ir.Location.unknown():
        prepare(program)
        yield layers_of(program)


def test_layers_take_what_multiplies_or_what_is_read(layers):
    conv, dense = layers[1].form, layers[2].form
    assert (conv.terms, dense.terms) == (3 * 3 * 16, 512)
    times = expected_times(layers, ["int8"] * 4, DOT)
    multiplied = 8 * 8 * 32 * conv.terms / PRODUCTS
    assert times[1][0] == pytest.approx(multiplied)
    assert times[1][1] == pytest.approx(multiplied / 4)  # vpdpbusd adds four
    activations = 4 * (512 + 64)
    assert times[2][0] == pytest.approx((4 * 512 * 64 + activations) / BYTES)
    scaled = 512 * 64 + 4 * 64
    assert times[2][1] == pytest.approx((scaled + activations) / BYTES)


def test_products_of_floats_gain_by_the_bytes_of_weights_alone(layers):
    times = expected_times(layers, ["int8-weights"] * 4, DOT)
    assert times[1][1] == times[1][0]
    assert times[2][1] < times[2][0] / 3


def test_a_level_without_dot_products_gains_less(layers):
    kinds = ["int8"] * 4
    dot, plain = (
        expected_times(layers, kinds, t) for t in (DOT, Target.parse("x86_64-v4"))
    )
    assert dot[1][1] < plain[1][1] <= plain[1][0]


def test_reports_say_no_times_of_targets_without_a_model(calibration):
    for target, is_known in ((DOT, True), (Target.parse("cuda"), False)):
        program = load(DIGITS / "model.py", "predict")
        with context(), ir.Location.unknown():
            report = quantize(
                program, QuantizationOptions("int8-weights"), target=target
            ).report
        rows, said = report.to_json()["layers"], report.to_json()["expected"]
        assert ("take at best" in report.to_text()) == is_known
        assert all(("seconds_after" in row) == is_known for row in rows)
        assert (said is not None) == is_known
    assert report.seconds is None
