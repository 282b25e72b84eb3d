"""Operands of few bits become f32 where a kernel loads them, and give the same sums."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.kernels.capabilities import capabilities_of
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.programs.files import read_program

pytest.importorskip("ml_dtypes")

MODEL = Path(__file__).parent / "dequantised.py"
NAMES = [entry.name for entry in load(MODEL).entries]


@cache
def _program():
    return load(MODEL)


@pytest.mark.parametrize("name", NAMES)
def test_products_by_operands_of_few_bits_are_right(compiled, terms, name):
    rng, inputs = np.random.default_rng(1), {}
    for port in _program().entry(name).ports("input"):
        shape = [n if isinstance(n, int) else 21 for n in port.type.shape]
        drawn = rng.integers(0, 100, shape) - 50 * (port.type.dtype != "u8")
        inputs[port.name] = drawn.astype(dtypes.to_numpy(port.type.dtype))
    inputs["scale"] = rng.uniform(0.5, 2.0, inputs["scale"].shape).astype("f4")
    (wanted,) = reference.evaluate(_program().module, name, [*inputs.values()])
    for found in (getattr(compiled, name)(**inputs), *terms.evaluate(name, inputs)):
        scale = abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * scale)


def test_kernels_read_the_bits_and_not_what_is_made_of_them(tmp_path):
    target = Target.parse("x86_64-v4")
    build(MODEL, targets=[target], dump=tmp_path, stop_after="regions")
    regions = read_program(tmp_path / "x86_64-v4" / "regions.mlir")
    second = [
        str(function.entry_block.arguments[1].type)
        for function in functions_of(regions.module).values()
        if (fused := fused_of(function)) and fused.kernel == "contraction"
    ]
    narrow = [each for each in second if "f32" not in each]
    assert len(narrow) == len(NAMES) - 1  # but for "by_rows"


def test_an_instruction_is_a_row_of_a_machine():
    """Without the row integers are left to IREE; with it kernels multiply them."""
    known = capabilities_of(Target.parse("x86_64-v3"))
    (row,) = (each for each in known.machine.multipliers if not each.within)
    without = replace(known, machine=replace(known.machine, multipliers=()))
    module = load(MODEL.parent / "integers.py").module
    products = [
        op.opview
        for function in functions_of(module).values()
        for op in function.entry_block.operations
        if isinstance(op.opview, DotGeneral)
    ]
    with module.context:
        for op in products:
            if Tensor.of(op.lhs).dtype in row.dtypes:
                assert without.choose(op, by_weight=True) is None
        found = [known.choose(op, by_weight=True) for op in products]
    assert {each.tile.get("terms") for each in found if each} == {row.terms}
