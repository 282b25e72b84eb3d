"""split-products: columns that meet become products, which one kernel computes."""

from itertools import permutations

import numpy as np
import pytest

from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import passes_between

HEAD = """
import numpy
import aotc
from aotc import nn, numpy as np

rng = numpy.random.default_rng(0)

def w(*shape):
    return rng.normal(size=shape).astype("f4")

weights = aotc.Weights({"w": w(280, 120), "b": w(120)})

"""
PAIR = "    y = x @ weights['w'] + weights['b'] + z\n"
SPLIT = {
    "pair": PAIR + "    return nn.sigmoid(y[:, :60]) * y[:, 60:]\n",
    "four": PAIR + "    a, b, c, d = (y[:, 30 * n : 30 * n + 30] for n in range(4))\n"
    "    return np.tanh(a) * b + c * nn.sigmoid(d), a\n",
    "some_columns": PAIR + "    return np.maximum(y[:, 70:110], y[:, 10:50])\n",
    "no_other_ops": "    y = x @ weights['w']\n    return y[:, :60] * y[:, 60:]\n",
}
APART = {
    "columns_that_do_not_meet": PAIR + "    return y[:, :60], nn.relu(y[:, 60:])\n",
    "overlapping": PAIR + "    return y[:, :70] * y[:, 50:]\n",
    "unequal": PAIR + "    return y[:, :60] * np.sum(y[:, 60:110], 1)[:, None]\n",
    "the_whole_as_well": PAIR + "    return y, y[:, :60] * y[:, 60:]\n",
    "another_reader_before": "    v = x @ weights['w']\n    y = v + z\n"
    "    return v, y[:, :60] * y[:, 60:]\n",
    "every_other_column": PAIR + "    return y[:, ::2] * y[:, 1::2]\n",
    "columns_that_go_on_apart_on_many_paths": PAIR + "    a, b = y[:, :60], y[:, 60:]\n"
    "    for _ in range(30):\n        a = np.tanh(a) * nn.sigmoid(a)\n"
    "    return a, b\n",
    "rows": PAIR + "    return y[:1] * y[1:2]\n",
    "a_weight_that_is_read": PAIR
    + "    return y[:, :60] * y[:, 60:], np.mean(z) * weights['w']\n",
    "five_parts": PAIR + "    found = y[:, :24]\n"
    "    for n in range(1, 5):\n        found = found * y[:, 24 * n : 24 * n + 24]\n"
    "    return found\n",
    "too_little": "    y = x[:1, :1] @ weights['w'][:1]\n"
    "    return y[:, :60] * y[:, 60:]\n",
}
LSTM = """
weights = aotc.Weights([w(24, 384), w(96, 384), w(384)])

@aotc.entry(weights=weights, xs=aotc.Spec((5, SEQUENCES, 24)))
def f(weights, xs):
    return nn.lstm(xs, *weights)[0]
"""
TERMS = ["x @ kernel", "h @ recurrent", "bias"]
CELL = """
weights = aotc.Weights([w(24, 384), w(96, 384), w(384)])

@aotc.entry(weights=weights, x=aotc.Spec((5, 24)), h=aotc.Spec((5, 96)))
def f(weights, x, h):
    kernel, recurrent, bias = weights
    y = SUM
    a, b, c, d = (y[:, 96 * n : 96 * n + 96] for n in range(4))
    return np.tanh(a) * nn.sigmoid(b) + nn.sigmoid(c) * d
"""


def entry(body, rows="37"):
    return (
        f"@aotc.entry(weights=weights, x=aotc.Spec(({rows}, 280)), "
        f"z=aotc.Spec(({rows}, 120)))\ndef f(weights, x, z):\n{body}"
    )


@pytest.fixture
def program(tmp_path):
    """The program of a model that a text writes, for a target, before some pass."""

    def build(text, before, target="x86_64-v3", without=()):
        file = tmp_path / "model.py"
        file.write_text(HEAD + text)
        unit = Unit(load(file)).fork(Target.parse(target))
        run_passes(unit, passes_between(None, before, without=without), silently=True)
        return unit

    return build


def split(unit):
    return run_passes(unit, ["split-products"], silently=True)[0].changed


def products_of_regions(unit):
    """Return how many products each region has."""
    regions = [f for f in functions_of(unit.module).values() if fused_of(f) is not None]
    names = ([op.operation.name for op in f.entry_block.operations] for f in regions)
    return sorted(each.count("graph.dot_general") for each in names)


def values_of(unit, inputs):
    given = [
        inputs.get(port.name, unit.program.parameters.get(port.name))
        for port in unit.program.entry("f").arguments
    ]
    return reference.evaluate(unit.module, "f", given)


def require_equal(one, other, inputs):
    pairs = zip(values_of(one, inputs), values_of(other, inputs), strict=True)
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", ["37", "1", "'n'"])
@pytest.mark.parametrize("name", SPLIT)
def test_columns_that_meet_are_one_region_of_several_products(program, name, rows):
    text = entry(SPLIT[name], rows)
    found = program(text, "lower-to-linalg")
    assert products_of_regions(found) == [4 if name == "four" else 2]
    whole = program(text, "lower-to-linalg", without=["split-products"])
    count = 3 if rows == "'n'" else int(rows)
    rng = np.random.default_rng(1)
    inputs = {"x": rng.normal(size=(count, 280)), "z": rng.normal(size=(count, 120))}
    require_equal(found, whole, {k: v.astype("f") for k, v in inputs.items()})


@pytest.mark.parametrize("name", [*SPLIT, "cell"])
def test_what_is_split_is_not_split_again(program, name):
    cell = CELL.replace("SUM", " + ".join(TERMS))
    unit = program(cell if name == "cell" else entry(SPLIT[name]), "split-products")
    assert split(unit)
    assert not split(unit)


@pytest.mark.parametrize("name", APART)
def test_leaves_alone(program, name):
    assert not split(program(entry(APART[name]), "split-products"))


def test_a_target_without_kernels_keeps_its_products(program):
    assert not split(program(entry(SPLIT["pair"]), "split-products", "cuda:sm_80"))


@pytest.mark.parametrize("sequences", ["1", "3", "'n'"])
def test_a_step_of_an_lstm_is_one_region(program, sequences):
    text = LSTM.replace("SEQUENCES", sequences)
    found = program(text, "lower-to-linalg")
    assert products_of_regions(found) == [0, 1, 4]  # the first is the loop of the last
    whole = program(text, "lower-to-linalg", without=["split-products"])
    count = 2 if sequences == "'n'" else int(sequences)
    xs = np.random.default_rng(2).normal(size=(5, count, 24)).astype("f")
    require_equal(found, whole, {"xs": xs})


@pytest.mark.parametrize("terms", [*permutations(TERMS)])
@pytest.mark.parametrize("sum", ["{} + {} + {}", "{} + ({} + {})"])
def test_one_of_two_products_of_a_sum_is_split_and_reads_the_other(program, terms, sum):
    text = CELL.replace("SUM", sum.format(*terms))
    found = program(text, "lower-to-linalg")
    assert products_of_regions(found) == [1, 4]
    whole = program(text, "lower-to-linalg", without=["split-products"])
    rng = np.random.default_rng(3)
    inputs = {"x": rng.normal(size=(5, 24)), "h": rng.normal(size=(5, 96))}
    require_equal(found, whole, {k: v.astype("f") for k, v in inputs.items()})


def test_two_entries_that_read_a_weight_in_columns_join_it_alike(program):
    text = entry(SPLIT["pair"]) + entry(SPLIT["pair"]).replace("def f", "def g")
    assert products_of_regions(program(text, "lower-to-linalg")) == [2]
