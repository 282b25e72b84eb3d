"""The runner: verifies, records, dumps, and turns failures into reproducers."""

import shlex
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import aotc.numpy as anp
from aotc import passes
from aotc.core import options
from aotc.dialects import context
from aotc.errors import CompileError, InputError
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Pass

VERIFY = "AOTC_VERIFY_EACH"


@pytest.fixture
def small(model):
    """exp(x) twice."""
    return model(lambda x: anp.exp(x) * anp.exp(x), "f32[3]")


@pytest.fixture
def register(monkeypatch):
    """Offer a function as the pass of a name."""

    def add(name, run):
        made = type(
            "Made",
            (Pass,),
            {
                "name": name,
                "level": 0,
                "keeps_graph": True,
                "run": lambda _, unit: run(unit.module),
            },
        )
        monkeypatch.setitem(sys.modules, f"test_{name}", SimpleNamespace(Made=made))
        monkeypatch.setitem(passes.PASSES, name, f"test_{name}:Made")

    return add


def test_records_name_time_and_change(small):
    first, second = run_passes(small.module, ["cse", "cse"])
    assert (first.name, first.changed, second.changed) == ("cse", True, False)
    assert first.seconds > 0
    assert first.to_json().keys() == {"pass", "seconds", "changed"}


def test_an_unknown_pass_is_refused_before_anything_runs(small):
    before = str(small.module)
    with pytest.raises(InputError, match="no pass 'fuse-al'"):
        run_passes(small.module, ["cse", "fuse-al"])
    assert str(small.module) == before


def break_it(module):
    op = module.body.operations[0].entry_block.operations[0]
    op.results[0].set_type(ir.RankedTensorType.get([7], ir.F32Type.get()))


@pytest.mark.parametrize("each", ["0", "1"])
@pytest.mark.parametrize("after", [[], ["prune", "keep"], ["keep", "crash"]])
def test_a_pass_that_breaks_the_ir_is_named(small, register, after, each):
    def crash(module):
        raise KeyError("missing")

    register("breaks", lambda module: break_it(module) or True)
    register("keep", lambda module: False)
    register("crash", crash)
    with pytest.raises(CompileError) as failure, options.override(VERIFY, each):
        run_passes(small.module, ["simplify", "keep", "breaks", *after])
    assert "pass 'breaks' after simplify, keep failed" in failure.value.message
    assert "graph.exp: the operands give f32[3]" in failure.value.message
    assert "before-breaks.mlir" in failure.value.hint


def test_a_pass_that_breaks_the_ir_and_denies_it_is_found_and_can_be_named(
    small, register
):
    register("breaks", lambda module: break_it(module) or False)
    register("keep", lambda module: False)
    with options.override(VERIFY, "0"), pytest.raises(CompileError) as failure:
        run_passes(small.module, ["breaks", "keep"])
    assert "one of the passes breaks, keep failed: " in failure.value.message
    assert "graph.exp: the operands give f32[3]" in failure.value.message
    assert "AOTC_VERIFY_EACH=1 names" in failure.value.hint


def test_a_pass_that_denies_what_it_changed_is_refused_where_each_is_verified(
    small, register
):
    def rename(module):
        module.body.operations[0].attributes["graph.seen"] = ir.UnitAttr.get()
        return False

    register("denies", rename)
    with (
        pytest.raises(CompileError, match="'denies' failed: it changed the IR, and"),
        options.override(VERIFY, "1"),
    ):
        run_passes(small.module, ["denies"])


def test_ir_that_is_invalid_between_passes_is_found_where_each_is_verified(
    small, register
):
    kept = []

    def mend(module):
        module.body.operations[0].entry_block.operations[0].results[0].set_type(kept[0])
        return True

    def breaks(module):
        op = module.body.operations[0].entry_block.operations[0]
        kept.append(op.results[0].type)
        break_it(module)
        return True

    register("breaks", breaks)
    register("mend", mend)
    with options.override(VERIFY, "0"):
        run_passes(small.module, ["breaks", "mend"])
    with (
        pytest.raises(CompileError, match="'breaks' failed"),
        options.override(VERIFY, "1"),
    ):
        run_passes(small.module, ["breaks", "mend"])


def test_a_crash_names_the_pass_and_leaves_a_reproducer(small, register):
    def crash(module):
        raise KeyError("missing")

    register("crash", crash)
    with pytest.raises(CompileError, match="'crash' failed") as failure:
        run_passes(small.module, ["crash"])
    assert isinstance(failure.value.__cause__, KeyError)
    assert "'missing'" in failure.value.message
    command = failure.value.hint.partition("reproduce with: ")[2]
    verb, sub, file, flag, name = shlex.split(command)
    assert (verb, sub, flag, name) == ("aotc", "opt", "--passes", "crash")
    with context():
        module = ir.Module.parse(Path(file).read_text(encoding="utf-8"))
        assert "graph.exp" in str(module)
    register("crash", lambda module: False)
    assert [record.name for record in run_passes(module, [name])] == ["crash"]


def test_a_crash_that_says_nothing_is_named_by_its_kind(small, register):
    def crash(module):
        raise AssertionError

    register("crash", crash)
    with pytest.raises(CompileError, match="'crash' failed: AssertionError"):
        run_passes(small.module, ["crash"])


def test_a_diagnosed_failure_keeps_its_code_and_line(small, register):
    def refuse(module):
        raise CompileError("too-bad", "no", where="model.py:3")

    register("refuse", refuse)
    with pytest.raises(CompileError, match="pass 'refuse': no") as failure:
        run_passes(small.module, ["refuse"])
    assert (failure.value.code, failure.value.where) == ("too-bad", "model.py:3")
    assert "reproduce with" in failure.value.hint


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("too-much", "no"), "no"),
        (CompileError("too-bad", "no", hint="wait"), "pass 'refuse': no"),
    ],
    ids=["of-the-user", "with-advice"],
)
def test_no_reproducer_is_left_where_the_message_has_none(
    small, register, monkeypatch, tmp_path, error, message
):
    def refuse(module):
        raise error

    register("refuse", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(type(error)) as failure:
        run_passes(small.module, ["refuse"])
    assert failure.value.message == message
    assert not list(tmp_path.iterdir())


def test_a_crash_of_a_pass_that_no_text_names_is_to_be_reported(small):
    class Unnamed(Pass):
        name = "only-in-builds"
        level = 1
        keeps_graph = True

        def run(self, unit):
            raise KeyError("missing")

    with pytest.raises(CompileError, match="'only-in-builds' failed") as failure:
        run_passes(small.module, [Unnamed()])
    assert "please report it" in failure.value.hint
    assert "aotc opt" not in failure.value.hint


def test_dumps_the_ir_after_every_pass(small, tmp_path):
    run_passes(small.module, ["simplify", "cse"], dump=tmp_path / "ir")
    names = sorted(file.name for file in (tmp_path / "ir").iterdir())
    assert names == ["01-simplify.mlir", "02-cse.mlir"]
    dumped = (tmp_path / "ir" / "02-cse.mlir").read_text(encoding="utf-8")
    assert dumped.count("graph.exp") == 1


def test_prints_after_the_pass_that_is_asked_for(small, capsys):
    with options.override("AOTC_PRINT_AFTER", "cse"):
        run_passes(small.module, ["simplify", "cse"])
    printed = capsys.readouterr().err
    assert "// IR after cse" in printed
    assert "// IR after simplify" not in printed


def test_a_pass_without_its_facts_is_no_pass() -> None:
    with pytest.raises(TypeError, match="the pass Nameless has no level"):
        type("Nameless", (Pass,), {"name": "nameless", "keeps_graph": True})
