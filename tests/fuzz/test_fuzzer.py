"""The fuzzer itself: what it draws, how it judges, and how it makes failures small."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from aotc import reference
from aotc.backend import compile_targets
from aotc.errors import CompileError
from aotc.tracing.assembly import trace
from aotc.worker import constants
from benchmarks.fuzz import building, forms
from benchmarks.fuzz.checking import check
from benchmarks.fuzz.failures import Failure, failure_of
from benchmarks.fuzz.generation import Choice, random_program, variants
from benchmarks.fuzz.judging import judge, rounding_of
from benchmarks.fuzz.programs import (
    TRANSFORMS,
    Input,
    Program,
    Step,
    from_json,
    to_json,
)
from benchmarks.fuzz.reducing import reduced
from benchmarks.fuzz.running import Runner
from benchmarks.fuzz.source import model_source, step_count
from benchmarks.fuzz.templates import public_functions, templates

# Functions that are in no program, as they take or return no arrays, or take functions
# or texts that only they know; control flow is in forms of its own.
LEFT_OUT = {
    "nn.lora", "nn.sparse_update",  # give no arrays, but functions
    "np.broadcast_shapes", "np.finfo", "np.iinfo", "np.fromfunction", "np.ix_",
    "np.empty", "np.empty_like", "np.ndim", "np.shape", "np.size", "nn.scope",
    "nn.mixture_of_experts", "np.getitem",
}  # fmt: skip


def program_of(*steps, transform="forward"):
    inputs = (Input("x0", ("n", 4), "float32"),)
    made = tuple(
        Step(f"v{i}", name, tuple(rest)) for i, (name, *rest) in enumerate(steps)
    )
    return Program(
        0, inputs, made, (made[-1].name,), ({"n": 3}, {"n": 1}), {"n": 1}, transform
    )


# ---- what is drawn ------------------------------------------------------------------


def test_a_seed_means_the_same_program_each_time():
    assert [random_program(s) for s in range(5)] == [
        random_program(s) for s in range(5)
    ]


def test_a_program_is_the_same_after_a_round_trip_through_json():
    for seed in range(20):
        for program in variants(random_program(seed)[0]):
            assert from_json(json.loads(json.dumps(to_json(program)))) == program


def test_every_public_function_can_be_in_a_program():
    named = set(templates()) | LEFT_OUT
    missing = {name for name in public_functions() if name not in named}
    assert {name for name in missing if not name.startswith("control.")} == set()


def test_a_function_that_is_asked_for_is_in_every_program():
    for name in ("linalg.cholesky", "np.sort", "nn.conv2d", "control.scan"):
        assert name in random_program(3, Choice(only=name))[0].functions


def test_the_printed_model_can_be_traced(tmp_path):
    from aotc.importers.python import load

    for seed in range(3):
        for transform in ("forward", "grad"):
            program = random_program(seed)[0].transformed(transform)
            file = tmp_path / "model.py"
            file.write_text(model_source(program), encoding="utf-8")
            assert load(file).entries[0].name == "program"


def test_all_transformations_have_a_program():
    program = program_of(("np.sin", "x0"))
    assert [p.transform for p in variants(program)[: len(TRANSFORMS)]] == [*TRANSFORMS]


def test_tables_name_functions_that_there_are():
    named = {f"np.{name}" for name in (*forms.UNARY, *forms.BINARY, *forms.REDUCTIONS)}
    named |= {f"nn.{name}" for name in (*forms.NN_UNARY, *forms.LOSSES)}
    named |= {f"special.{name}" for name in forms.SPECIAL_UNARY}
    assert named - set(public_functions()) == set()


# ---- how results are judged ---------------------------------------------------------


def judged(program, change):
    """The judgement on the reference's own result, changed."""
    from benchmarks.fuzz.executing import entry_of

    module = trace([entry_of(program, "program")], {}).module
    x = [np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)]
    wanted = reference.evaluate(module, "program", x)
    moved = rounding_of(module, "program", x, wanted)
    return judge([change(y) for y in wanted], wanted, moved)


def test_a_tenth_of_a_percent_is_wrong():
    program = program_of(("np.sin", "x0"), ("np.sum", "v0", "axis=1"))
    assert not judged(program, lambda y: y * np.float32(1 + 1e-7)).wrong
    assert judged(program, lambda y: y * np.float32(1.001)).wrong


def test_a_wrong_number_without_axes_is_told():
    found = judge([np.float32(2)], [np.float32(1)])
    assert found.wrong.endswith("at () it is 2.0; expected 1.0")


def test_digits_that_cancel_are_left_open():
    # (x + 1000) - 1000 keeps four digits only
    program = program_of(("np.add", "x0", "1000.0"), ("np.subtract", "v0", "1000.0"))
    assert not judged(program, lambda y: y + np.float32(1e-4)).wrong
    assert judged(program, lambda y: y + np.float32(1e-2)).wrong


def test_integers_are_exact_unless_rounding_decides_them():
    exact = program_of(("np.argmax", "x0", "axis=1"))
    assert judged(exact, lambda y: y + np.int32(1)).wrong
    # sin²+cos² is 1 or a little less, so its floor is anything
    edge = program_of(
        ("np.square", "np.sin(x0)"), ("np.square", "np.cos(x0)"),
        ("np.add", "v0", "v1"), ("np.floor", "v2"), ("np.astype", "v3", '"int32"'),
    )  # fmt: skip
    found = judged(edge, lambda y: 1 - y)
    assert not found.wrong
    assert found.open > 0


def test_nan_in_the_place_of_a_number_is_wrong():
    program = program_of(("np.sin", "x0"))
    assert judged(program, lambda y: y * np.float32(np.nan)).wrong


# ---- failures -----------------------------------------------------------------------


def test_a_failure_is_reduced_to_what_it_needs():
    program = program_of(
        ("np.cos", "x0"), ("np.multiply", "v0", "2.0"), ("getitem", "v1", ":, ::2"),
        ("np.sin", "v2"), ("np.concatenate", "[v3, v1]", "1"), ("np.tanh", "v4"),
        transform="grad of grad",
    )  # fmt: skip
    failure = Failure("differs", "planted")

    def failing(programs):
        return {
            number: failure
            for number, each in enumerate(programs)
            if {"getitem", "np.multiply"} <= each.functions
        }

    small, _ = reduced(replace(program, checkpoint=True), failure, failing, 60)
    assert small.functions == {"getitem", "np.multiply"}
    assert step_count(small) == 2
    assert (small.transform, small.checkpoint) == ("forward", False)
    assert small.inputs == (Input("x0", (1, 1), "float32"),)


def test_a_process_that_dies_is_a_failure_and_the_next_one_goes_on():
    with Runner() as runner:
        assert runner.load(b"no module").kind == "loads"
        runner._process.kill()
        assert runner._answer() == Failure("runs", "the call dies of SIGKILL")
        assert runner.load(b"no module, again").kind == "loads"


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transformation_is_written_as_a_user_would(transform):
    source = model_source(program_of(("np.sin", "x0"), transform=transform))
    assert "@aotc.entry(x0=aotc.Spec((n, 4,)" in source
    assert not {"FLOATS", "NUMBERS", "STACKED", "WIDE"} & set(source.split())


# ---- batches ------------------------------------------------------------------------


def test_a_batch_that_fails_only_as_a_whole_is_a_failure(monkeypatch):
    def refuse_several(program, targets):
        if len(program.entries) > 1:
            raise RuntimeError("two are too many")
        return compile_targets(program, targets)

    monkeypatch.setattr(building, "compile_targets", refuse_several)
    programs = [program_of(("np.sin", "x0")), program_of(("np.cos", "x0"))]
    with Runner() as runner:
        failures = [each.failure for each in check(programs, runner)]
    assert failures.count(None) == 1
    (failure,) = (each for each in failures if each)
    assert failure.message.endswith("two are too many")


def test_programs_whose_sizes_have_other_contracts_are_compiled_together(monkeypatch):
    compiled = []

    def count(program, targets):
        compiled.append(len(program.entries))
        return compile_targets(program, targets)

    monkeypatch.setattr(building, "compile_targets", count)
    program = program_of(("np.sin", "x0"))
    programs = [program, replace(program, least={"n": 3}, sizes=({"n": 3},))]
    with Runner() as runner:
        assert [each.failure for each in check(programs, runner)] == [None, None]
    assert compiled == [2]


def test_what_a_rule_refuses_is_no_failure_and_what_else_a_pass_raises_is():
    refusal = CompileError("not-differentiable", "it has a rule for reverse mode only")
    assert failure_of("passes", refusal).is_refusal
    many = CompileError(
        "compile-failed", constants._message(SimpleNamespace(location="x"), 90)
    )
    assert failure_of("compiles", many).is_refusal
    for other in (CompileError("pass-failed", "no"), IndexError("no")):
        assert failure_of("passes", other).kind == "passes"
