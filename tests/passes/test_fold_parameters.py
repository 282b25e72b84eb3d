"""fold-parameters: what depends on weights and constants alone is computed once."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aotc
from aotc import reference
from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.parameters import parameters_of
from aotc.errors import CompileError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import fold_parameters, run_passes
from aotc.passes.base import Unit
from aotc.pipeline import IR_STAGES, build
from aotc.programs.parameter_archive import read_archive

HEAD = """
import numpy
import aotc
import aotc.fft
import aotc.linalg
import aotc.numpy as np
rng = numpy.random.default_rng(3)
def draw(*shape):
    return rng.standard_normal(shape).astype("f4")
"""


@pytest.fixture
def program_of(tmp_path):
    """The program of a model.py, after the passes that lead to folding."""

    def make(text, *passes):
        file = tmp_path / "model.py"
        file.write_text(HEAD + text)
        program = load(file)
        with context(), ir.Location.unknown():
            run_passes(Unit(program), ("autodiff", "inline", "simplify", *passes))
        return program

    return make


def ops_of(program, name="f"):
    function = functions_of(program.module)[name]
    names = [op.operation.name for op in function.entry_block.operations]
    return [each.removeprefix("graph.") for each in names[:-1]]


def weights_of(program, name="f"):
    return [p.name for p in program.entry(name).arguments if p.kind == "weight"]


def results_of(program):
    """What all entries compute from the same random inputs, by the reference."""
    found = []
    for entry in program.entries:
        rng = np.random.default_rng(0)
        arguments = [
            rng.uniform(0.5, 1.5, port.type.shape).astype("f4")
            if port.kind == "input"
            else program.parameters[port.name]
            for port in entry.arguments
        ]
        found += reference.evaluate(program.module, entry.name, arguments)
    return found


def fold(program):
    """Fold; whether that changed anything. The results stay the same."""
    before = results_of(program)
    (record,) = run_passes(Unit(program), ("fold-parameters",))
    for old, new in zip(before, results_of(program), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-4)
    declared = [each.name for each in parameters_of(program.module)]
    assert declared == list(program.parameters)
    return record.changed


def entry(weights, result, x="(2, 4)"):
    return (
        f"w = aotc.Weights({weights})\n"
        f"@aotc.entry(x=aotc.Spec({x}))\n"
        f"def f(w, x):\n    return {result}\n"
    )


SUM = ["broadcast", "add"]


@pytest.mark.parametrize(
    ("weights", "result", "left", "names"),
    [
        ("draw(3, 4)", "x @ np.tanh(w.T)", ["dot_general"], ["w.folded"]),
        ("[draw(4), draw(4, 4)]", "x @ (w[1] * w[0])", ["dot_general"], ["w.1.folded"]),
        ("[draw(4, 9), draw(9, 4)]", "x + (w[0] @ w[1])[:2]", ["add"], ["w.0.folded"]),
        ("draw(4)", "x + np.exp(w)", SUM, ["w.folded"]),
        ("draw(4)", "(x, w[1:3] * 2.0)", [], ["w.folded"]),
        ("draw(4)", "(x + w, x + (w + 1.0))", SUM * 2, ["w", "w.folded"]),
        ("draw(2)", "x[0, 0] + np.sin(np.arange(300.0))", None, ["constants.0"]),
    ],
)
def test_what_depends_on_weights_alone_becomes_a_weight(
    program_of, weights, result, left, names
):
    program = program_of(entry(weights, result))
    assert fold(program)
    assert left in (None, ops_of(program))
    assert weights_of(program) == names
    assert not fold(program)


@pytest.mark.parametrize(
    ("weights", "result"),
    [
        ("draw(4)", "x + w"),
        ("draw(4)", "np.where(np.arange(4) > 2, x, w)"),
        ("draw(700, 800)", "(x, w, np.exp(w))"),  # twice the bytes
        ("draw(2, 2)", "x + np.reshape(w, (4,))"),
    ],
)
def test_weights_that_are_read_as_they_are_stay(program_of, weights, result):
    program = program_of(entry(weights, result))
    before = ops_of(program)
    fold(program)
    assert weights_of(program) == ["w"]
    assert ops_of(program) == before


@pytest.mark.parametrize(
    ("weights", "result"),
    [
        ("draw(4)", "x + 2.0"),
        ("draw(0, 4)", "np.concatenate([x, w * 2.0])"),
        ("{'a': draw(4), 'b': draw(4)}", "x + 0.0 * np.max(w['b'][:0], initial=1.0)"),
    ],
)
def test_weights_that_nothing_reads_are_dropped(program_of, weights, result):
    program = program_of(entry(weights, result))
    expected = results_of(program)
    assert fold(program)
    assert weights_of(program) == []
    assert list(program.parameters) == []
    assert parameters_of(program.module) == []
    for got, wanted in zip(results_of(program), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert not fold(program)


OUTER = "np.tanh(w['a'][:, None] + w['b'][None, :])"


@pytest.mark.parametrize(
    ("value", "is_folded"),
    [
        (OUTER, False),
        ("w['a'][:, None] @ w['b'][None, :]", True),
        (f"aotc.linalg.cholesky({OUTER} + 520.0 * np.eye(520))", True),
        (f"aotc.linalg.eigh({OUTER})[1]", True),
        (f"aotc.linalg.inv({OUTER} + 520.0 * np.eye(520))", True),
        (f"aotc.linalg.qr({OUTER})[0]", True),
        (f"aotc.linalg.svd({OUTER})[0]", True),
        (f"aotc.fft.fft({OUTER}).real", True),
    ],
)
def test_growing_is_worth_it_for_what_is_costly_alone(program_of, value, is_folded):
    weights = "{'a': draw(520), 'b': draw(520)}"
    program = program_of(entry(weights, f"x + {value}", "(520, 520)"))
    fold(program)
    assert (weights_of(program) == ["w.a", "w.b"]) is not is_folded


@pytest.mark.parametrize(("columns", "is_folded"), [(1090, True), (1200, False)])
def test_a_weight_may_be_padded_by_an_eighth(program_of, columns, is_folded):
    """To 1.4 MiB more, or to 3 MiB, of 16."""
    padded = f"x + np.pad(w, ((0, 0), (0, {columns - 1000}))).T"
    program = program_of(entry("draw(4000, 1000)", padded, f"({columns}, 4000)"))
    fold(program)
    assert weights_of(program) == (["w.folded"] if is_folded else ["w"])


def test_a_tied_weight_is_not_stored_twice(program_of):
    tied = "np.take(w, x[:, 0].astype('i32'), axis=0) + x, x @ w.T"
    large = program_of(entry("draw(4000, 100)", tied, "(2, 100)"))
    assert not fold(large)
    small = program_of(entry("draw(40, 100)", tied, "(2, 100)"))
    assert fold(small)
    assert weights_of(small) == ["w", "w.folded"]


TWO = """
w = aotc.Weights({"a": draw(4, 3), "b": draw(3)})
s = aotc.State({"c": draw(4, 3)})

@aotc.entry(x=aotc.Spec((2, 4)))
def f(w, x):
    return x @ np.exp(w["a"]) + w["b"]

@aotc.entry(x=aotc.Spec((2, 4)), s=s.frozen)
def g(s, w, x):
    return x @ np.exp(w["a"]) + x @ np.exp(s["c"])

@aotc.entry(x=aotc.Spec((2, 4)))
def h(s, x, w):
    return {"c": s["c"] * 2.0}, x @ np.exp(w["a"]), w["a"].sum()
"""


def test_entries_share_what_is_stored_and_states_are_never_computed_with(program_of):
    program = program_of(TWO)
    assert fold(program)
    assert weights_of(program, "f") == ["w.b", "w.a.folded"]
    assert weights_of(program, "g") == ["w.a.folded"]  # it does not read w.b
    assert weights_of(program, "h") == ["w.a.folded", "w.a.folded_1"]
    names = ["w.b", "s.c", "w.a.folded", "w.a.folded_1"]
    assert list(program.parameters) == names
    assert [each.reads for each in program.entries] == [("w",), ("s", "w"), ("s", "w")]
    assert ops_of(program, "g").count("exp") == 1
    program.keep_entries(["f"])
    assert list(program.parameters) == ["w.b", "w.a.folded"]


def test_equal_arrays_are_stored_once(program_of):
    weights = "{'a': numpy.ones((4, 3), 'f4'), 'b': numpy.ones((4, 3), 'f4')}"
    program = program_of(entry(weights, "x @ (w['a'] - 0.5) + x @ (w['b'] * 0.5)"))
    fold(program)
    assert weights_of(program) == ["w.a.folded"]


@pytest.mark.parametrize("most_at_once", [2**16, 0])
def test_arrays_are_not_compared_each_with_each(program_of, monkeypatch, most_at_once):
    compared = []
    monkeypatch.setattr(fold_parameters, "MOST_BYTES_AT_ONCE", most_at_once)
    is_alike = fold_parameters.is_computed_alike
    monkeypatch.setattr(
        fold_parameters,
        "is_computed_alike",
        lambda *pair: compared.append(pair) or is_alike(*pair),
    )
    layers = "[draw(4, 3) for _ in range(9)] + [numpy.ones((4, 3), 'f4')] * 3"
    body = "sum(x @ np.exp(each) for each in w)"
    program = program_of(entry(layers, body))
    fold(program)
    assert len(weights_of(program)) == 10
    assert len(compared) == 2  # those that are equal


STEPS = ["+ {}", "* {}", "@ {}", "+ {}.T", "- np.tanh({})"]
steps = st.lists(
    st.tuples(st.sampled_from("xwv"), st.sampled_from(STEPS)), min_size=1, max_size=6
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=steps)
def test_entries_compute_the_same_as_before(program_of, steps):
    values = "w"
    for name, step in steps:
        values = f"({values} {step.format(name)})"
    program = program_of(
        "w, v = aotc.Weights(draw(3, 3) / 3), aotc.Weights(draw(3, 3) / 3)\n"
        "@aotc.entry(x=aotc.Spec((3, 3)))\n"
        f"def f(w, v, x):\n    return {values}, x\n"
    )
    fold(program)
    assert not fold(program)


# ---- in a build ---------------------------------------------------------------------


def built(tmp_path, text, name="out", **asked):
    file = tmp_path / "model.py"
    if text is not None:
        file.write_text(HEAD + text)
    source = asked.pop("source", file)
    choices = {"targets": [Target.parse("cpu")], "sign": False, **asked}
    return build(source, output=tmp_path / name, **choices)


def files_of(bundle):
    return {
        path.relative_to(bundle).as_posix(): path.read_bytes()
        for path in bundle.rglob("*")
        if path.is_file()
    }


def test_large_constants_are_no_code_and_each_stage_goes_on_to_the_same(tmp_path):
    model = "table = draw(512, 512)\n" + entry(
        "draw(512, 512)", "(x @ np.exp(w).T + (x * x) @ table, x)", "(4, 512)"
    )
    report = built(tmp_path, model, dump=tmp_path / "ir")
    assert all(row.checked for row in report.self_checks)
    assert sum(len(variant.vmfb) for variant in report.variants) < 200_000
    names = {*read_archive(report.bundle / "weights.irpa")}
    # as they are laid out for the target, not as they were folded before
    assert {name.partition("_")[0] for name in names} == {
        "constants.0.folded",
        "w.folded",
    }
    assert len(names) == 2
    loaded = aotc.load(report.bundle, allow_unsigned=True)
    x = np.random.default_rng(1).standard_normal((4, 512)).astype("f4")
    original = load(tmp_path / "model.py")
    with context(), ir.Location.unknown():
        expected = reference.evaluate(
            original.module, "f", [original.parameters["w"], x]
        )
    for got, wanted in zip(loaded.f(x=x), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)
    manifest = json.loads((report.bundle / "manifest.json").read_bytes())
    assert manifest["entry_points"][0]["reads"] == ["w", "constants"]
    whole = built(tmp_path, None, "whole", self_check="off").bundle
    for stage in IR_STAGES:
        (source,) = (tmp_path / "ir").rglob(f"{stage}.mlir")
        again = built(tmp_path, None, stage, source=source, self_check="off").bundle
        assert files_of(again) == files_of(whole), stage


def test_a_build_names_the_pass_that_folds_wrongly(tmp_path, monkeypatch):
    from aotc.passes import fold_parameters

    right = fold_parameters.evaluate
    monkeypatch.setattr(
        fold_parameters, "evaluate", lambda *given: [2 * x for x in right(*given)]
    )
    with pytest.raises(CompileError, match="first differs after: fold-parameters"):
        built(tmp_path, entry("draw(4, 3)", "x @ np.exp(w)"))


def test_numbers_that_are_repeated_are_not_stored_for_each_element(program_of):
    program = program_of("""
w = aotc.Weights({"zero": numpy.uint8(13), "scale": numpy.float32(0.25)})
@aotc.entry(x=aotc.Spec((1, 20, 30), "u8"))
def f(w, x):
    zero = np.astype(np.broadcast_to(w["zero"], (1, 20, 30)), "f32")
    step = np.sqrt(np.broadcast_to(w["scale"], (1, 20, 30)))
    return (np.astype(x, "f32") - zero) * step
""")
    run_passes(Unit(program), ("fold-parameters",))
    sizes = [program.parameters[name].size for name in weights_of(program)]
    assert sizes
    assert {*sizes} == {1}
