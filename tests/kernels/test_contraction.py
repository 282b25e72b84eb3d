"""Kernels of products and convolutions compute what the graph says, on both levels."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.ops.effects import Print
from aotc.importers import load
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import machine_of
from aotc.kernels.planning.tile import are_panels_outer, choose_tile, split_evenly
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.kernels.evaluation import Regions
from tests.machines import require_runs_here

MODELS = {
    name: Path(__file__).parent / f"{name}.py"
    for name in ("contractions", "changing_products", "joined", "gates")
}
MODEL = MODELS["contractions"]
LEVELS = ["x86_64-v3", "x86_64-v4"]
ENTRIES = {
    model: [entry.name for entry in load(file).entries]
    for model, file in MODELS.items()
}


@pytest.fixture(scope="module", params=LEVELS)
def bundles(request, tmp_path_factory):
    """The bundle of a model for a level of vectors, built when it is asked for."""
    target = Target.parse(request.param)
    require_runs_here(target)

    @cache
    def bundle(model):
        report = build(
            MODELS[model],
            targets=[target],
            output=tmp_path_factory.mktemp("kernels"),
            self_check="off",
            sign=False,
        )
        return aotc.load(report.bundle, allow_unsigned=True)

    return bundle


@cache
def _program(model):
    loaded = load(MODELS[model])
    run_passes(loaded.module, ("autodiff",), silently=True)
    return loaded


@pytest.fixture(scope="module")
def program():
    return _program("contractions")


@pytest.mark.parametrize(
    ("model", "name"), [(model, name) for model in MODELS for name in ENTRIES[model]]
)
def test_a_kernel_computes_what_the_graph_says(bundles, model, name):
    bundle, program = bundles(model), _program(model)
    rng, entry = np.random.default_rng(1), program.entry(name)
    inputs = {
        port.name: rng.normal(size=port.type.shape).astype("f")
        for port in entry.ports("input")
    }
    given = [
        inputs.get(p.name, program.parameters.get(p.name)) for p in entry.arguments
    ]
    expected = reference.evaluate(program.module, name, given)
    found = bundle.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    by_terms = _terms(model).evaluate(name, inputs)
    for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
        np.testing.assert_allclose(
            mine, theirs, rtol=2e-5, atol=2e-5 * abs(theirs).max()
        )


@cache
def _terms(model):
    return Regions.of(MODELS[model])


def _regions(level, model="contractions"):
    unit = Unit(load(MODELS[model])).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    return unit


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("level", [*LEVELS, "aarch64"])
def test_every_product_is_a_region(level, model):
    unit = _regions(level, model)
    functions = functions_of(unit.module)
    for name in ENTRIES[model]:
        ops = [op.operation.name for op in functions[name].entry_block.operations]
        assert "graph.dot_general" not in ops, name
        assert "graph.conv_general" not in ops, name
        assert "func.call" in ops, name


@pytest.mark.parametrize(
    ("name", "packed", "transposed"),
    [
        ("product_long_sums", 1, 1),
        ("of_one_long_operand", 0, 1),
        ("product_wide", 0, 0),
    ],
)
def test_operands_that_would_miss_the_caches_are_copied_once(name, packed, transposed):
    unit = _regions("x86_64-v4", "changing_products")
    functions = functions_of(unit.module)
    called = [fused_of(functions[callee_of(op)]) for op in calls_in(functions[name])]
    products = [each.tile for each in called if each.kernel == "contraction"]
    assert {each.get("packed", 1) for each in products} == {packed}
    copies = [each for each in called if each.kernel == "transpose"]
    assert len(copies) == packed + transposed


def test_the_graph_keeps_its_meaning_in_regions(program):
    unit = _regions("x86_64-v4")
    rng = np.random.default_rng(2)
    for name in ("remainders", "uneven", "read_twice", "tied", "features_of_two_axes"):
        entry = program.entry(name)
        inputs = {
            port.name: rng.normal(size=port.type.shape).astype("f")
            for port in entry.ports("input")
        }
        expected, found = (
            reference.evaluate(
                each.module,
                name,
                [
                    inputs.get(port.name, each.parameters.get(port.name))
                    for port in each.entry(name).arguments
                ],
            )
            for each in (program, unit.program)
        )
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_effects_keep_their_order_around_a_region():
    unit = _regions("x86_64-v4")
    printed = functions_of(unit.module)["printed"]
    ops = [op for op in printed.entry_block.operations if isinstance(op, Print)]
    assert [op.format.split()[0] for op in ops] == ["first", "second"]


def test_regions_of_one_meaning_are_one_function(tmp_path):
    file = tmp_path / "layers.py"
    file.write_text(
        "import aotc, numpy\nfrom aotc import nn\n"
        "w = aotc.Weights([numpy.full((64, 64), i, 'f4') for i in range(5)])\n"
        "@aotc.entry(x=aotc.Spec((16, 64)))\ndef f(w, x):\n"
        "    for each in w:\n        x = nn.relu(x @ each)\n    return x\n"
    )
    unit = Unit(load(file)).fork(Target.parse("x86_64-v3"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    regions = [each for each in functions_of(unit.module).values() if fused_of(each)]
    assert len(regions) == 1


def test_only_weights_that_leave_all_caches_are_fetched_ahead(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "import aotc, numpy\nfrom aotc import control, numpy as np\n"
        "rng = numpy.random.default_rng(0)\n"
        "w = [rng.normal(size=(512, 2048)).astype('f4') for _ in range(5)]\n"
        "w = aotc.Weights(w)\n"
        "x = aotc.Spec((1, 512))\n"
        "@aotc.entry(x=x)\ndef few(w, x):\n    return [x @ each for each in w[:4]]\n"
        "@aotc.entry(x=x)\ndef many(w, x):\n    return [x @ each for each in w]\n"
        "@aotc.entry(x=x)\ndef loop(w, x):\n"
        "    step = lambda _, y: np.tanh(y @ w[0])[:, :512]\n"
        "    return [control.fori_loop(0, 9, step, x), *(x @ each for each in w[1:])]\n"
    )
    unit = Unit(load(file)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)

    def fetching(name):
        calls = [functions[callee_of(call)] for call in calls_in(functions[name])]
        return {"ahead" in each.tile for each in map(fused_of, calls) if each}

    steps = [name for name in functions if name.startswith("loop.")]
    assert fetching("few") == {False}
    assert fetching("many") == fetching("loop") == {True}
    assert set().union(*map(fetching, steps)) == {False}


def test_the_next_panel_of_many_is_fetched_by_the_tiles_of_one(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "import aotc, numpy\n"
        "w = [numpy.full((192, n), 0.5, 'f4') for n in (1152, 48, 1152)]\n"
        "w = aotc.Weights(w)\n"  # none is read by two, which would share its panels
        "@aotc.entry(x=aotc.Spec((49, 192)))\ndef many(w, x):\n    return x @ w[0]\n"
        "@aotc.entry(x=aotc.Spec((49, 192)))\ndef few(w, x):\n    return x @ w[1]\n"
        "@aotc.entry(x=aotc.Spec((1, 192)))\ndef row(w, x):\n    return x @ w[2]\n"
    )
    unit = Unit(load(file)).fork(Target.parse("x86_64-v3"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    fetching = {}
    for name in ("many", "few", "row"):
        (call,) = calls_in(functions[name])
        fetching[name] = "ahead" in fused_of(functions[callee_of(call)]).tile
    assert fetching == {"many": True, "few": False, "row": False}


def test_the_build_packs_the_weights_of_loops(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "import aotc, numpy\nfrom aotc import control, numpy as np\n"
        "w = aotc.Weights(numpy.full((1024, 1024), 0.5, 'f4'))\n"
        "@aotc.entry(x=aotc.Spec((1, 1024)))\ndef f(w, x):\n"
        "    return control.fori_loop(0, 9, lambda _, y: np.tanh(y @ w), x)\n"
    )
    unit = Unit(load(file)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    ops = functions_of(unit.module)["f"].entry_block.operations
    assert [op.operation.name for op in ops] == ["func.call", "func.return"]


@pytest.mark.parametrize("target", ["vulkan", "riscv64", "x86_64-v2"])
def test_a_target_without_kernels_has_no_regions(target):
    unit = Unit(load(MODEL)).fork(Target.parse(target))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    assert not any(map(fused_of, functions_of(unit.module).values()))


@pytest.mark.parametrize("level", [*LEVELS, "aarch64"])
def test_a_tile_fits_into_the_registers(level):
    machine = machine_of(Target.parse(level))
    for rows in (1, 2, 7, 49, 128, 3136):
        for features in (8, 17, 64, 100, 768, 50257):
            for depth in (3, 64, 1024, 4096):
                shape = ConvolutionGeometry(
                    rows, (1, 1), depth, (1, 1), features, (1, 1)
                )
                tile = choose_tile(shape, machine)
                held = min(tile.rows, tile.vectors)
                assert tile.rows * tile.vectors + held + 1 <= machine.registers
                assert sum(split_evenly(rows, tile.rows)) == rows
                assert tile.panels(features) * tile.columns >= features


def test_a_weight_that_leaves_the_caches_is_gone_through_once():
    machine = machine_of(Target.parse("x86_64-v3"))
    sizes = {(128, 768, 3072): True, (128, 64, 64): False, (3136, 768, 3072): False}
    for (rows, depth, features), expected in sizes.items():
        shape = ConvolutionGeometry(1, (1, rows), depth, (1, 1), features, (1, rows))
        assert are_panels_outer(shape, choose_tile(shape, machine)) == expected
