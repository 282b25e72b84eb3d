"""Kernels for sizes that a call decides compute what the graph says, at any size."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects import context
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import SymbolicDim
from aotc.importers import load
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.planning.attention import AttentionSizes
from aotc.kernels.planning.tile import ContractionTile, row_counts
from aotc.kernels.typical import ROWS, typical_size
from aotc.machine.target import Target
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "symbolic.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
ENTRIES = [entry.name for entry in load(MODEL).entries]
SIZES = [
    {"batch": 1, "length": 1, "others": 33, "any": 0, "steps": 8},
    {"batch": 2, "length": 3, "others": 1, "any": 1, "steps": 16},
    {"batch": 5, "length": 31, "others": 2, "any": 4, "steps": 24},
    {"batch": 7, "length": 39, "others": 300, "any": 13, "steps": 64},
    {"batch": 1, "length": 170, "others": 128, "any": 64, "steps": 64},
    {"batch": 67, "length": 2, "others": 5, "any": 200, "steps": 120},
]


OPTIMA = {
    "unknown": {},
    "few": {"batch": 3, "length": 1, "others": 2, "any": 5, "steps": 8},
    "many": {"batch": 40, "length": 200, "others": 301, "any": 77, "steps": 512},
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((x, y), marks=[pytest.mark.slow] * (y == "few"))
        for x in LEVELS
        for y in OPTIMA
    ],
)
def bundle(request, tmp_path_factory):
    level, optimum = request.param
    target = Target.parse(level)
    require_runs_here(target)
    report = build(
        MODEL,
        targets=[target],
        output=tmp_path_factory.mktemp("kernels"),
        self_check="off",
        sign=False,
        optimum=OPTIMA[optimum],
    )
    return aotc.load(report.bundle, allow_unsigned=True)


def _inputs(point, sizes):
    rng = np.random.default_rng(1)
    return {
        leaf.name: rng.normal(size=[_value(size, sizes) for size in leaf.shape]).astype(
            "f"
        )
        for leaf in point.inputs
    }


def _value(size, sizes):
    return size if isinstance(size, int) else eval(str(size), {}, dict(sizes))


@pytest.mark.parametrize("name", ENTRIES)
def test_a_kernel_computes_any_number_of_rows_and_images(bundle, terms, program, name):
    entry = program.entry(name)
    point = bundle.manifest.entry_points[name]
    for sizes in SIZES:
        inputs = _inputs(point, sizes)
        given = [
            inputs.get(p.name, program.parameters.get(p.name)) for p in entry.arguments
        ]
        expected = reference.evaluate(program.module, name, given)
        found = bundle.entries[name](**inputs)
        found = found if isinstance(found, tuple) else (found,)
        by_terms = terms.evaluate(name, inputs)
        for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
            scale = abs(theirs).max(initial=1e-9)
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5 * scale)


UNKNOWN = [(level, "unknown") for level in LEVELS]
MANY = [(level, "many") for level in LEVELS]


@pytest.mark.parametrize("bundle", UNKNOWN, indirect=True)
def test_every_product_and_window_of_any_number_has_a_kernel(bundle):
    (variant,) = bundle.manifest.variants.values()
    assert variant.kernels["without"] == []
    called = {name for row in variant.kernels["regions"] for name in row["entries"]}
    assert called == set(ENTRIES)


@pytest.mark.parametrize("bundle", UNKNOWN, indirect=True)
def test_the_manifest_tells_of_the_least_sizes(bundle):
    (variant,) = bundle.manifest.variants.values()
    rows = {name: row for row in variant.kernels["regions"] for name in row["entries"]}
    assert rows["pixels"]["sizes"] == {"batch": 1}
    assert rows["pixels"]["flops"] >= 2 * 9 * 7 * 16 * 40
    assert rows["rows_of_an_expression"]["sizes"] == {"steps": 8}
    assert rows["rows_of_an_expression"]["bytes_written"] == 4 * 9 * 100


@pytest.mark.parametrize("bundle", MANY, indirect=True)
def test_the_manifest_tells_of_the_sizes_of_most_calls_where_they_are_known(bundle):
    (variant,) = bundle.manifest.variants.values()
    rows = {name: row for row in variant.kernels["regions"] for name in row["entries"]}
    assert rows["pixels"]["sizes"] == {"batch": 40}
    assert rows["rows_of_an_expression"]["sizes"] == {"steps": 512}
    assert rows["rows_of_an_expression"]["bytes_written"] == 4 * 513 * 100
    assert bundle.manifest.symbols["steps"].optimum == 512


def test_tiles_have_fewer_rows_only_where_a_call_may_have_as_few():
    tile = ContractionTile(lanes=16, vectors=3, rows=8, block=4)
    expected = {0: [4, 2, 1], 1: [4, 2, 1], 2: [4, 2], 3: [4, 2], 9: [4], 56: []}
    for least, counts in expected.items():
        with context(), known_contracts([Contract("batch", min=least)]):
            rows = ConvolutionGeometry(
                SymbolicDim.symbol(0), (1, 1), 64, (1, 1), 48, (1, 1)
            )
            assert row_counts(rows, tile) == counts


def test_a_schedule_is_for_the_fewest_images_and_for_some_rows():
    with context(), known_contracts([Contract("batch", max=20)]):
        batch = SymbolicDim.symbol(0)
        images = ConvolutionGeometry(batch, (9, 9), 16, (3, 3), 48, (7, 7))
        assert images.typical.images == 1
        pixels = ConvolutionGeometry(batch, (1, 1), 64, (1, 1), 48, (1, 1))
        assert pixels.typical.rows == 20
        many = ConvolutionGeometry(batch * 49, (1, 1), 64, (1, 1), 48, (1, 1))
        assert many.typical.rows == 49


def test_a_schedule_is_for_the_sizes_of_most_calls_where_they_are_known():
    contracts = [Contract("batch", max=640, multiple_of=2, optimum=6), Contract("any")]
    with context(), known_contracts(contracts):
        batch, unknown = SymbolicDim.symbol(0) * 2, SymbolicDim.symbol(1)
        images = ConvolutionGeometry(batch, (9, 9), 16, (3, 3), 48, (7, 7))
        assert images.typical.images == 6
        pixels = ConvolutionGeometry(batch * 5, (1, 1), 64, (1, 1), 48, (1, 1))
        assert pixels.typical.rows == 30
        both = ConvolutionGeometry(batch * unknown, (1, 1), 64, (1, 1), 48, (1, 1))
        assert both.typical.rows == 128  # that of the other is not known
        assert typical_size(batch, ROWS) == 6
        assert AttentionSizes(1, batch, 4, 32, unknown, 4, 32, 1, 1).typical == (6, 128)
