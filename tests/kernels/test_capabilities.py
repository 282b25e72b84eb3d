"""What kernels take beside their anchors, as the passes and the emitter both see it."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from aotc.dialects import context
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.types import Tensor, element_count
from aotc.importers import load
from aotc.kernels import capabilities
from aotc.kernels.capabilities import (
    BACKENDS,
    Emitted,
    NoTargetKernels,
    capabilities_of,
)
from aotc.kernels.cpu.emitters import EMITTERS
from aotc.kernels.elementwise import ALIKE, BY_ROWS, OF_COLUMNS, Elementwise
from aotc.kernels.families import FAMILIES
from aotc.kernels.machine import Machine
from aotc.kernels.operands import (
    PerColumn,
    PerGroup,
    PerRow,
    ScalarOperand,
    SomeColumns,
    Whole,
    operand_of,
)
from aotc.kernels.refusal import refusals_in
from aotc.machine.target import TARGETS, Target
from aotc.mlir import func, ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.fuse_regions import FuseRegions
from aotc.passes.stages import PASS_STAGES

MODEL = """
import numpy
import aotc
from aotc import nn

w = aotc.Weights({"a": numpy.ones((64, 96), "f4"), "b": numpy.ones(96, "f4")})


@aotc.entry(x=aotc.Spec((512, 64)), scale=aotc.Spec((512, 1)))
def f(w, x, scale):
    return nn.softmax(nn.relu(x @ w["a"] + w["b"]) * scale)
"""


@pytest.fixture
def operand():
    """Make an argument of a function, of a shape and a dtype; ops may follow it."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()

        def make(shape, dtype="f32"):
            with ir.InsertionPoint(module.body):
                function = func.FuncOp("f", ([Tensor(shape, dtype).to_mlir()], []))
            return function.add_entry_block()

        yield make


def broadcasts():
    """Shapes of up to three axes, and each that they are repeated to up to four."""
    for rank in range(1, 5):
        for shape in product((1, 2, 3), repeat=rank):
            counts = range(min(rank, 3) + 1)
            for axes in (x for n in counts for x in combinations(range(rank), n)):
                for source in product(*({1, shape[axis]} for axis in axes)):
                    yield source, shape, axes


def read(found, memory, columns):
    """What a kernel reads at each place, in the order of the places."""
    at = np.arange(columns.size)
    match found:
        case Whole():
            return None
        case ScalarOperand():
            return memory[0 * at]
        case PerColumn(width=width):
            return memory[at % width]
        case PerRow(width=width):
            return memory[at // width]
        case PerGroup(rows=rows, width=width):
            return memory[at // (rows * width) * width + at % width]
        case SomeColumns(first=first, width=width, stride=stride):
            return memory[at // width * stride + first + at % width]


def test_what_an_operand_is_said_to_be_has_the_elements_of_a_broadcast(operand):
    """Also behind a reshape."""
    met = set()
    for source, shape, axes in broadcasts():
        block = operand(source)
        with ir.InsertionPoint(block):
            value = Builder().broadcast(block.arguments[0], shape=shape, axes=axes)
            flat = Builder().reshape(value, shape=(int(element_count(shape)),))
        memory = np.arange(int(element_count(source)))
        ones = [1] * len(shape)
        for size, axis in zip(source, axes, strict=True):
            ones[axis] = size
        expected = np.broadcast_to(memory.reshape(ones), shape)
        for moved in (value, flat):
            found = operand_of(moved)
            given = read(found, memory, expected)
            met.add(type(found))
            if given is None:
                assert found.source == moved
            else:
                assert found.source == block.arguments[0]
                assert given.tolist() == expected.flatten().tolist()
    assert met == {Whole, ScalarOperand, PerColumn, PerRow, PerGroup}


def test_what_is_taken_fits_the_columns(operand):
    """What is an element for each row of 8 columns is none for rows of 4."""
    block = operand((3,))
    with ir.InsertionPoint(block):
        per_row = Builder().broadcast(block.arguments[0], shape=(3, 2, 4), axes=(0,))
        per_group = Builder().broadcast(block.arguments[0], shape=(5, 2, 3), axes=(2,))
    kind = Elementwise(BY_ROWS, range(1, 3)).operand(per_row)
    assert kind == PerRow(block.arguments[0], 8)
    for columns in (range(2, 3), range(3, 3), range(3)):
        assert isinstance(Elementwise(BY_ROWS, columns).operand(per_row), Whole)
    assert isinstance(Elementwise(ALIKE, range(1, 3)).operand(per_row), Whole)
    assert isinstance(Elementwise(ALIKE, range(2, 3)).operand(per_group), PerColumn)
    assert Elementwise(BY_ROWS, range(1, 3), ("bf16",)).operand(per_row) is None


def test_columns_of_a_wider_tensor_are_read_where_they_lie(operand):
    block = operand((2, 3, 10))
    argument = block.arguments[0]

    def cut(start, sizes, strides=(1, 1, 1)):
        return Builder().slice(argument, start=start, sizes=sizes, strides=strides)

    with ir.InsertionPoint(block):
        columns = cut((0, 0, 4), (2, 3, 5))
        others = [
            cut((0, 1, 4), (2, 2, 5)),
            cut((0, 0, 0), (2, 3, 5), (1, 1, 2)),
            Builder().slice(
                Builder().negate(argument),
                start=(0, 0, 4), sizes=(2, 3, 5), strides=(1, 1, 1),
            ),
        ]  # fmt: skip
    found = operand_of(columns)
    assert found == SomeColumns(argument, first=4, width=5, stride=10)
    memory = np.arange(60)
    expected = memory.reshape(2, 3, 10)[:, :, 4:9]
    assert read(found, memory, expected).tolist() == expected.flatten().tolist()
    assert Elementwise(OF_COLUMNS, range(2, 3)).operand(columns) == found
    assert isinstance(Elementwise(BY_ROWS, range(2, 3)).operand(columns), Whole)
    assert isinstance(Elementwise(OF_COLUMNS, range(1, 3)).operand(columns), Whole)
    assert all(isinstance(operand_of(value), Whole) for value in others)


@pytest.mark.parametrize(
    ("dtype", "dtypes", "expected"),
    [
        ("f32", ("f32",), {"add", "divide", "exp", "clamp"}),
        ("i32", ("f32", "i32"), {"add", "clamp"}),
        ("bf16", ("f32",), set()),
    ],
)
def test_ops_are_taken_by_their_facts_and_the_dtypes(operand, dtype, dtypes, expected):
    block, b = operand((4,), dtype), Builder()
    (x,) = block.arguments
    with ir.InsertionPoint(block):
        made = [b.add(x, x), b.divide(x, x), b.clamp(x, x, x), b.reverse(x, axes=(0,))]
        if dtype != "i32":
            made.append(b.exp(x))
    elementwise = Elementwise(ALIKE, range(1), dtypes)
    taken = [op for op in map(defining_op, made) if elementwise.takes(op)]
    assert {op.operation.name.removeprefix("graph.") for op in taken} == expected


def test_the_emitter_writes_all_families_of_its_table():
    assert EMITTERS.keys() == BACKENDS["llvm-cpu"].families.keys()


def test_a_target_without_kernels_says_why():
    for name in ("x86_64-v2", "vulkan"):
        found = capabilities_of(Target.parse(name))
        assert isinstance(found, NoTargetKernels)
        assert name in found.why


def test_kernels_of_gpus_need_what_compiles_them(monkeypatch):
    for name in ("cuda:sm_80", "cuda:sm_90a", "rocm:gfx942"):
        for has_triton in (False, True):
            monkeypatch.setattr(capabilities, "has_triton", lambda has=has_triton: has)
            found = capabilities_of(Target.parse(name))
            assert isinstance(found, NoTargetKernels) is not has_triton
            assert has_triton or ("triton" in found.why and "pip" in found.cure)
    with_kernels = {
        name
        for name, target in TARGETS.items()
        if not isinstance(capabilities_of(target), NoTargetKernels)
    }
    assert with_kernels >= {"x86_64-v3", "x86_64-v4", "aarch64", "riscv64-v"}


def regions_for(target, folder):
    """The ops of each region that a program has for a target, and what has none."""
    path = folder / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    unit = Unit(load(path, ())).fork(target)
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    run_passes(unit, [FuseRegions()], silently=True)
    elementwise = {"add", "relu", "multiply", "broadcast"}
    found = {}
    for function in functions_of(unit.module).values():
        fused = fused_of(function)
        if fused is not None:
            ops = [op.operation.name for op in function.entry_block.operations]
            names = [name.removeprefix("graph.") for name in ops]
            found[fused.kernel] = [name for name in names if name in elementwise]
    refused = refusals_in(unit.module, capabilities_of(target))
    return found, {each.op for each in refused["f"]}


def test_what_a_row_of_the_table_says_is_what_regions_have(tmp_path, monkeypatch):
    """Regions are formed for a backend that has a row, before it has any emitter."""
    cpu, gpu = Target.parse("x86_64-v3"), Target.parse("cuda:sm_89")
    found, without = regions_for(cpu, tmp_path)
    repeated = ["broadcast", "add", "relu", "broadcast", "multiply"]
    assert found == {"contraction": repeated, "rows": []}
    assert without == set()
    monkeypatch.setattr(capabilities, "has_triton", lambda: False)
    assert regions_for(gpu, tmp_path) == ({}, {"dot_general", "softmax"})
    family = replace(FAMILIES["contraction"], epilogue=ALIKE)
    for most_tensors, ops in ((12, ["broadcast", "add", "relu", "multiply"]), (1, [])):
        planned = {"contraction": family}, lambda _: Machine(32, 64), most_tensors
        row = Emitted(*planned, why_none="")
        monkeypatch.setitem(BACKENDS, gpu.backend, row)
        found, without = regions_for(gpu, tmp_path)
        assert found == {"contraction": ops}
        assert without == {"softmax"}
