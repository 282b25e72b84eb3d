"""join-products: products of one operand by several weights are one region."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc import reference
from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import passes_between

HEAD = """
import numpy
import aotc
from aotc import control, debug, nn, numpy as np

rng = numpy.random.default_rng(0)

def w(*shape):
    return rng.normal(size=shape).astype("f4")

"""


@pytest.fixture
def regions(tmp_path):
    """The regions of a model that a text writes, for a target."""

    def build(text, target="x86_64-v3", without=(), before="lower-to-linalg"):
        file = tmp_path / "model.py"
        file.write_text(HEAD + text)
        unit = Unit(load(file)).fork(Target.parse(target))
        passes = passes_between(None, before, without=without)
        run_passes(unit, passes, silently=True)
        return unit

    return build


def results_of(unit, name="f"):
    """How many results each region has that an entry, or the body of a loop, calls."""
    functions = functions_of(unit.module)
    calls = (functions[callee_of(call)] for call in calls_in(functions[name]))
    kernels = [each for each in calls if fused_of(each) is not None]
    return [len(each.type.results) for each in kernels]


def calls_of(unit, name):
    """The names of the functions that an entry calls."""
    return map(callee_of, calls_in(functions_of(unit.module)[name]))


def values_of(unit, inputs, name="f"):
    """The results of an entry by the reference evaluator."""
    entry = unit.program.entry(name)
    given = [
        inputs.get(port.name, unit.program.parameters.get(port.name))
        for port in entry.arguments
    ]
    return reference.evaluate(unit.module, name, given)


def entry(body, weights, x='(37, 64), "f32"', name="f"):
    """The text of an entry of one input."""
    return (
        f"weights = aotc.Weights({{{weights}}})\n"
        f"@aotc.entry(weights=weights, x=aotc.Spec({x}))\n"
        f"def {name}(weights, x):\n    v = weights\n{body}"
    )


THREE = '"q": w(64, 64), "k": w(64, 24), "v": w(64, 40), "b": w(40)'
JOINED = {
    "projections": (
        "    return x @ v['q'], x @ v['k'], nn.relu(x @ v['v'] + v['b'])\n",
        THREE,
        [3],
    ),
    "heads": (
        "    q, k = (np.reshape(x @ v[n], (37, -1, 8)) for n in 'qk')\n"
        "    return np.einsum('qhd,khd->hqk', np.repeat(k, 1, 1)[:, :3], q[:, :3])\n",
        THREE,
        [2],
    ),
    "transposed": (
        "    return x @ np.transpose(v['q']), x @ v['k']\n",
        THREE,
        [2],
    ),
    "gate": (
        "    return nn.silu(x @ v['g']) * (x @ v['u'])\n",
        '"g": w(64, 100), "u": w(64, 100)',
        [1],
    ),
    "gate_and_values_that_are_read_again": (
        "    up = x @ v['u']\n    return up, nn.silu(x @ v['g']) * up + 1.0\n",
        '"g": w(64, 100), "u": w(64, 100)',
        [2],
    ),
    "six": (
        "    return [x @ each for each in v.values()]\n",
        ", ".join(f'"{n}": w(64, 32)' for n in "abcdef"),
        [4, 2],
    ),
    "slices": (
        "    y = x @ v['w'] + v['b']\n    return y[:, :40], y[:, 40:72], y[:, 80:]\n",
        '"w": w(64, 120), "b": w(120)',
        [3],
    ),
    "experts": (
        "    y = np.broadcast_to(x, (3, 37, 64))\n"
        "    return nn.silu(y @ v['g']) * (y @ v['u'])\n",
        '"g": w(3, 64, 40), "u": w(3, 64, 40)',
        [1],
    ),
    "pointwise": (
        "    y = np.reshape(x, (1, 4, 8, 64))\n"
        "    return nn.conv2d(y, v['a']), nn.relu(nn.conv2d(y, v['b']))\n",
        '"a": w(1, 1, 64, 32), "b": w(1, 1, 64, 80)',
        [2],
    ),
}
SHAPES = {"pointwise": '(32, 64), "f32"'}


@pytest.mark.parametrize("name", JOINED)
def test_products_of_one_operand_are_one_region(regions, name):
    body, weights, expected = JOINED[name]
    text = entry(body, weights, SHAPES.get(name, '(37, 64), "f32"'))
    joined, apart = regions(text), regions(text, without=["join-products"])
    assert len(results_of(apart)) >= len(expected)
    found = [n for n in results_of(joined)]
    assert [n for n in found if n > 1 or expected == [1]] == expected
    rows = 32 if name in SHAPES else 37
    x = np.random.default_rng(1).normal(size=(rows, 64)).astype("f")
    for mine, theirs in zip(
        values_of(joined, {"x": x}), values_of(apart, {"x": x}), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-4)
    assert not run_passes(joined, ["join-products"], silently=True)[0].changed


def test_the_build_packs_the_weights_of_joined_products(regions):
    body, weights, _ = JOINED["projections"]
    unit = regions(entry(body, weights))
    ops = functions_of(unit.module)["f"].entry_block.operations
    assert [op.operation.name for op in ops] == ["func.call", "func.return"]


APART = {
    "one_depends_on_the_other": (
        "    q = x @ v['q']\n    return q, (x @ v['k']) * np.mean(q)\n",
        THREE,
    ),
    "rows_of_another": ("    return x @ v['q'], (x + 1.0) @ v['k']\n", THREE),
    "a_weight_that_is_read": (
        "    return x @ v['q'], x @ v['k'], np.mean(x) * v['k']\n",
        THREE,
    ),
    "slices_that_overlap": (
        "    y = x @ v['q']\n    return y[:, :40], y[:, 30:]\n",
        THREE,
    ),
    "slices_of_rows": ("    y = x @ v['q']\n    return y[:9], y[9:]\n", THREE),
    "slices_of_a_residual": (
        "    y = x @ v['q'] + x\n    return y[:, :32], y[:, 32:]\n",
        THREE,
    ),
    "slices_and_the_whole": (
        "    y = x @ v['q']\n    return y, y[:, :32], y[:, 32:]\n",
        THREE,
    ),
}


@pytest.mark.parametrize("name", APART)
def test_leaves_alone(regions, name):
    body, weights = APART[name]
    unit = regions(entry(body, weights), before="join-products")
    assert not run_passes(unit, ["join-products"], silently=True)[0].changed


def test_weights_stay_apart_that_the_build_would_not_store(regions):
    """Each has a few columns more than one panel, and would be nearly half zeros."""
    weights = '"k": w(4096, 136), "v": w(4096, 136)'
    sides = "    return x @ v['k'], x @ v['v']\n", weights, '(1, 4096), "f32"'
    assert results_of(regions(entry(*sides), "x86_64-v4")) == [1, 1]
    whole = "    y = x @ v['k']\n    return y[:, :68], y[:, 68:]\n", *sides[1:]
    assert results_of(regions(entry(*whole), "x86_64-v4")) == [1]


def test_states_are_no_weights(regions):
    unit = regions(
        "s = aotc.State({'q': w(64, 64), 'k': w(64, 64)})\n"
        "@aotc.entry(s=s, x=aotc.Spec((37, 64)))\n"
        "def f(s, x):\n"
        "    return {**s, 'q': s['q'] * 0.5}, (x @ s['q'], x @ s['k'])\n"
    )
    assert results_of(unit) == [1, 1, 1]  # with the update of q


def test_two_entries_join_a_weight_alike_or_not_at_all(regions):
    one = entry("    return x @ v['q'], x @ v['k']\n", THREE)
    alike = regions(
        one + "@aotc.entry(weights=weights, x=aotc.Spec((37, 64)))\n"
        "def g(weights, x):\n    return x @ weights['q'], -(x @ weights['k'])\n"
    )
    assert results_of(alike) == results_of(alike, "g") == [2]
    other = regions(
        one + "@aotc.entry(weights=weights, x=aotc.Spec((37, 64)))\n"
        "def g(weights, x):\n    return x @ weights['q']\n"
    )
    assert results_of(other) == [1, 1]


def test_products_in_a_loop_are_joined(regions):
    unit = regions(
        entry(
            "    step = lambda _, s: (np.tanh(s[0] @ v['q']), s[0] @ v['k'])\n"
            "    return control.fori_loop(0, 5, step, (x, x[:, :24]))\n",
            THREE,
        )
    )
    found = [results_of(unit, name) for name in functions_of(unit.module)]
    assert [2] in found


def test_products_in_a_loop_of_two_entries_are_joined_once(regions):
    loop = (
        "    step = lambda _, s: np.tanh(s @ v['q']) * (s @ v['k'])\n"
        "    return control.fori_loop(0, 5, step, x)\n"
    )
    text = entry(loop, '"q": w(64, 64), "k": w(64, 64)')
    _, declared = text.split("\n", 1)
    unit = regions(text + declared.replace("def f", "def g"), before="split-products")
    (shared,), (own,) = calls_of(unit, "f"), calls_of(unit, "g")
    edited = str(unit.module).replace(f"call @{own}(", f"call @{shared}(")
    with unit.module.context:
        unit.program.module = ir.Module.parse(edited)
    assert [*calls_of(unit, "g")] == [shared]
    x = np.random.default_rng(4).normal(size=(37, 64), scale=0.01).astype("f4")
    before = [values_of(unit, {"x": x}, name) for name in ("f", "g")]
    run_passes(unit, ["fuse-regions", "join-products"], silently=True)
    control = functions_of(unit.module)[shared].attributes["graph.control"]
    (body,) = control["functions"]
    assert results_of(unit, body.value) == [1]
    after = [values_of(unit, {"x": x}, name) for name in ("f", "g")]
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_effects_keep_their_order(regions):
    text = entry(
        "    q = x @ v['q']\n    debug.print('first {}', np.mean(q))\n"
        "    k = x @ v['k']\n    debug.print('second {}', np.mean(k))\n"
        "    return q, k\n",
        THREE,
    )
    unit = regions(text)
    assert results_of(unit)[0] == 2
    printed = [
        op.format.split()[0]
        for op in functions_of(unit.module)["f"].entry_block.operations
        if op.operation.name == "graph.print"
    ]
    assert printed == ["first", "second"]


def test_a_target_without_kernels_has_no_joined_products(regions):
    body, weights, _ = JOINED["projections"]
    assert results_of(regions(entry(body, weights), "vulkan")) == []


@settings(max_examples=15, deadline=None)
@given(
    features=st.lists(st.integers(4, 90), min_size=2, max_size=5),
    rows=st.sampled_from(["1", "7", "40", "'n'"]),
    target=st.sampled_from(["x86_64-v3", "x86_64-v4", "aarch64"]),
    kinds=st.lists(st.sampled_from(["{}", "nn.relu({})", "{} * 2.0"]), min_size=5),
)
def test_joined_products_keep_their_meaning(
    tmp_path_factory, features, rows, target, kinds
):
    weights = ", ".join(f'"w{n}": w(96, {size})' for n, size in enumerate(features))
    results = [kinds[n].format(f"(x @ v['w{n}'])") for n in range(len(features))]
    text = entry(f"    return {', '.join(results)}\n", weights, f"({rows}, 96), 'f32'")
    file = tmp_path_factory.mktemp("joined") / "model.py"
    file.write_text(HEAD + text)
    unit = Unit(load(file)).fork(Target.parse(target))
    run_passes(unit, passes_between(None, "join-products"), silently=True)
    x = np.random.default_rng(2).normal(size=(3 if "n" in rows else int(rows), 96))
    inputs = {"x": x.astype("f")}
    before = values_of(unit, inputs)
    changed = run_passes(unit, ["join-products"], silently=True)[0].changed
    assert changed or results_of(unit).count(1) < 2
    for mine, theirs in zip(values_of(unit, inputs), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
