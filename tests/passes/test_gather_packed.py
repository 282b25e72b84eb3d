"""gather-packed: a lookup reads the packing that a product by the same weight reads."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import passes_between
from aotc.pipeline import build
from aotc.programs.parameter_archive import read_archive

HEAD = """
import numpy
import aotc
from aotc import nn, numpy as np

rng = numpy.random.default_rng(0)
WORDS = rng.standard_normal((1003, 300)).astype("f4")
weights = aotc.Weights({"words": WORDS, "w": rng.standard_normal((300, 300), "f4")})

"""
ENTRY = """
@aotc.entry(ids=aotc.Spec(SHAPE, "INDEX"))
def NAME(weights, ids):
    words = weights["words"]WIDEN
    x = nn.embedding(words, ids)
    y = np.tanh(x @ weights["w"].astype(words.dtype)) @ words.T
    return x, y[:, -1]
"""
NARROW = "import ml_dtypes\n" + HEAD.replace(
    '"words": WORDS', '"words": WORDS.astype(ml_dtypes.bfloat16)'
)
MODES = {
    "one": (("f", "(1, 1)"),),
    "several": (("f", "(2, 3)"),),
    "any": (("f", "(1, 'n')"),),
    "two_entries": (("f", "(1, 5)"), ("g", "(1, 1)")),
}
IDS = np.array([[-5, 0, 1002], [63, 64, 5000]])
LOOKUP = """
@aotc.entry(ids=aotc.Spec((7,), "i32"))
def g(weights, ids):
    return nn.embedding(weights["words"], ids)
"""
APART = {
    "no_product": LOOKUP,
    "the_whole_as_well": """
@aotc.entry(ids=aotc.Spec((1, 7), "i32"))
def f(weights, ids):
    words = weights["words"]
    return nn.embedding(words, ids) @ words.T, words * words
""",
    "another_entry": """
@aotc.entry(ids=aotc.Spec((1, 7), "i32"))
def f(weights, ids):
    words = weights["words"]
    return nn.embedding(words, ids) @ words.T


@aotc.entry(x=aotc.Spec((1003, 300)))
def g(weights, x):
    return x + weights["words"]
""",
    "indices_in_rows_and_columns": """
@aotc.entry(ids=aotc.Spec((7,), "i32"))
def f(weights, ids):
    words = weights["words"]
    return words[ids, ids], np.tanh(words[:7]) @ words.T
""",
}


def entries(chosen, index="i32", widen=""):
    """The text of some entries."""
    found = ""
    for name, shape in chosen:
        row = {"NAME": name, "SHAPE": shape, "INDEX": index, "WIDEN": widen}
        text = ENTRY
        for word, value in row.items():
            text = text.replace(word, value)
        found += text
    return found


@pytest.fixture(autouse=True)
def no_extra(monkeypatch):
    """No weight is so small that both orders of it are stored from the start."""
    monkeypatch.setattr("aotc.passes.build_time_values.MOST_EXTRA_BYTES", 0)


@pytest.fixture
def unit(tmp_path):
    """The unit of a model that a text writes, after the regions were formed."""

    def unit_of(text, target="x86_64-v3", without=()):
        file = tmp_path / "model.py"
        file.write_text(text)
        unit = Unit(load(file))
        run_passes(unit, passes_between(None, "drop-general"), silently=True)
        unit = unit.fork(Target.parse(target))
        passes = passes_between("drop-general", "lower-to-linalg", without=without)
        run_passes(unit, passes, silently=True)
        return unit

    return unit_of


def words_of(unit):
    """The bytes of what is stored of the embedding."""
    arrays = unit.program.parameters.items()
    return sum(array.nbytes for name, array in arrays if ".words" in name)


def values_of(unit, name, ids):
    """What an entry gives."""
    given = [
        ids if port.name == "ids" else np.asarray(unit.program.parameters[port.name])
        for port in unit.program.entry(name).arguments
    ]
    return reference.evaluate(unit.module, name, given)


TARGETS = ("x86_64-v3", "x86_64-v4", "aarch64", "riscv64-v")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", MODES)
def test_a_lookup_and_a_product_read_one_packing(unit, target, mode):
    text = HEAD + entries(MODES[mode])
    found, whole = unit(text, target), unit(text, target, ["gather-packed"])
    size = 1003 * 300 * 4
    assert size <= words_of(found) < 1.2 * size
    assert words_of(whole) > 2 * size - 1
    for name, shape in MODES[mode]:
        size = [3 if n == "n" else n for n in eval(shape)]
        ids = np.resize(IDS, size).astype("i4")
        pairs = zip(
            values_of(found, name, ids), values_of(whole, name, ids), strict=True
        )
        for mine, theirs in pairs:
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("target", ["x86_64-v4-dot", "aarch64-v8.6"])
def test_a_packing_in_pairs_is_read_as_well(unit, target):
    text = NARROW + entries(MODES["several"])
    found, whole = unit(text, target), unit(text, target, ["gather-packed"])
    assert words_of(found) < 1.2 * 1003 * 300 * 2 < words_of(whole)
    ids = IDS.astype("i4")
    mine, theirs = (values_of(each, "f", ids)[0] for each in (found, whole))
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", APART)
def test_leaves_alone(unit, name):
    text = HEAD + APART[name]
    found, whole = unit(text), unit(text, without=["gather-packed"])
    assert words_of(found) == words_of(whole)


def test_indices_that_cannot_count_the_rows_are_left_alone(unit):
    text = HEAD + entries(MODES["one"], index="u8")
    assert words_of(unit(text)) == words_of(unit(text, without=["gather-packed"]))


def test_compiled_lookups_are_rows_of_the_weight(tmp_path):
    (tmp_path / "model.py").write_text(HEAD + entries(MODES["several"]))
    target = Target.parse("cpu")
    made = build(tmp_path / "model.py", output=tmp_path, targets=[target], sign=False)
    stored = read_archive(made.bundle / "weights.irpa")
    assert sum(".words" in name for name in stored) == 1
    rng = np.random.default_rng(0)
    words = rng.standard_normal((1003, 300)).astype("f4")
    w = rng.standard_normal((300, 300), "f4")
    x, y = aotc.load(made.bundle, allow_unsigned=True).f(ids=IDS.astype("i4"))
    rows = words[np.clip(IDS, 0, 1002)]
    np.testing.assert_array_equal(x, rows)
    np.testing.assert_allclose(y, (np.tanh(rows @ w) @ words.T)[:, -1], atol=1e-3)


FEW_BITS = """
import numpy
import aotc
from aotc import nn, numpy as np

rng = numpy.random.default_rng(0)
BITS = {4: 32, 5: 32, 6: 16}
weights = aotc.Weights(
    {
        f"b{bits}": nn.QuantizedWeights(
            rng.integers(0, 2**bits, (150, 512)).astype("u1"),
            nn.QuantizedWeights(
                rng.integers(1, 64, (150, 512 // block)).astype("u1"),
                rng.uniform(0.01, 0.1, (150, 2)).astype("f2"),
                axis=1,
                block=256 // block,
            ),
            axis=1,
            block=block,
            bits=bits,
        )
        for bits, block in BITS.items()
    }
)


@aotc.entry(ids=aotc.Spec((2, "n"), "i32"))
def f(weights, ids):
    found = []
    for bits in BITS:
        table = weights[f"b{bits}"]
        x = nn.embedding(table.dequantize(), ids)
        found.append((x, table.linear(np.tanh(x))))
    return found
"""


def test_a_quantised_table_that_is_the_head_is_stored_once(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(FEW_BITS)
    before = load(path)
    unit = Unit(load(path)).fork(Target.parse("x86_64-v4"))
    run_passes(unit, passes_between(None, "lower-to-linalg"), silently=True)
    program = unit.program
    for bits in (4, 5, 6):
        own = [
            x for n, x in program.parameters.items() if n.startswith(f"weights.b{bits}")
        ]
        blocks = 512 // (16 if bits == 6 else 32)
        bytes_of_row = 512 * bits // 8 + blocks + 2 * 2
        assert sum(x.nbytes for x in own) == 160 * bytes_of_row  # in whole panels
    ids = np.array([[-5, 0, 149], [31, 32, 5000]], "i4")
    results = [
        reference.evaluate(
            each.module,
            "f",
            [
                ids if port.kind == "input" else each.parameters[port.name]
                for port in each.entry("f").arguments
            ],
        )
        for each in (before, program)
    ]
    for wanted, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
