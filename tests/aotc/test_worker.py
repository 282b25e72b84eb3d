"""The compiler's process: what IREE makes of a module is verified, phase by phase."""

import iree.compiler.ir as iree
import pytest

from aotc.core import options
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.worker.__main__ import is_valid

MODEL = """
import numpy
import aotc

weights = aotc.Weights({"w": numpy.eye(64, dtype="f4")})


@aotc.entry(x=aotc.Spec((32, 64)))
def f(weights, x):
    return aotc.nn.relu(x @ weights["w"])
"""


@pytest.mark.usefixtures("compile_anew")
def test_code_is_the_same_however_often_it_is_verified(tmp_path):
    source = tmp_path / "model.py"
    source.write_text(MODEL)
    asked = {"targets": [Target.parse("x86_64-v4")], "sign": False}
    asked |= {"self_check": "off", "cache": False}
    found = []
    for each in ("0", "1"):
        with options.override("AOTC_VERIFY_EACH", each):
            report = build(source, output=tmp_path / each, **asked)
        assert report.bundle is not None
        (module,) = report.bundle.rglob("*.vmfb")
        found.append(module.read_bytes())
    assert found[0] == found[1]


def test_a_phase_that_leaves_invalid_ir_is_told(capfd):
    with iree.Context(), iree.Location.unknown():
        module = iree.Module.parse(
            "func.func @f(%x: f32) -> f32 {\n"
            "  %0 = arith.negf %x : f32\n"
            "  %1 = arith.mulf %0, %0 : f32\n"
            "  return %1 : f32\n"
            "}"
        )
        assert is_valid(module)
        (function,) = module.body.operations
        negated, product, _ = function.regions[0].blocks[0].operations
        product.operation.move_before(negated.operation)
        assert not is_valid(module)
    assert "does not dominate" in capfd.readouterr().err
