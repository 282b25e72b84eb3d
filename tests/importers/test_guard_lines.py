"""Guards know the lines of the model that declare them."""

import numpy as np
import pytest

import aotc
from aotc.errors import InputError

MODEL = """
import aotc

batch = aotc.Dim("batch", max=8)


@aotc.entry(
    x=aotc.Spec((batch, 3)),
    y=[aotc.Spec((batch,), "i32"), aotc.Spec(("n",), "i32")],
)
def f(x, y):
    return x, y[0] + 1, y[1] + 1
"""


@pytest.fixture
def entry(model):
    return model.load(MODEL).entry("f")


def test_an_input_is_declared_where_its_spec_is(entry):
    lines = {port.name: port.where for port in entry.ports("input")}
    assert lines == {"x": "model.py:8", "y.0": "model.py:9", "y.1": "model.py:9"}


def test_a_size_is_declared_where_its_dim_is_or_with_the_first_input_that_has_it(entry):
    lines = {contract.name: contract.where for contract in entry.symbols}
    assert lines == {"batch": "model.py:4", "n": ""}


def test_lines_say_nothing_about_whether_contracts_are_equal(model):
    source = (
        MODEL
        + """

@aotc.entry(x=aotc.Spec((aotc.Dim("batch", max=8),)))
def g(x):
    return x
"""
    )
    first, second = (model.load(source).entry(name).symbols[0] for name in "fg")
    assert first == second
    assert first.where != second.where


def test_a_spec_that_another_file_of_the_model_declares_names_that_file(
    model, tmp_path
):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/specs.py").write_text("import aotc\nX = aotc.Spec((3,))\n")
    source = """
import sys, pathlib
sys.path.insert(0, str(pathlib.Path(__file__).parent / "parts"))
import aotc, specs
sys.path.pop(0)

@aotc.entry(x=specs.X)
def f(x):
    return x
"""
    (port,) = model.load(source).entry("f").ports("input")
    assert port.where == "parts/specs.py:2"


@aotc.entry(x=aotc.Spec(("n", 3)))
def executed(x):
    return x


def test_an_entry_that_is_executed_refuses_calls_by_the_same_guards():
    with pytest.raises(InputError) as caught:
        executed(np.ones((2, 4), "f4"))
    assert caught.value.guard == "x.shape[1]"
    assert caught.value.where.startswith("test_guard_lines.py:")
