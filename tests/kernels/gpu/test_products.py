"""The GPU kernels of products and rows compute what their functions do."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from aotc import dtypes, reference
from aotc.dialects.functions import functions_of
from aotc.dialects.symbols import contracts_of
from aotc.dialects.types import Tensor, evaluate_size
from aotc.importers import load
from aotc.kernels.gpu.compiling import compile_kernel, has_triton, resources_of
from aotc.kernels.gpu.emitter import NoKernel
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import MACHINES
from aotc.kernels.gpu.products import Counts, best_of, candidates
from aotc.mlir import Function
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

from .launches import kernel_of, launched
from .products import ATTENTION, CONVOLUTIONS, PRODUCTS

MODEL = Path(__file__).parent / "products.py"
ENTRIES = [*PRODUCTS, *(f"conv_{name}" for name in CONVOLUTIONS), "epilogue"]
ENTRIES += ["dequantised", "long_softmax", "long_norm", "symbolic_softmax", "turned"]
ENTRIES += ["joined", "masked", *(f"attention_{name}" for name in ATTENTION)]
_BOUNDS = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}


@cache
def functions() -> tuple[Unit, dict[str, Function]]:
    """The functions of the model, simplified: each is a region of its own."""
    unit = Unit(load(MODEL))
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    return unit, functions_of(unit.module)


def compiled_kernel(name: str, arch: str = "sm_80", **options: str) -> GpuKernel:
    kernel = kernel_of(functions()[1][name], arch, **options)
    assert not isinstance(kernel, NoKernel), kernel.why
    return kernel


def drawn(function: Function, symbols: list[int]) -> list[np.ndarray]:
    rng, found = np.random.default_rng(0), []
    for kind in map(Tensor.of, function.entry_block.arguments):
        shape = [evaluate_size(n, symbols) for n in kind.shape]
        x = rng.normal(size=shape)
        if kind.dtype == "bool":
            x = x > 0
        elif not dtypes.is_float(kind.dtype):
            x = rng.integers(-100, 100, shape)
        found.append(x.astype(dtypes.to_numpy(kind.dtype)))
    return found


def require_equal(name: str, symbols: list[int], **options: str) -> None:
    unit, known = functions()
    function = known[name]
    arguments = drawn(function, symbols)
    found = launched(function, arguments, symbols, **options)
    wanted = reference.evaluate(unit.module, name, arguments)
    bound = max(_BOUNDS.get(dtypes.canonical(x.dtype), 0) for x in arguments)
    for mine, theirs in zip(found, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        mine, theirs = mine.astype("f8"), theirs.astype("f8")
        scale = abs(theirs).max(initial=1.0)
        np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("name", ENTRIES)
def test_kernels_compute_what_functions_do(name: str) -> None:
    function = functions()[1][name]
    for size in (1, 19) if len(contracts_of(function)) else (0,):
        symbols = [size + n for n in range(len(contracts_of(function)))]
        require_equal(name, symbols)


def test_relaxed_products_of_f32_are_three_of_tf32() -> None:
    assert "inputPrecision = 2" in compiled_kernel("square").text
    relaxed = compiled_kernel("square", numerics="relaxed")
    assert "inputPrecision = 1" in relaxed.text
    require_equal("square", [], numerics="relaxed")


def test_every_chip_has_room_for_what_is_planned_for_it() -> None:
    sizes = [(1, 1 << n, 1 << m, 1 << k) for n in (4, 8, 13) for m in (5, 12)
             for k in (4, 10)]  # fmt: skip
    for machine, (batch, rows, columns, depth) in product(MACHINES.values(), sizes):
        for dtype in ("f32", "bf16", "i8"):
            counts = Counts(batch, rows, columns, depth)
            found = candidates(depth, dtype, machine)
            assert found
            for tile in (best_of(found, counts, dtype, machine), found[0], found[-1]):
                step = (tile.rows + tile.columns) * tile.depth * dtypes.bits(dtype) // 8
                assert step * tile.stages <= machine.shared_bytes, (machine.arch, tile)


@pytest.mark.skipif(not has_triton(), reason="needs triton")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "gfx942"])
def test_triton_compiles_kernels(arch: str) -> None:
    """To the instructions for matrices, without registers that spill."""
    wanted = {"sm_80": b"mma.sync", "sm_90": b"mma"}.get(arch)
    names = "halves epilogue symbolic_softmax turned conv_same attention_causal masked"
    for name in names.split():
        kernel = compiled_kernel(name, arch)
        found = compile_kernel(kernel, arch)
        assert found.shared <= MACHINES[arch].shared_bytes
        if wanted is not None:
            assert name != "halves" or wanted in found.code
            assert resources_of(found, arch).spilled == 0, name
            taken = len(functions()[1][name].entry_block.arguments)
            assert found.code.count(b".param ") > taken
