"""Running a model.py: what it may import, what it may raise, what is found in it."""

import sys

import pytest

from aotc import reference
from aotc.errors import InputError
from aotc.importers import load

TINY = """
import aotc

@aotc.entry(x=aotc.Spec((2,)))
def double(x):
    return x + x
"""


def test_a_model_becomes_a_program_with_its_source(model):
    program = model.load(TINY)
    assert [entry.name for entry in program.entries] == ["double"]
    assert program.source["file"] == "model.py"
    assert len(program.source["sha256"]) == 64


def test_only_the_named_entries_are_traced(model):
    two = TINY + TINY.replace("double", "twice")
    assert [e.name for e in model.load(two).entries] == ["double", "twice"]
    assert [e.name for e in model.load(two, "twice").entries] == ["twice"]
    with pytest.raises(InputError, match="has no entry 'thrice'; it has double, twice"):
        model.load(two, "thrice")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("net.tflite", "convert it to ONNX"),
        ("net.pth", "torch.export.save"),
        ("net.safetensors", "Weights.load"),
        ("net.aotc", "a bundle"),
    ],
)
def test_files_that_hold_no_graph_are_told_apart(tmp_path, name, advice):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError) as caught:
        load(tmp_path / name)
    assert caught.value.code == "unknown-format"
    assert advice in caught.value.hint


def test_a_saved_model_of_tensorflow_is_not_taken_yet(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert "ONNX" in caught.value.hint


def test_a_missing_file_and_an_unknown_suffix_are_named(tmp_path):
    with pytest.raises(InputError) as caught:
        load(tmp_path / "model.py")
    assert caught.value.code == "no-such-file"
    (tmp_path / "model.txt").write_text("")
    with pytest.raises(InputError, match="no frontend imports '.txt' files"):
        load(tmp_path / "model.txt")


def test_a_model_without_entries_is_refused_with_an_example(model):
    error = model.refused("import aotc")
    assert error.code == "no-entries"
    assert "@aotc.entry(" in error.hint


def test_a_syntax_error_is_quoted_with_its_line(model):
    error = model.refused("import aotc\nx = (\n")
    assert error.code == "model-raised"
    assert error.message == "SyntaxError: '(' was never closed"
    assert error.where == "model.py:2"
    assert model.refused("x = 1\0").message.startswith("SyntaxError")


def test_what_the_model_raises_while_it_loads_is_quoted_with_its_line(model):
    error = model.refused("import aotc\n\nraise ValueError('no data')\n")
    assert error.code == "model-raised"
    assert error.message == "ValueError: no data"
    assert error.where == "model.py:3"


def test_a_model_that_exits_does_not_end_the_compiler(model):
    assert model.refused("import sys\nsys.exit(0)").message == "SystemExit: 0"


def test_what_an_entry_raises_is_quoted_with_the_line_in_it(model):
    error = model.refused("""\
        import aotc

        def check(x):
            raise KeyError(x.ndim)

        @aotc.entry(x=aotc.Spec((2,)))
        def double(x):
            return check(x)
        """)
    assert (error.code, error.message) == ("model-raised", "KeyError: 1")
    assert error.where == "model.py:4"


def test_calls_with_wrong_arguments_are_the_users(model):
    for call, code in (
        ("np.exp()", "bad-call"),
        ("np.sum(x, axes=0)", "bad-call"),
        ("np.packbits(x)", "unknown-name"),
        ("x.conj()", "unknown-name"),
        ("len(x[0])", "model-raised"),
    ):
        error = model.refused(f"""\
            import aotc, aotc.numpy as np

            @aotc.entry(x=aotc.Spec((2,)))
            def f(x):
                return {call}
            """)
        assert error.code == code, call
        assert error.where == "model.py:5"
    error = model.refused(TINY + "\nimport aotc.numpy\naotc.numpy.exp()")
    assert "exp: missing a required argument: 'x'" in error.message


def test_an_argument_of_a_wrong_kind_is_told_apart_from_what_the_model_raises(model):
    source = TINY.replace("x + x", "aotc.numpy.diff(x, ord=1)")
    error = model.refused(source.replace("import aotc", "import aotc.numpy"))
    assert error.code == "bad-call"
    assert error.where == "model.py:6"
    assert "diff(a, n=1" in error.hint


def test_a_bug_inside_of_aotc_stays_one(model, monkeypatch):
    from aotc.numpy import elementwise

    def broken(*_, **__):
        raise ZeroDivisionError

    broken.__globals__["__name__"], name = "aotc.broken", __name__
    monkeypatch.setattr(elementwise, "emit", broken)
    try:
        with pytest.raises(ZeroDivisionError):
            model.load(TINY)
    finally:
        broken.__globals__["__name__"] = name


# ---- files beside the model ---------------------------------------------------------

WITH_HELPER = """
import aotc
from helper import FACTOR, scale
import parts.layers

@aotc.entry(x=aotc.Spec((2,)))
def scaled(x):
    import late
    return parts.layers.apply(scale, x) * late.ONE
"""


def helpers(model, factor):
    model.write(
        f"FACTOR = {factor}\n\ndef scale(x):\n    return x * FACTOR\n", "helper.py"
    )
    model.write("", "parts/__init__.py")
    model.write("def apply(f, x):\n    return f(x)\n", "parts/layers.py")
    model.write("ONE = 1\n", "late.py")


def test_helpers_beside_the_model_are_imported_and_located(model):
    helpers(model, 3)
    program = model.load(WITH_HELPER)
    with program.module.context:
        text = program.module.operation.get_asm(enable_debug_info=True)
    assert 'loc("helper.py":4:0)' in text
    assert str(model.folder) not in text
    error = model.refused(WITH_HELPER.replace("apply(scale, x)", "apply(scale, {x})"))
    assert error.where == "helper.py:4"
    model.write("def apply(f, x):\n    return x.nothing\n", "parts/layers.py")
    assert model.refused(WITH_HELPER).where == "parts/layers.py:2"


def test_a_syntax_error_in_a_helper_names_the_helper(model):
    model.write("x = (\n", "helper.py")
    assert model.refused("import helper").where == "helper.py:1"


def test_equally_named_helpers_of_two_models_do_not_mix(model, tmp_path):
    other = type(model)(tmp_path / "other")
    for one, factor in ((model, 3), (other, 5), (model, 3)):
        helpers(one, factor)
        module = one.load(WITH_HELPER).module
        assert (
            reference.evaluate(module, "scaled", [_ones()])[0].tolist() == [factor] * 2
        )
    assert "helper" not in sys.modules
    assert str(model.folder) not in sys.path


def test_models_that_refused_to_load_leave_nothing_behind(model):
    helpers(model, 3)
    model.refused("import helper\nraise ValueError")
    assert "helper" not in sys.modules
    assert str(model.folder) not in sys.path


def test_a_model_is_read_anew_each_time(model):
    first = model.load(TINY).source
    second = model.load(TINY.replace("x + x", "x - x"))
    assert second.source != first
    assert reference.evaluate(second.module, "double", [_ones()])[0].tolist() == [0, 0]
    assert not list(model.folder.glob("__pycache__"))


def test_dataclasses_in_a_model_find_their_module(model):
    program = model.load("""
        from __future__ import annotations
        from dataclasses import dataclass
        import aotc

        @dataclass
        class Config:
            factor: int = 2

        @aotc.entry(x=aotc.Spec((2,)))
        def scaled(x):
            return x * Config().factor
        """)
    assert program.entries


def _ones():
    import numpy as np

    return np.ones(2, "f4")


# ---- what would be taken in silently ------------------------------------------------

RANDOM = """
import random, time
import numpy
import aotc

numpy.random.seed(0)
draws = numpy.random.default_rng(0)
fixed = numpy.random.normal(size=(2,)).astype("f4")

@aotc.entry(x=aotc.Spec((2,)))
def noisy(x):
    x = x * 2
    return x + {value}
"""


@pytest.mark.parametrize(
    "value",
    [
        "numpy.random.normal(size=(2,)).astype('f4')",
        "draws.normal(size=(2,)).astype('f4')",
        "numpy.random.default_rng().normal(size=(2,)).astype('f4')",
        "random.random()",
        "time.perf_counter_ns() % 1e6",
    ],
)
def test_a_value_that_is_another_in_each_trace_is_refused_at_its_line(model, value):
    error = model.refused(RANDOM.format(value=value))
    assert error.code == "not-repeatable"
    assert error.where == "model.py:13"
    assert "aotc.random" in error.hint


@pytest.mark.parametrize(
    "value", ["fixed", "numpy.random.default_rng(3).normal(size=(2,)).astype('f4')"]
)
def test_random_numbers_that_are_constants_by_intent_are_taken(model, value):
    assert model.load(RANDOM.format(value=value)).entries


def test_a_graph_of_another_form_in_each_trace_is_refused(model):
    turns = """\
        import aotc
        turns = iter("ab")

        @aotc.entry(x=aotc.Spec((2,)), y=aotc.Spec((2,)))
        def f(x, y):
            return {body}
        """
    order = "x - y if next(turns) == 'a' else y - x"
    assert model.refused(turns.format(body=order)).code == "not-repeatable"
    longer = "x - y if next(turns) == 'a' else x - y - y"
    assert model.refused(turns.format(body=longer)).where == "model.py:6"
    ends = "x if next(turns) + next(turns) else y"
    assert (
        "the entry fails: StopIteration"
        in model.refused(turns.format(body=ends)).message
    )


def test_a_model_says_once_what_it_says_while_it_is_traced(model, capsys):
    model.load(TINY.replace("    return", "    print('traced')\n    return"))
    assert capsys.readouterr().out == "traced\n"


def test_an_entry_whose_name_is_given_away_is_not_lost_without_a_word(model):
    error = model.refused(TINY + "\ndef double(x):\n    return x\n")
    assert (error.code, error.where) == ("name-clash", "model.py:8")
    assert "the entry 'double', model.py:4, and another function" in error.message
    assert model.refused(TINY + "double = None\n").where == "model.py:4"


def test_two_entries_of_one_name_are_named_with_their_lines(model):
    error = model.refused(TINY + TINY)
    assert (error.code, error.where) == ("name-clash", "model.py:10")
    assert "'double', model.py:4, and another entry, model.py:10" in error.message
    model.write(TINY, "other.py")
    error = model.refused("from other import double as twice\n" + TINY)
    assert "other.py:4, and another entry, model.py:5" in error.message
