"""The GPU kernels of products and rows compute what their functions do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import CompileError
from aotc.importers import load
from aotc.kernels.gpu.compiling import ALONE, compile_kernel, has_triton, resources_of
from aotc.kernels.gpu.emitter import NoTermKernel, emit_planned
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import MACHINES
from aotc.kernels.gpu.matrices import Counts, ProductTile, candidates, fastest
from aotc.kernels.gpu.products import ProductWithEpilogue, groups_of, strips_of
from aotc.kernels.gpu.reference import launch
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Term
from aotc.mlir import Function
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from benchmarks.gpu.instructions import loop_instructions, multiplying

from .launches import kernel_of, launched
from .products import ATTENTION, CONVOLUTIONS, PRODUCTS

MODEL = Path(__file__).parent / "products.py"
ENTRIES = [*PRODUCTS, *(f"conv_{name}" for name in CONVOLUTIONS), "epilogue"]
ENTRIES += ["dequantised", "long_softmax", "long_norm", "symbolic_softmax", "turned"]
ENTRIES += ["joined", "masked", *(f"attention_{name}" for name in ATTENTION)]
ONE = ("(i1)", "(tensor<1x1xi1>)")  # masks of programs, of which there is none too many
_BOUNDS = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}


@cache
def functions() -> tuple[Unit, dict[str, Function]]:
    """The functions of the model, simplified: each is a region of its own."""
    unit = Unit(load(MODEL))
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    return unit, functions_of(unit.module)


def compiled_kernel(name: str, arch: str = "sm_80", **options: str) -> GpuKernel:
    kernel = kernel_of(functions()[1][name], arch, **options)
    assert not isinstance(kernel, NoTermKernel), kernel.why
    return kernel


def kernel_term(function: Function) -> Term:
    with function.context, known_contracts(contracts_of(function)):
        found = term_of(function)
    assert found is not None
    return found


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
    bound = max(_BOUNDS.get(dtypes.canonical_dtype(x.dtype), 0) for x in arguments)
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


def test_keys_that_no_row_of_a_program_sees_are_not_read() -> None:
    """Of 50 queries, in tiles that have rows of two heads; blocks have 64 keys."""
    function = functions()[1]["attention_few_seen"]
    q, k, v = drawn(function, [])
    (wanted,) = launched(function, [q, k, v], [])
    k[:, 64:], v[:, 64:] = np.nan, np.nan
    np.testing.assert_array_equal(launched(function, [q, k, v], [])[0], wanted)


def in_tiles(name: str, tile: ProductTile) -> GpuKernel:
    """The kernel of a product in tiles of one's own."""
    found = emit_planned(
        kernel_term(functions()[1][name]), name, "product", tile, "ieee"
    )
    assert isinstance(found, GpuKernel)
    return found


def group_of(name: str) -> ProductWithEpilogue:
    term = kernel_term(functions()[1][name])
    with term.function.context:
        (found,) = groups_of(term)
    return found


def test_what_follows_a_product_is_computed_in_strips_where_registers_are_few() -> None:
    wide = ProductTile(128, 128, 64, 8)
    with functions()[0].module.context:
        assert strips_of(group_of("gelu_and_slope"), wide) == 4
        assert strips_of(group_of("gelu_and_slope"), ProductTile(64, 64, 64, 8)) == 1
        assert strips_of(group_of("epilogue"), wide) == 1
        assert strips_of(group_of("halves"), wide) == 1


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("gelu_and_slope", ProductTile(64, 128, 32)),
        ("remainders", ProductTile(32, 64, 16, 2, 2, strips=2)),
    ],
)
def test_products_in_strips_are_right(name: str, tile: ProductTile) -> None:
    unit, known = functions()
    kernel, arguments = in_tiles(name, tile), drawn(known[name], [])
    assert kernel.text.count('"tt.dot"(') > 1
    wanted = reference.evaluate(unit.module, name, arguments)
    found = launch(kernel, kernel_term(known[name]), arguments, [])
    bound = _BOUNDS[dtypes.canonical_dtype(arguments[0].dtype)]
    for memory, theirs in zip(found, wanted, strict=True):
        mine, theirs = (
            memory.written_elements().astype("f8"),
            theirs.ravel().astype("f8"),
        )
        scale = abs(theirs).max()
        np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound * scale)


@pytest.mark.skipif(not has_triton(), reason="needs triton")
def test_nine_of_ten_instructions_of_a_loop_of_f32_multiply() -> None:
    """And as many threads fit on a multiprocessor as have 128 registers."""
    (tile,) = {
        replace(each, stages=3)
        for each in candidates(Counts(1, 1024, 3072, 768), "f32", MACHINES["sm_90"])
        if (each.rows, each.columns, each.depth, each.warps) == (64, 128, 32, 4)
    }
    code = compile_kernel(in_tiles("square", tile).source, "sm_90")
    found = loop_instructions(code, "sm_90")
    assert multiplying(found) == 64 * 128 * 32 // 128
    assert multiplying(found) > 0.9 * found.total()
    assert resources_of(code, "sm_90").registers <= 128


@pytest.mark.skipif(not has_triton(), reason="needs triton")
def test_a_gelu_and_its_slope_do_not_spill() -> None:
    kernel = in_tiles("gelu_and_slope", ProductTile(128, 128, 64, 8))
    found = compile_kernel(kernel.source, "sm_80")
    assert resources_of(found, "sm_80").spilled == 0


def test_relaxed_products_of_f32_are_three_of_tf32() -> None:
    assert "inputPrecision = 2" in compiled_kernel("square").text
    relaxed = compiled_kernel("square", numerics="relaxed")
    assert "inputPrecision = 1" in relaxed.text
    require_equal("square", [], numerics="relaxed")


@pytest.mark.parametrize("name", ["remainders", "joined", "conv_stem", "long_norm"])
def test_masks_of_one_too_many_are_found(name: str) -> None:
    """Each mask of a kernel by itself, as a mistake in it would be."""
    unit, known = functions()
    function, kernel = known[name], compiled_kernel(name)
    symbols = [7] * len(contracts_of(function))
    arguments = drawn(function, symbols)
    wanted = reference.evaluate(unit.module, name, arguments)
    term = kernel_term(function)
    lines = kernel.text.splitlines()
    masks = [
        number
        for number, line in enumerate(lines)
        if "predicate = 2 : i64" in line and not line.endswith(ONE)
    ]
    assert masks
    for number in masks:
        wrong = lines[number].replace("predicate = 2", "predicate = 3")
        text = "\n".join([*lines[:number], wrong, *lines[number + 1 :]])
        try:
            found = launch(replace(kernel, text=text), term, arguments, symbols)
            results = [memory.written_elements() for memory in found]
        except CompileError:
            continue
        pairs = zip(results, wanted, strict=True)
        assert not all(np.allclose(x, y.ravel()) for x, y in pairs), lines[number]


def test_every_chip_has_room_for_what_is_planned_for_it() -> None:
    sizes = [(1, 1 << n, 1 << m, 1 << k) for n in (4, 8, 13) for m in (5, 12)
             for k in (4, 10)]  # fmt: skip
    for machine, (batch, rows, columns, depth) in product(MACHINES.values(), sizes):
        for dtype, is_made in (
            ("f32", False),
            ("f32", True),
            ("bf16", True),
            ("i8", 0),
        ):
            counts = Counts(batch, rows, columns, depth, is_made=bool(is_made))
            found = candidates(counts, dtype, machine)
            assert found
            for tile in (fastest((counts,), dtype, machine), found[0], found[-1]):
                step = (tile.rows + tile.columns) * tile.depth * dtypes.bits(dtype) // 8
                assert step * tile.stages <= machine.shared_bytes, (machine.arch, tile)


def test_ptx_needs_no_more_shared_memory_than_newer_chips_have() -> None:
    chips = [x for x in MACHINES.values() if x.arch.startswith("sm_")]
    numbers = {each.arch: int(each.arch.removeprefix("sm_")) for each in chips}
    for each, newer in product(chips, chips):
        runs = each.arch not in ALONE and numbers[newer.arch] > numbers[each.arch]
        assert not runs or each.shared_bytes <= newer.shared_bytes, (each, newer)


@pytest.mark.skipif(not has_triton(), reason="needs triton")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "gfx942"])
def test_triton_compiles_kernels(arch: str) -> None:
    """To the instructions for matrices, without registers that spill."""
    wanted = {"sm_80": b"mma.sync", "sm_90": b"mma"}.get(arch)
    names = "halves epilogue symbolic_softmax turned conv_same attention_causal masked"
    for name in names.split():
        kernel = compiled_kernel(name, arch)
        found = compile_kernel(kernel.source, arch)
        assert found.shared <= MACHINES[arch].shared_bytes
        if wanted is not None:
            assert name != "halves" or wanted in found.code
            assert resources_of(found, arch).spilled == 0, name
            taken = len(functions()[1][name].entry_block.arguments)
            assert found.code.count(b".param ") > taken
