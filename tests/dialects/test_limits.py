"""The table of what targets cannot compile: whole, and asked before IREE is."""

import json

import pytest

from aotc import backend
from aotc.backend import compile_targets
from aotc.core import dtypes
from aotc.dialects import OPS, limits
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.machine.target import TARGETS, Target
from aotc.passes import double_reads
from aotc.pipeline import build
from tests.dialects.cases import all_cases, lowered_program

HALF = """
import aotc
import aotc.numpy as np

@aotc.entry(x=aotc.Spec((4,), "f16"))
def f(x):
    y = np.astype(x, "f32")
    return np.sin(x)
"""


def test_the_table_names_targets_ops_and_dtypes_that_exist():
    families = {target.family for target in TARGETS.values()}
    assert set(limits.table()) <= families
    for ops in limits.table().values():
        assert set(ops) <= set(OPS)
        for kinds in ops.values():
            named = {dtype for kind in kinds for dtype in kind.split("->")}
            assert named <= set(dtypes.NAMES)


def test_a_use_is_known_by_its_dtypes():
    mask, half, single = (Tensor((3,), dtype) for dtype in ("bool", "f16", "f32"))
    assert limits.of([half, half], [half]) == "f16"
    assert limits.of([mask, single, single], [single]) == "f32"
    assert limits.of([mask], [half]) == "bool->f16"
    assert limits.of([half, half], [mask]) == "f16->bool"
    assert limits.of([], [single]) == "f32"
    assert limits.of([half], []) == "f16"


@pytest.mark.parametrize(
    ("one", "other"),
    [("cuda:sm_80", "cuda:sm_120"), ("x86_64-v2", "x86_64-v4")],
)
def test_members_of_a_family_share_limits(one, other):
    assert Target.parse(one).family == Target.parse(other).family
    assert len({Target.parse(name).family for name in ("cpu", "vmvx", "vulkan")}) == 3


def test_a_build_refuses_what_iree_would(tmp_path):
    file = tmp_path / "half.py"
    file.write_text(HALF, encoding="utf-8")
    with pytest.raises(CompileError) as failure:
        build(file, output=tmp_path, sign=False, targets=[Target.parse("vmvx")])
    assert failure.value.code == "not-on-target"
    assert failure.value.where == "half.py:8"
    assert "graph.sin on f16 cannot be compiled for 'vmvx'" in failure.value.message
    build(file, output=tmp_path, sign=False)  # this machine can


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vmvx", "aarch64", "riscv64", "cuda", "vulkan"])
def test_every_case_that_is_not_refused_compiles(name):
    target = Target.parse(name)
    cases = [
        case
        for case in all_cases()
        if case.dtypes not in limits.limits_of(case.op).get(target.family, {})
    ]
    assert len(cases) > len(all_cases()) // 2
    for first in range(0, len(cases), 200):
        compile_targets(lowered_program(cases[first : first + 200]), [target])


MANY_SIZES = """
import aotc
from aotc import numpy as np, special

def loss(x):
    half = x[::2]
    low = half.at[1:, 0].min(np.cos(half[1:, 0]))
    return np.sum(np.sin(special.i0e(np.sin(low) * 2.0)))

@aotc.entry(x=aotc.Spec((aotc.Dim("n"), 1)))
def f(x):
    return aotc.grad(lambda x: np.sum(aotc.grad(loss)(x)))(x)
"""


def test_a_step_with_more_sizes_than_a_cpu_takes_is_compiled_as_smaller_ones(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(double_reads, "_MOST_WRITTEN", 100)  # which keeps it whole
    file = tmp_path / "many.py"
    file.write_text(MANY_SIZES, encoding="utf-8")
    report = build(
        file, output=tmp_path, sign=False, targets=[Target.parse("cpu")]
    )  # and the self-check has run and compared it
    assert report.variants[0].flags[-1:] == backend.SMALLER_STEPS
    assert report.bundle is not None
    manifest = json.loads((report.bundle / "manifest.json").read_text())
    assert backend.SMALLER_STEPS[0] in manifest["variants"][0]["flags"]


MANY_ARRAYS = """
import aotc
from aotc import numpy as np

ARRAYS = [aotc.Spec((aotc.Dim(f"n{i}"), aotc.Dim(f"m{i}"))) for i in range(12)]

@aotc.entry(arrays=ARRAYS)
def f(arrays):
    total = 0.0
    for each in arrays:
        total = np.sin(total + each[:1, -1:])
    return total
"""


def test_steps_that_stay_too_large_for_a_cpu_are_refused_at_their_line(tmp_path):
    file = tmp_path / "many.py"
    file.write_text(MANY_ARRAYS, encoding="utf-8")
    with pytest.raises(CompileError) as failure:
        build(file, output=tmp_path, sign=False, targets=[Target.parse("cpu")])
    assert "takes 72 sizes and offsets, and a CPU takes 64" in failure.value.message
    assert failure.value.code == "compile-failed"
    assert failure.value.where == "many.py:11"
