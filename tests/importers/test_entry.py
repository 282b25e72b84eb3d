"""Declaring entries: inputs, contracts, weights, state, and what is returned."""

import numpy as np
import pytest

from aotc import reference
from aotc.errors import InputError
from tests.importers.entries import HEAD, refused_model

# ---- inputs -------------------------------------------------------------------------


def test_inputs_may_be_nested_and_are_named_by_their_path(model):
    program = model.load("""
        import aotc
        pair = (aotc.Spec((2,)), {"b": aotc.Spec(("n",), "i32")})

        @aotc.entry(x=pair, a=[aotc.Spec((), float)])
        def f(x, a):
            return {"out": x[0] * a[0], "more": [x[1]["b"]]}
        """)
    entry = program.entries[0]
    assert [(p.name, str(p.type)) for p in entry.arguments] == [
        ("x.0", "f32[2]"), ("x.1.b", "i32[s0]"), ("a.0", "f32[]"),
    ]  # fmt: skip
    assert [p.name for p in entry.results] == ["more.0", "out"]
    assert entry.input_tree.to_json() == {
        "dict": {"x": {"tuple": [0, {"dict": {"b": 1}}]}, "a": {"list": [2]}}
    }


def test_ports_are_named_in_the_ir(model):
    source = HEAD + (
        "@aotc.entry(x=aotc.Spec(('batch', 3)))\n"
        "def step(state, weights, x):\n"
        "    return {'w': state['w'] + weights['w'], 'n': state['n'] + 1}, x.sum()\n"
    )
    text = str(model.load(source).module)
    for name, kind, times in (
        ("state.w", "state", 2), ("state.n", "state", 2), ("weights.b.0", "weight", 1),
        ("x", "input", 1), ("output", "output", 1),
    ):  # fmt: skip
        assert text.count(f'{{graph.kind = "{kind}", graph.name = "{name}"') == times


def test_a_function_without_inputs_needs_no_arguments_to_entry(model):
    program = model.load(
        HEAD + "@aotc.entry\ndef f(weights):\n    return weights['w']\n"
    )
    assert program.entries[0].reads == ("weights",)


def test_parameters_with_defaults_keep_them(model):
    program = model.load(
        HEAD
        + "@aotc.entry(x=aotc.Spec(3))\ndef f(x, factor=2):\n    return x * factor\n"
    )
    (result,) = reference.evaluate(program.module, "f", [np.ones(3, "f4")])
    assert result.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("@aotc.entry()\ndef f(x): ...", "nothing says what parameter 'x'"),
        (
            "@aotc.entry(y=aotc.Spec(3))\ndef f(x): ...",
            "has no parameter 'y'; it has x",
        ),
        ("@aotc.entry(x=3)\ndef f(x): ...", "for 'x' of entry 'f'; got int"),
        (
            "@aotc.entry(x={'a': 'f32'})\ndef f(x): ...",
            "for 'x.a' of entry 'f'; got str",
        ),
        ("@aotc.entry()\ndef f(*args): ...", "takes '*args'"),
        ("@aotc.entry(x=aotc.Spec(3))\ndef f(x, /): ...", "given by name"),
        ("f = aotc.entry(x=aotc.Spec(3))(lambda x: x)", "a function with a name"),
        ("f = aotc.entry(x=aotc.Spec(3))(numpy.exp)", "a function with a name"),
    ],
)
def test_a_parameter_that_is_not_declared_is_refused(model, declaration, message):
    error = refused_model(model, declaration)
    assert error.code == "bad-entry"
    assert message in error.message


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ("aotc.Spec((-1, 3))", "bad-spec", "sizes of 0 or more; got -1"),
        ("aotc.Spec((1.5,))", "bad-spec", "ints, names or Dims; got 1.5"),
        ("aotc.Spec((True,))", "bad-spec", "got True"),
        ("aotc.Spec((None,))", "bad-spec", "got None"),
        ("aotc.Spec((3,), 'c64')", "unknown-dtype", "'c64' is not an element type"),
        ("aotc.Spec(('a b',))", "bad-contract", "like a Python name; got 'a b'"),
        ("aotc.Dim('n', min=-1)", "bad-contract", "allows no size"),
        ("aotc.Dim('n', min=5, max=4)", "bad-contract", "allows no size"),
        ("aotc.Dim('n', max=7, multiple_of=8)", "bad-contract", "allows no size"),
        ("aotc.Dim('n', multiple_of=0)", "bad-contract", "allows no size"),
        ("aotc.Dim('n', max=4, optimum=5)", "bad-contract", "n in [1, 4] allows"),
        ("aotc.Dim('n', multiple_of=4, optimum=6)", "bad-contract", "in steps of 4"),
        ("aotc.Dim('n', min=0, optimum=-1)", "bad-contract", "allows; got -1"),
        ("aotc.Dim('n', optimum='8')", "bad-contract", "allows; got '8'"),
    ],
)
def test_specs_and_contracts_that_nothing_fits_are_refused(model, spec, code, message):
    error = refused_model(model, f"x = {spec}")
    assert error.code == code
    assert message in error.message


# ---- contracts ----------------------------------------------------------------------


def contracts(model, *sizes):
    """The contracts of an entry with one vector of each size."""
    names = [f"x{number}" for number in range(len(sizes))]
    specs = ", ".join(
        f"{n}=aotc.Spec(({s},))" for n, s in zip(names, sizes, strict=True)
    )
    source = f"@aotc.entry({specs})\ndef f({', '.join(names)}): return x0 + x1\n"
    return model.load(HEAD + source).entries[0].symbols


def test_a_name_promises_what_any_of_its_dims_does(model):
    for sizes in (
        ("'n'", "aotc.Dim('n', max=8)"),
        ("aotc.Dim('n', max=8)", "'n'"),
        ("aotc.Dim('n', max=8)", "aotc.Dim('n', max=8)"),
    ):
        (contract,) = contracts(model, *sizes)
        assert (contract.name, contract.min, contract.max) == ("n", 1, 8)


def test_two_different_promises_for_one_name_are_refused(model):
    with pytest.raises(InputError) as caught:
        contracts(model, "aotc.Dim('n', max=8)", "aotc.Dim('n', max=9)")
    assert caught.value.code == "bad-contract"
    assert caught.value.where == "model.py:9"


def test_a_multiple_raises_the_least_size(model):
    source = HEAD + (
        "@aotc.entry(x=aotc.Spec((aotc.Dim('n', multiple_of=4),)))\n"
        "def f(x): return x[3], x.reshape(-1, 4)\n"
    )
    assert model.load(source)
    assert model.refused(source.replace("x[3]", "x[4]")).code == "symbolic-size"
