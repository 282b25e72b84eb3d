"""The inner loops of kernels hold their sums in registers, as schedules say."""

import pytest

from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import machine_of
from aotc.kernels.planning.tile import choose_tile
from aotc.machine.target import Target
from benchmarks.inner_loops import assembly, inner_loops

MODEL = """
import aotc
import numpy
from aotc import nn

w = aotc.Weights(numpy.random.default_rng(0).normal(size=(64, 240)).astype("f4"))


@aotc.entry(x=aotc.Spec((120, 64), "f32"))
def layer(w, x):
    return nn.gelu(x @ w)
"""
SPILLED = """
kernel:
	mov	x29, sp
.LBB0_1:
	ldr	q0, [x29, #-16]
	fmla	v1.4s, v0.4s, v9.s[0]
	fmla	v2.4s, v0.4s, v9.s[0]
	fmla	v3.4s, v0.4s, v9.s[0]
	ldr	x3, [sp, #8]
	fmla	v4.4s, v0.4s, v9.s[0]
	ldr	q5, [sp, x3]
	b.ne	.LBB0_1
other:
.LBB1_1:
.LBB1_2:
	vfmadd231ps	%ymm1, %ymm2, %ymm3
	vfmadd231ps	32(%rbp), %ymm2, %ymm4
	vfmadd231ps	96(%rsp), %ymm2, %ymm5
	vfmadd231ps	%ymm1, %ymm2, %ymm6
	jne	.LBB1_2
	jmp	.LBB1_1
third:
.LBB2_1:
	vle32.v	v8, (sp)
	vfmacc.vf	v28, fa2, v8
	vfmacc.vf	v27, fa3, v8
	vl1r.v	v9, (a0)
	vfmacc.vf	v26, fa2, v9
	vfmacc.vf	v25, fa3, v9
	bne	s7, t3, .LBB2_1
"""


@pytest.mark.parametrize("name", ["x86_64-v3", "x86_64-v4", "aarch64", "riscv64-v"])
def test_the_sums_of_a_tile_are_in_registers(name, tmp_path):
    model, target = tmp_path / "model.py", Target.parse(name)
    model.write_text(MODEL)
    machine = machine_of(target)
    tile = choose_tile(
        ConvolutionGeometry(120, (1, 1), 64, (1, 1), 240, (1, 1)), machine
    )
    loops = [x for x in inner_loops(assembly(model, target)) if x.is_of_products]
    assert max(x.multiply_adds for x in loops) == tile.rows * tile.vectors
    most = {"aarch64": 2}.get(name, 0)  # of a turn with 24 multiply-adds
    assert max(x.spills for x in loops) <= most


def test_loads_of_vectors_from_slots_of_the_stack_are_spills():
    arm, x86, riscv = inner_loops(SPILLED)
    assert (arm.function, arm.instructions, arm.multiply_adds) == ("kernel", 8, 4)
    assert arm.spills == 1  # not what has an index, and not an address
    assert (x86.function, x86.instructions, x86.multiply_adds) == ("other", 5, 4)
    assert riscv.spills == 1  # of a whole register
    assert x86.spills == 1  # no frame: the other one is memory of the kernel
