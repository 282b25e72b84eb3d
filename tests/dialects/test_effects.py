"""Assertions, prints and barriers: kept by every pass, and felt when the model runs."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import debug, reference
from aotc.backend import compile_targets
from aotc.dialects import context
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.stages import all_passes
from aotc.pipeline import build, lower
from aotc.tracing.assembly import trace
from aotc.tracing.tracing import Trace

MODEL = """
import aotc
import aotc.numpy as np
from aotc import debug

x = aotc.Spec((aotc.Dim("n", min=0), 2), "f32")
total = aotc.State({"sum": np.zeros(()), "calls": np.zeros((), "u8")})


@aotc.entry(x=x, total=total)
def add(x, total):
    debug.check(x > 0.0, 'all of "x" are positive')
    calls = total["calls"] + 255
    debug.print("call {}: {:.1f} of", calls, x)
    found = total["sum"] + np.sum(x)
    return {"sum": found, "calls": calls}, found


@aotc.entry(x=x)
def values(x):
    debug.print("{} {{bf16}}", np.sum(x).astype("bf16"))
    debug.print("{}", x > 1.0)
    return x


@aotc.entry(x=x)
def twice(x):
    return np.exp(x), np.exp(debug.barrier(x)), np.exp(x)


@aotc.entry(x=x)
def slope(x):
    def loss(x):
        debug.check(x < 10.0, "x is small")
        debug.print("x = {}", np.sum(x))
        return np.sum(debug.barrier(x) ** 2.0)

    return aotc.grad(loss)(x)
"""
CHECK = 1 + MODEL.splitlines().index(
    "    debug.check(x > 0.0, 'all of \"x\" are positive')"
)
ONES = np.ones((2, 2), "f")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The file with the model above."""
    file = tmp_path_factory.mktemp("effects") / "effects.py"
    file.write_text(MODEL, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def bundle(source):
    """The model, compiled once."""
    return build(source, output=source.parent, sign=False).bundle


@pytest.fixture
def model(bundle):
    """The compiled model, with fresh state."""
    return aotc.load(bundle, allow_unsigned=True, threads=1)


def test_a_failed_assertion_says_what_and_where(model):
    with pytest.raises(InputError) as failure:
        model.add(x=-ONES)
    assert failure.value.code == "assertion-failed"
    assert failure.value.message == 'all of "x" are positive'
    assert failure.value.where == f"effects.py:{CHECK}"


def test_a_call_that_failed_has_changed_no_state(model):
    model.add(x=ONES)
    for wrong in (-ONES, np.array([[1, 1], [1, 0]], "f")):
        with pytest.raises(InputError):
            model.add(x=wrong)
    assert model.read_state("total")["sum"] == 4.0
    assert model.add(x=ONES) == 8.0


def test_an_assertion_over_nothing_holds(model):
    assert model.add(x=ONES[:0]) == 0.0


def test_prints_show_values_by_dtype_in_order(model, capfd):
    model.add(x=ONES)
    model.values(x=ONES * 1.25)
    assert capfd.readouterr().err == (
        "call 255: [[1.0 1.0]\n [1.0 1.0]] of\n"
        "5 {bf16}\n"
        "[[ True  True]\n [ True  True]]\n"
    )


def test_a_gradient_prints_and_checks_what_its_function_does(model, capfd):
    np.testing.assert_array_equal(model.slope(x=ONES), 2 * ONES)
    assert capfd.readouterr().err == "x = 4.0\n"
    with pytest.raises(InputError, match="x is small"):
        model.slope(x=ONES * 11)


def test_what_a_barrier_keeps_apart_is_computed_again(model, source):
    for found in model.twice(x=ONES):
        np.testing.assert_allclose(found, np.exp(ONES), rtol=1e-6)
    report = build(source, entries=("twice",), stop_after="vmfb")
    assert report.variants[0].statistics["dispatches"] == 2


def traced(function, *types):
    """A module with `function` as `f`."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        trace = Trace(module, "f", [Tensor(*kind) for kind in types], [])
    with trace.active():
        trace.finish([function(*trace.arguments)])
    return module


def ops_of(module):
    """The names of all ops of `f`."""
    (function,) = module.body.operations
    return [op.operation.name for op in function.entry_block.operations]


def effects(x):
    """Nothing uses what has no result; everything is there twice."""
    for _ in range(2):
        debug.check(anp.sum(x) > 0.0, "positive")
        debug.print("{}", anp.sum(x))
    return debug.barrier(x) + debug.barrier(x)


def test_graph_passes_keep_effects_and_their_order():
    module = traced(effects, ((3,), "f32"))
    run_passes(module, ["autodiff", "inline", "simplify", "cse", "simplify"])
    kept = [
        n for n in ops_of(module) if n.split(".")[1] in ("assert", "print", "barrier")
    ]
    assert kept == ["graph.assert", "graph.print"] * 2 + ["graph.barrier"] * 2
    assert ops_of(module).count("graph.reduce_sum") == 1


def test_the_reference_runs_effects_and_names_the_line(capsys):
    module = traced(effects, ((3,), "f32"))
    reference.evaluate(module, "f", [np.ones(3, "f")])
    assert capsys.readouterr().err == "3.0\n" * 2
    with pytest.raises(InputError, match="positive") as failure:
        reference.evaluate(module, "f", [-np.ones(3, "f")])
    assert failure.value.code == "assertion-failed"
    assert failure.value.where.startswith("test_effects.py:")


def test_effects_outside_of_a_trace_happen_at_once(capsys):
    debug.print("{:.2f}{{}} {}!", np.float32(0.5), [1, 2])
    assert capsys.readouterr().err == "0.50{} [1 2]!\n"
    debug.check(np.array([True, True]), "holds")
    with pytest.raises(InputError, match="does not hold") as failure:
        debug.check(False, "it does not hold")
    assert failure.value.where.startswith("test_effects.py:")
    tree = {"a": np.ones(2), "b": (1.0, np.zeros(3))}
    assert debug.barrier(tree)["b"][1].shape == (3,)


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        (lambda: debug.check(ONES, "m"), "dtype-mismatch", "f32\\[2, 2\\]"),
        (lambda: debug.check(True, 3), "bad-argument", "to be a string; got 3"),
        (lambda: debug.check(True, ""), "bad-argument", "message"),
        (lambda: debug.print("{} {}", ONES), "bad-format", r"\(2\).*got 1"),
        (lambda: debug.print("nothing"), "bad-format", r"\(0\).*got 0"),
        (lambda: debug.print("{x}", ONES), "bad-format", "plain"),
        (lambda: debug.print("{!r}", ONES), "bad-format", "plain"),
        (lambda: debug.print("{", ONES), "bad-format", "no format"),
        (lambda: debug.print("{:d}", ONES), "bad-format", "cannot show f32"),
        (lambda: debug.print(3, ONES), "bad-argument", "to be a string"),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_or_printed_is_refused(call, code, said):
    with pytest.raises(InputError, match=said) as failure:
        call()
    assert failure.value.code == code


def test_equal_prints_share_one_function():
    module = traced(effects, ((3,), "f32"))
    run_passes(module, all_passes())
    names = [str(op.attributes["sym_name"]) for op in module.body.operations]
    assert sorted(names) == ['"f"', '"iree.barrier"', '"iree.print"']


@pytest.mark.parametrize("target", ["x86_64-v3", "vmvx", "cuda:sm_80", "vulkan"])
def test_checks_of_comparisons_compile(target):
    entries = []
    for dtype in ("i8", "i32", "i64", "f32", "bool"):

        def compared(x, dtype=dtype):
            debug.check(x > 0 if dtype != "bool" else x, "x is positive")
            return x

        compared.__name__ = f"compared_{dtype}"
        entries.append(aotc.entry(x=aotc.Spec(("n",), dtype))(compared))
    program = trace(entries, {})
    compiled = Target.parse(target)
    (variant,) = compile_targets(lower(program, compiled), [compiled])
    assert variant.vmfb
