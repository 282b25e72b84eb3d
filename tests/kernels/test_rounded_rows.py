"""Relaxed numerics round rows to bytes where the weight is of integers, too."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.backend import compile_units
from aotc.checks.bisect import Divergence, arguments, locate_divergence
from aotc.checks.judging import RoundingRule
from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.kernels.machine import machine_of
from aotc.kernels.planning.dequantized import has_dots
from aotc.machine.target import TARGETS, Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.kernels.evaluation import Regions
from tests.kernels.rounded_rows import ROUNDED
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "rounded_rows.py"
NAMES = [entry.name for entry in load(MODEL).entries]


@cache
def _program():
    return load(MODEL)


@cache
def _regions(level):
    program = load(MODEL)
    program.numerics = "relaxed"
    unit = Unit(program).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    return Regions(unit)


@cache
def _x(name):
    (port,) = _program().entry(name).ports("input")
    shape = [n if isinstance(n, int) else 13 for n in port.type.shape]
    x = np.random.default_rng(1).normal(size=shape).astype("f4")
    x[0, :64] = 0  # blocks of zeros
    x[-1] *= 1e6
    return x


def _require_close(found, wanted):
    for y, expected in zip(found, wanted, strict=True):
        limit = 4e-6 * abs(expected).max(-1, keepdims=True)
        assert (abs(y - expected) <= limit).all()


@pytest.fixture(scope="module", params=["x86_64-v4-dot", "x86_64-v3-dot"])
def relaxed(request, tmp_path_factory):
    """The model for each level with such instructions that runs here."""
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("rounded")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(MODEL, output=folder, numerics="relaxed", **asked)
    return aotc.load(report.bundle, allow_unsigned=True, threads=1)


def test_kernels_multiply_the_integers_that_the_ir_has(relaxed):
    for name in NAMES:
        found = getattr(relaxed, name)(x=_x(name))
        wanted = _regions("x86_64-v4-dot").evaluate(name, {"x": _x(name)})
        _require_close(found if isinstance(found, (tuple, list)) else [found], wanted)


def test_errors_are_within_the_bound_of_the_docs():
    program, unit = _program(), _regions("x86_64-v4-dot").unit
    for name in ROUNDED:
        parameters = {
            port.name.rpartition(".")[2]: np.asarray(program.parameters[port.name])
            for port in program.entry(name).ports("weight")
            if f".{name}." in port.name
        }
        q, scale = parameters["q"].astype("f8"), parameters["scale"].astype("f8")
        block = q.shape[1] // scale.shape[1]
        less = parameters.get("less", 0 * scale).astype("f8")
        w = q * np.repeat(scale, block, 1) - np.repeat(less, block, 1)
        x = _x(name).astype("f8")
        entry = unit.program.entry(name)
        given = [
            _x(name) if port.kind == "input" else unit.program.parameters[port.name]
            for port in entry.arguments
        ]
        (found,) = reference.evaluate(unit.module, name, given)
        largest = abs(x).reshape(len(x), -1, 32).max(2)
        sums = abs(w).reshape(len(w), -1, 32).sum(2)
        bound = largest @ sums.T / 254
        error = abs(found - x @ w.T)
        assert (error <= bound * (1 + 1e-4) + 1e-6 * (abs(x) @ abs(w).T)).all()
        assert error.max() > 0


def test_where_code_differs_is_looked_for_in_code_of_the_same_instructions():
    """What a check compiles of a variant is planned for the processor as it was."""
    target, name = Target.parse("x86_64-v4-dot"), "halves_signed_minima"
    require_runs_here(target)
    program = load(MODEL, [name])
    program.numerics = "relaxed"
    unit = Unit(program).fork(target)
    for stage in PASS_STAGES:
        run_passes(unit, stage.passes(), silently=True)
    (variant,), entry = compile_units([unit]), program.entry(name)
    values = arguments(program, entry, [_x(name)])
    expected = reference.evaluate(program.module, name, values)
    given = program, program.module, entry, variant, values, expected, RoundingRule()
    assert locate_divergence(*given)[1] == str(Divergence("compile"))


def _first_dtypes(level, name):
    """Of what each kernel of a function reads first."""
    functions = functions_of(_regions(level).unit.module)
    called = (functions[callee_of(call)] for call in calls_in(functions[name]))
    kernels = (each for each in called if fused_of(each) is not None)
    return [Tensor.of(each.entry_block.arguments[0]).dtype for each in kernels]


def test_rows_are_rounded_where_instructions_multiply_them():
    for name in NAMES:
        found = _first_dtypes("x86_64-v4-dot", name)
        assert ("i8" in found) == (name in ROUNDED or name == "joined"), name
    # q, k and v, and the gate with its values, of rows that are rounded once
    assert _first_dtypes("x86_64-v4-dot", "joined").count("i8") == 2
    assert "i8" not in _first_dtypes("x86_64-v4", "halves")
    functions = functions_of(_regions("x86_64-v4-dot").unit.module)
    bodies = [
        name
        for name, each in functions.items()
        if name not in NAMES and not each.is_external and fused_of(each) is None
    ]
    assert any("i8" in _first_dtypes("x86_64-v4-dot", body) for body in bodies)


def test_rows_are_rounded_by_instructions_that_the_kernels_write():
    """Arm's, which multiply signed bytes, or fewer than a block of them, are others."""
    machines = {name: machine_of(each) for name, each in TARGETS.items() if each.arch}
    assert {name for name, each in machines.items() if each and has_dots(each)} == {
        "x86_64-v3-dot",
        "x86_64-v4-dot",
    }
