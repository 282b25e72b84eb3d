"""Rows of patterns: each fires on its example, keeps its value, and leaves others."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects import OPS, context
from aotc.dialects.patterns.structure import replacement
from aotc.dialects.rewrite_examples import NAME, module_of, root_of
from aotc.mlir import ir
from aotc.passes import recover_ops, run_passes
from aotc.passes.recovery.labels import SplatValues
from aotc.passes.recovery.table import ROWS

ROOT = Path(__file__).parents[2]
NAMED = {row: f"{name}: {row.says}" for name, op in OPS.items() for row in op.simplify}
NAMED |= {row: f"recover: {row.says}" for row in ROWS}
each_row = pytest.mark.parametrize("row", NAMED, ids=NAMED.get)


def _replaced(row, root):
    """What a row puts in the place of an op, as its pass does."""
    if row in ROWS:
        found = recover_ops.replacement(row, root, SplatValues({}))
        return found and found.value
    assert row in type(root).simplify
    return replacement([row], root)


def _inputs(given):
    rng = np.random.default_rng(5)
    numbers = [rng.uniform(-3, 3, kind.shape) for kind in given]
    return [
        (x > 0 if kind.dtype == "bool" else x).astype(dtypes.to_numpy(kind.dtype))
        for x, kind in zip(numbers, given, strict=True)
    ]


@each_row
def test_a_row_replaces_its_example_by_the_same_value(row):
    inputs = _inputs(row.given)
    with context(), ir.Location.unknown():
        module = module_of(row.given, row.example)
        root = root_of(module)
        before = reference.evaluate(module, NAME, inputs)
        found = _replaced(row, root)
        assert found is not None
        root.results[0].replace_all_uses_with(found)
        assert module.operation.verify()
        after = reference.evaluate(module, NAME, inputs)
    np.testing.assert_allclose(after[0], before[0], rtol=1e-4, atol=1e-5)


@each_row
def test_a_row_leaves_its_near_miss_alone(row):
    with context(), ir.Location.unknown():
        module = module_of(row.given, row.near_miss)  # holds its ops
        root = root_of(module)
        assert _replaced(row, root) is None


@each_row
def test_a_row_fires_in_the_pass(row):
    with context(), ir.Location.unknown():
        module = module_of(row.given, row.example)
        name = "recover-ops" if row in ROWS else "simplify"
        assert run_passes(module, (name,))[-1].changed


def test_the_page_of_rewrites_is_up_to_date():
    command = [sys.executable, ROOT / "docs/list_rewrites.py"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs/rewrites.md").read_text(encoding="utf-8") == made
