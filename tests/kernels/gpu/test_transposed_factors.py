"""Products by a right factor that lies in another order than kernels read best."""

from pathlib import Path

import pytest

import aotc
import aotc.numpy as np
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.shape import Transpose
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.kernels import capabilities
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.programs.program import Program
from aotc.tracing.assembly import trace


@pytest.fixture(autouse=True)
def _with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "has_triton", lambda: True)


MODEL = """
import numpy
import aotc
import aotc.numpy as np

aotc.bundle(name="thin", version="1.0.0")
w = aotc.Weights({"w": numpy.ones((256, 512), "f4")})


@aotc.entry(x=aotc.Spec((1, 256)))
def f32(w, x):
    return x @ w["w"]


@aotc.entry(x=aotc.Spec((1, 256), "bf16"))
def bf16(w, x):
    return x @ w["w"].astype("bf16")


@aotc.entry(x=aotc.Spec((1, 256)), y=aotc.Spec((256, 512)))
def input(x, y):
    return x @ y
"""


def regions_of(program: Program, target: str) -> tuple[Unit, list[GraphOp]]:
    """A program whose regions are formed, and all its ops, which live as long."""
    unit = Unit(program).fork(Target.parse(target))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    functions = functions_of(unit.module).values()
    return unit, [op for each in functions for op in each.entry_block.operations]


@pytest.mark.parametrize(
    ("dtype", "rows", "target", "numerics", "axes"),
    [
        ("f32", 1024, "cuda:sm_90a", "strict", (0,)),
        ("f32", 8, "cuda:sm_90a", "strict", (1,)),  # too little to gain a launch
        ("f32", 1024, "cuda:sm_90a", "relaxed", (1,)),  # TF32
        ("bf16", 1024, "cuda:sm_90a", "strict", (1,)),
        ("f32", 1024, "rocm:gfx942", "strict", (1,)),  # has instructions for f32
        ("f32", 1024, "rocm:gfx1100", "strict", (0,)),
    ],
)
def test_columns_lie_beside_each_other_where_numbers_are_multiplied_one_by_one(
    dtype: str, rows: int, target: str, numerics: str, axes: tuple[int, ...]
) -> None:
    @aotc.entry(x=aotc.Spec((rows, 256), dtype), w=aotc.Spec((512, 256), dtype))
    def linear(x, w):
        return np.einsum("rk,ck->rc", x, w)

    program = trace([linear], {})
    program.numerics = numerics
    _unit, ops = regions_of(program, target)
    (found,) = (op.rhs_contract for op in ops if isinstance(op, DotGeneral))
    assert found == axes


def test_products_of_few_rows_read_weights_along_what_they_sum_over(
    tmp_path: Path,
) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    _unit, found = regions_of(load(model), "cuda:sm_90a")
    products = [op for op in found if isinstance(op, DotGeneral)]
    by_shape = {tuple(Tensor.of(op.rhs).shape): op.rhs_contract for op in products}
    assert by_shape == {(512, 256): (1,), (256, 512): (0,)}
    assert not any(isinstance(op, Transpose) for op in found)  # the build has them
