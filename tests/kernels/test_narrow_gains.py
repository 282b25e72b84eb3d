"""Products of narrow dtypes are faster than those of f32, or a build says so."""

import warnings
from dataclasses import replace

import pytest

from aotc.kernels.geometry import product
from aotc.kernels.machine import machine_of
from aotc.kernels.narrow_gains import cycles_of_both
from aotc.kernels.planning.tile import choose_tile, terms_at_a_time
from aotc.machine.target import Target
from aotc.pipeline import build

MODEL = """
import aotc
import numpy
from aotc.numpy.products import dot_general

w = aotc.Weights({"w": numpy.random.default_rng(0).integers(-128, 128, (96, 80), "i1")})


@aotc.entry(x=aotc.Spec((64, 96), "u8"))
def layer(w, x):
    return dot_general(x, w["w"], contract=((1,), (0,)), dtype="i32")
"""


@pytest.mark.parametrize(
    ("level", "dtypes", "within", "least"),
    [
        ("x86_64-v3", ("u8", "i8"), 127, 1.2),
        ("x86_64-v3", ("u8", "i8"), 64, 1.8),
        ("x86_64-v3", ("i8", "i8"), 64, 1.5),
        ("x86_64-v4", ("u8", "i8"), 127, 1.3),
        ("x86_64-v3-dot", ("u8", "i8"), 127, 3),
        ("x86_64-v4-dot", ("u8", "i8"), 127, 3),
        ("aarch64-v8.2", ("i8", "i8"), 127, 3),
        ("aarch64-v8.2", ("u8", "i8"), 127, 2),
        ("aarch64-v8.6", ("u8", "i8"), 127, 6),
    ],
)
def test_integers_gain_by_what_a_level_has(level, dtypes, within, least):
    left, right = dtypes
    geometry = replace(
        product(192, 512, 512), dtype=left, right_dtype=right, within=within
    )
    machine = machine_of(Target.parse(level))
    tile = choose_tile(geometry, machine, terms_at_a_time(geometry, machine))
    integers, floats = cycles_of_both(geometry, tile, machine)
    assert floats >= least * integers


@pytest.mark.parametrize("level", ["x86_64-v3", "aarch64-v8.2"])
def test_builds_for_levels_that_gain_say_nothing(level, tmp_path):
    assert not _warnings(level, tmp_path)


def test_a_build_says_where_floats_would_be_faster(tmp_path):
    (text,) = _warnings("riscv64-v", tmp_path)
    assert text.startswith("riscv64-v: 1 product of integers (at ")
    assert "times as long as f32 would" in text


def _warnings(level, folder):
    model = folder / "model.py"
    model.write_text(MODEL)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        build(model, targets=[Target.parse(level)], stop_after="regions")
    return [str(each.message) for each in found if "integers" in str(each.message)]


HALVES = """
import aotc
from aotc import numpy as np


@aotc.entry(x=aotc.Spec((192, 512)), w=aotc.Spec((512, 512)))
def layer(x, w):
    return x @ w
"""


@pytest.mark.parametrize(
    ("level", "precision", "is_slower"),
    [
        ("x86_64-v3", "mixed:bf16", True),
        ("x86_64-v4-dot", "mixed:bf16", False),
        ("x86_64-v4-dot", "mixed:f16", True),
        ("x86_64-v3", None, False),
    ],
)
def test_a_build_says_where_mixed_precision_is_slower(
    level, precision, is_slower, tmp_path
):
    model = tmp_path / "model.py"
    model.write_text(HALVES)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        targets = [Target.parse(level)]
        build(model, targets=targets, precision=precision, stop_after="regions")
    told = [each for each in found if "times as long as f32 would" in str(each.message)]
    assert bool(told) == is_slower
