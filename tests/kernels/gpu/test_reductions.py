"""Reductions in parts, and what GPU kernels compute before and after ops of others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.checks.kernel_check import EvaluatedKernels
from aotc.core.dtypes import to_numpy
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.types import Tensor, evaluate_size
from aotc.importers import load
from aotc.kernels import capabilities
from aotc.machine.target import Target
from aotc.mlir import func
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

MODEL = Path(__file__).parent / "reductions.py"
# how many products and sums each has
KERNELS = {
    "few_rows": 2,
    "one_row": 1,
    "halves": 1,
    "few_rows_by_bytes": 2,
    "one_row_by_nibbles": 1,
    "rows_by_bytes": 2,
    "column_sums": 4,
    "batch_norm": 9,
    "trained_norm": 6,
    "norm_of_halves": 2,
    "channels_first": 4,
    "whole_sum": 2,
    "masked": 4,
    "parts_of_a_product": 4,
    "side_by_side": 1,
    "packed": 2,
    "decoding": 3,
    "decoding_halves": 3,
    "read_by_a_product": 2,
    "cross_entropy": 2,
}
OF_ANY_SIZE = ("rows_by_bytes", "side_by_side", "packed", "decoding_halves")
IN_PARTS = ("few_rows", "few_rows_by_bytes", "rows_by_bytes", "column_sums")


@pytest.fixture(autouse=True)
def _with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "has_triton", lambda: True)


@cache
def units(target: str = "cuda:sm_80") -> tuple[Unit, Unit]:
    """The model with its derivatives alone, and with the regions of a target."""
    original, unit = Unit(load(MODEL)), Unit(load(MODEL))
    run_passes(original, ("autodiff", "inline"), silently=True)
    for stage in PASS_STAGES[:2]:
        if stage.per_target:
            unit = unit.fork(Target.parse(target))
        run_passes(unit, stage.passes(), silently=True)
    return original, unit


def arrays_of(unit: Unit, entry: str, size: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(size)
    for port in unit.program.entry(entry).ports("input"):
        shape = [evaluate_size(n, [size]) for n in port.type.shape]
        yield rng.normal(size=shape).astype(to_numpy(port.type.dtype))


def texts_of(unit: Unit) -> list[str]:
    return [str(function) for function in functions_of(unit.module).values()]


@pytest.mark.parametrize("entry", KERNELS)
def test_reductions_in_parts_and_fused_ops_are_right(entry: str) -> None:
    original, unit = units()
    stored = original.program.parameters
    for size in (1, 19) if entry in OF_ANY_SIZE else (1,):
        inputs = [*arrays_of(unit, entry, size)]
        kernels = EvaluatedKernels(unit.program, (), (), np.inf)
        for name, function in functions_of(unit.module).items():
            if fused_of(function) is not None:
                kernels.known[name] = kernels.kernel_of(function)
        found, _ = kernels.call(entry, inputs)
        assert kernels.count.launches == KERNELS[entry]
        assert kernels.count.evaluated == kernels.count.programs
        known = original.program.entry(entry)
        rest = iter(inputs)
        given = [
            next(rest) if port.kind == "input" else stored[port.name]
            for port in known.arguments
        ]
        wanted = reference.evaluate(original.module, entry, given)
        for mine, theirs in zip(found, wanted, strict=True):
            mine, theirs = (np.asarray(x).astype("f8") for x in (mine, theirs))
            bound = 1e-2 if entry.endswith("halves") else 1e-4
            scale = np.abs(theirs).max(initial=1.0)
            np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound * scale)


def test_sums_of_parts_are_f32_and_added_up_by_another_kernel() -> None:
    functions = functions_of(units()[1].module)
    for entry in IN_PARTS:
        calls = [op for op in functions[entry].entry_block.operations if op.operands]
        *_, last, _ = calls
        (made,) = last.operands[0].owner.results
        kind = Tensor.of(made)
        assert kind.dtype == "f32"
        assert kind.shape[0] > 1


def test_kernels_read_the_integers_of_weights() -> None:
    functions = functions_of(units()[1].module)
    for entry in ("few_rows_by_bytes", "one_row_by_nibbles", "rows_by_bytes"):
        operations = functions[entry].entry_block.operations
        assert not any(isinstance(op, Dequantize) for op in operations)
    read = [
        Tensor.of(value).dtype
        for function in functions.values()
        if fused_of(function) is not None
        if any(isinstance(op, Dequantize) for op in function.entry_block.operations)
        for value in function.entry_block.arguments
    ]
    assert {"i8", "f16"} <= {*read}


def test_attention_reads_columns_of_a_product_where_they_lie() -> None:
    operations = functions_of(units()[1].module)["packed"].entry_block.operations
    assert not any(isinstance(op, Slice) for op in operations)


def test_products_read_columns_of_another_where_they_lie() -> None:
    operations = functions_of(units()[1].module)["parts_of_a_product"]
    slices = [op for op in operations.entry_block.operations if isinstance(op, Slice)]
    assert [op.strides for op in slices] == [(1, 2)]


def test_sums_of_the_same_elements_are_one_kernel() -> None:
    """Sums of a part and those of all parts, forwards as backwards; the loss apart."""
    functions = functions_of(units()[1].module)
    calls = functions["trained_norm"].entry_block.operations
    names = [callee_of(op) for op in calls if isinstance(op, func.CallOp)]
    sums = [
        [op for op in functions[name].entry_block.operations if _is_sum(op)]
        for name in names
    ]
    assert sorted(map(len, sums)) == [1, 1, 2, 2, 2, 2]
    assert not any(map(_is_sum, calls))


def _is_sum(op: object) -> bool:
    return isinstance(op, Reduction)


def test_attention_is_one_kernel_where_it_fills_a_chip_or_more_of_it_is_read() -> None:
    functions = functions_of(units()[1].module)

    def kernels(entry: str) -> set[str]:
        calls = functions[entry].entry_block.operations
        regions = [
            functions[callee_of(op)] for op in calls if isinstance(op, func.CallOp)
        ]
        return {fused.kernel for each in regions if (fused := fused_of(each))}

    assert "attention" in kernels("decoding_batch") & kernels("decoding_derivative")
    assert "attention" not in kernels("decoding") | kernels("decoding_halves")


def test_processors_sum_up_in_one_step() -> None:
    unit = Unit(load(MODEL, ("few_rows", "column_sums")))
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    unit = unit.fork(Target.parse("x86_64-v3"))
    before = texts_of(unit)
    run_passes(unit, ("split-reductions",), silently=True)
    assert texts_of(unit) == before


def test_splitting_again_changes_nothing() -> None:
    unit = Unit(load(MODEL, ("few_rows", "column_sums", "few_rows_by_bytes")))
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    unit = unit.fork(Target.parse("cuda:sm_80"))
    run_passes(unit, ("split-reductions",), silently=True)
    before = texts_of(unit)
    run_passes(unit, ("split-reductions",), silently=True)
    assert texts_of(unit) == before
