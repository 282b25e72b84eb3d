"""Products of f32 by a right factor whose columns do not lie beside each other."""

import pytest

import aotc
import aotc.numpy as np
from aotc.dialects.functions import functions_of
from aotc.dialects.ops.contraction import DotGeneral
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.target import Target
from aotc.tracing.assembly import trace


def right_axes(dtype: str, rows: int, target: str, numerics: str) -> tuple[int, ...]:
    """The axes of the right factor that the kernel of a product sums over."""

    @aotc.entry(x=aotc.Spec((rows, 256), dtype), w=aotc.Spec((512, 256), dtype))
    def linear(x, w):
        return np.einsum("rk,ck->rc", x, w)

    program = trace([linear], {})
    program.numerics = numerics
    unit = Unit(program).fork(Target.parse(target))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    (found,) = (
        op.rhs_contract
        for function in functions_of(unit.module).values()
        for op in function.entry_block.operations
        if isinstance(op, DotGeneral)
    )
    return found


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
def test_the_factor_is_transposed_where_numbers_are_multiplied_one_by_one(
    dtype: str, rows: int, target: str, numerics: str, axes: tuple[int, ...]
) -> None:
    assert right_axes(dtype, rows, target, numerics) == axes
