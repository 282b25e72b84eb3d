"""Quantised graphs of PyTorch: PT2E's ops, and torchao's, against PyTorch itself."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

torch = pytest.importorskip("torch")

has_torchao = importlib.util.find_spec("torchao") is not None
needs_torchao = pytest.mark.skipif(not has_torchao, reason="torchao is not installed")


class Call(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def agrees(function, x):
    """The imported function gives what PyTorch does, in the same dtypes."""
    expected = function(x)
    found = aotc.from_torch(Call(function), (x,))(x.numpy())
    for one, other in zip(found, expected, strict=True):
        array = np.asarray(one)
        assert array.shape == tuple(other.shape)
        assert f"torch.{array.dtype}" == str(other.dtype)
        np.testing.assert_allclose(
            array.astype("f8"), other.double().numpy(), rtol=1e-6, atol=1e-7
        )


RNG = np.random.default_rng(3)
ROWS = torch.from_numpy(RNG.standard_normal((4, 6, 32)).astype("f4"))


def decomposed():
    from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the ops

    return torch.ops.quantized_decomposed


def by_tokens(x):
    ops, limits = decomposed(), (-128, 127, torch.int8)
    scale, zero = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    levels = ops.quantize_per_token(x, scale, zero, *limits)
    found = ops.dequantize_per_token(levels, scale, zero, *limits, torch.float32)
    half = ops.dequantize_per_token(levels, scale, zero, *limits, torch.float16)
    plain, none = ops.choose_qparams_per_token(x, torch.int8)
    return scale, zero, levels, found, half, plain, none


def by_groups(x):
    ops, x = decomposed(), x[0]
    scale, zero = x[:, :4].abs() + 0.1, (x[:, 4:8] * 3).int()
    options = -8, 7, torch.int8, 8
    levels = ops.quantize_per_channel_group(x, scale, zero, *options)
    found = ops.dequantize_per_channel_group(levels, scale, zero, *options, x.dtype)
    half = ops.dequantize_per_channel_group(levels, scale, None, *options, torch.half)
    whole = ops.dequantize_per_channel_group(
        levels, scale[:, :1], None, -8, 7, torch.int8, 99, x.dtype
    )
    return levels, found, half, whole


def others(x):
    ops = decomposed()
    signed = ops.choose_qparams_symmetric(x, -128, 127, 1e-5, torch.int8)
    unsigned = ops.choose_qparams_symmetric(x, 0, 255, 1e-5, torch.uint8)
    scale, zero = x[0, :, 0].abs() + 0.1, (x[0, :, 1] * 3).int()
    simulated = ops.fake_quant_per_channel(x, scale, zero, 1, -8, 7)
    half = ops.convert_element_type.no_fuse(x, torch.float16)
    return *signed, *unsigned, simulated, half


def by_levels(x):
    levels = (x[0, :, :].t() * 20).to(torch.int8).t().contiguous()
    scales = torch.linspace(0.25, 1.5, 6)
    return (torch.ops.aten._weight_int8pack_mm(x[1].round(), levels, scales),)


@pytest.mark.parametrize("function", [by_tokens, by_groups, others, by_levels])
def test_ops_of_pt2e_agree(function):
    agrees(function, ROWS)


BLOCKS = [
    [4, 6, 32], [1, 6, 32], [4, 1, 32], [1, 1, 32], [1, 1, 8], [2, 1, 8], [2, 3, 16],
    [4, 6, 1],
]  # fmt: skip


@needs_torchao
@pytest.mark.parametrize("mapping", ["ASYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR"])
def test_blocks_of_torchao_may_have_any_shape(mapping):
    import torchao.quantization  # noqa: F401 - defines the ops

    ops, limits = torch.ops.torchao, (-8, 7)

    def blocks(x):
        found = []
        for block in BLOCKS:
            options = (None, None, torch.int32, len(found) % 2 == 1)
            scale, zero = ops.choose_qparams_affine(
                x, mapping, block, torch.int8, *limits, *options
            )
            levels = ops.quantize_affine(x, block, scale, zero, torch.int8, *limits)
            args = (levels, block, scale, zero, torch.int8, *limits)
            half = ops.dequantize_affine(*args, output_dtype=torch.float16)
            found += [scale, zero, levels, ops.dequantize_affine(*args), half]
        return found

    agrees(blocks, ROWS)


@needs_torchao
def test_scales_may_be_without_zeros_and_of_all_levels():
    import torchao.quantization  # noqa: F401 - defines the ops

    def symmetric(x):
        ops, block = torch.ops.torchao, [1, 6, 32]
        scale, _ = ops.choose_qparams_affine(
            x, "SYMMETRIC", block, torch.int8, None, None, None, None, torch.int8
        )
        levels = ops.quantize_affine(x, block, scale, torch.zeros(4), torch.int8)
        return levels, ops.dequantize_affine(levels, block, scale, None, torch.int8)

    agrees(symmetric, ROWS)


class Products(torch.nn.Module):
    """Products by integers with scales, as PT2E and torchao leave them."""

    def __init__(self):
        super().__init__()
        for name in ("first", "second", "third"):
            levels = RNG.integers(-127, 128, (8, 32)).astype("i1")
            self.register_buffer(name, torch.from_numpy(levels))
        self.register_buffer("scales", torch.linspace(0.01, 0.02, 8))
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))

    def by_weight(self, x, levels):
        given = self.scales, self.zeros, 0, -127, 127, torch.int8
        return x @ decomposed().dequantize_per_channel(levels, *given).t()

    def forward(self, x):
        ops = decomposed()
        static = 0.02, 100, 0, 255, torch.uint8
        first = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *static), *static)
        limits = 0, 255, torch.uint8
        found = ops.choose_qparams(x, 0, 255, 1e-5, torch.uint8)
        scale, zero = (part[0] for part in found)
        levels = ops.quantize_per_tensor.tensor(x, scale, zero, *limits)
        second = ops.dequantize_per_tensor.tensor(levels, scale, zero, *limits)
        plain = (x @ self.third.to(torch.float32).t()) * self.scales
        return (
            self.by_weight(first, self.first),
            self.by_weight(second, self.second),
            plain,
        )


def test_static_and_dynamic_products_are_those_of_integers_and_weights_stay_so():
    x, module = ROWS[0], Products().eval()
    program = aotc.from_torch(module, (x,)).program()
    with context(), ir.Location.unknown():
        run_passes(Unit(program), PASS_STAGES[0].passes(), silently=True)
    ops = functions_of(program.module)["main"].entry_block.operations
    read = [
        [Tensor.of(value).dtype for value in op.operands]
        for op in ops
        if isinstance(op, DotGeneral)
    ]
    assert sorted(read) == [["f32", "f32"], ["u8", "i8"], ["u8", "i8"]]
    assert sum(isinstance(op, Dequantize) for op in ops) == 1
    assert not any(
        array.dtype == np.float32 and array.size >= 8 * 32
        for array in program.parameters.values()
    )
    found = reference.evaluate(program.module, "main", arguments(program, x.numpy()))
    for one, other in zip(found, module(x), strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-5)


class MovingZero(torch.nn.Module):
    """Rows quantised by a zero point that each call changes for the next one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("zero", torch.tensor(3))

    def forward(self, x):
        given = torch.tensor(0.05), self.zero, 0, 255, torch.uint8
        y = decomposed().quantize_per_tensor.tensor(x, *given)
        self.zero.copy_(x.abs().amax().to(torch.int64))
        return y


def test_zero_points_that_calls_change_are_states():
    program = aotc.from_torch(MovingZero().eval(), (ROWS[0],)).program()
    (entry,) = program.entries
    assert entry.updates
    assert [port.kind for port in entry.arguments] == ["state", "input"]


def arguments(program, x):
    """The weights of a program's only entry, and its input."""
    return [
        np.asarray(program.parameters[port.name]) if port.kind == "weight" else x
        for port in program.entries[0].arguments
    ]


# ---- files --------------------------------------------------------------------------

WRITTEN = """
import sys, torch
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerGroup

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 8)).eval()
quantize_(net, IntxWeightOnlyConfig(torch.int4, PerGroup(32)))
exported = torch.export.export(net, (torch.ones(2, 64),))
torch.export.save(exported, sys.argv[1])
torch.export.save(exported.run_decompositions({}), sys.argv[2])
torch.save(net(torch.ones(2, 64)), sys.argv[3])
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A network of torchao as it is exported, in ops alone, and its result."""
    folder = tmp_path_factory.mktemp("torchao")
    paths = [folder / name for name in ("net.pt2", "ops.pt2", "y.pt")]
    command = [sys.executable, "-c", WRITTEN, *map(str, paths)]
    subprocess.run(command, check=True, capture_output=True)
    return paths


@needs_torchao
@pytest.mark.parametrize("number", [0, 1])
def test_files_of_torchao_need_no_import(files, number):
    program = load(files[number])
    weights = [
        program.parameters[port.name] for port in program.entries[0].arguments[:-1]
    ]
    x = np.ones((2, 64), "f4")
    (found,) = reference.evaluate(program.module, "main", [*weights, x])
    expected = torch.load(files[2]).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@needs_torchao
@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_what_a_file_needs_is_named_where_it_is_not_installed(files, number):
    script = (
        "import sys; sys.modules['torchao'] = None\n"
        "from pathlib import Path; from aotc.importers import load\n"
        "from aotc.errors import SetupError\n"
        "try: load(Path(sys.argv[1]))\n"
        "except SetupError as error: print(error.code, error.hint)\n"
    )
    command = [sys.executable, "-c", script, str(files[number])]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "missing-extra pip install torchao"
