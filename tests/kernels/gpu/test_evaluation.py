"""Entries are computed by their kernels, which an evaluator of Triton's IR runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.checks import evaluated_entries
from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.kernel_count import KernelCount
from aotc.checks.report import SelfCheck
from aotc.core.cache import digest
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.errors import CompileError
from aotc.kernels.gpu.families import kernel_of_region
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace

from .building import evaluated

pytestmark = pytest.mark.usefixtures("with_triton")


def test_kernels_of_entries_are_evaluated_as_far_as_steps_allow() -> None:
    rng = np.random.default_rng(1)
    x, y = (
        rng.normal(size=(200, 24)).astype("f4"),
        rng.normal(size=(24, 40)).astype("f4"),
    )
    shares = []
    for steps in (1e6, 2e3):
        kernels = evaluated(steps)
        (found,), states = kernels.call("bounded", [x, y])
        np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)
        assert states == []
        shares.append((kernels.count.evaluated, kernels.count.programs))
    assert shares[0][0] == shares[0][1] == shares[1][1]
    assert 1 < shares[1][0] < shares[1][1]


def test_a_large_entry_is_evaluated_with_the_work_that_small_ones_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @aotc.entry(x=aotc.Spec((512, 512)), y=aotc.Spec((512, 512)))
    def large(x, y):
        return x @ y

    def small(number: int) -> Any:
        def product(x, y):
            return x @ y + number

        product.__name__ = f"small_{number}"
        return aotc.entry(x=aotc.Spec((32, 64)), y=aotc.Spec((64, 32)))(product)

    target = Target.parse("cuda:sm_80")
    program = trace([large, *map(small, range(8))], {})
    unit = Unit(program).fork(target)
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    texts = [
        kernel_of_region(function).text
        for function in functions_of(unit.module).values()
        if fused_of(function) is not None
    ]
    regions = [{"device": {"text": digest(text)}} for text in texts]
    variant: Any = SimpleNamespace(target=target, kernels={"regions": regions})
    entries = {entry.name: entry for entry in program.entry_points}

    def unevaluated(work: float) -> set[str]:
        monkeypatch.setattr("aotc.checks.work._USUAL", work)
        found = evaluated_entries.evaluate_kernels(
            [SelfCheck(name, str(target)) for name in entries],
            {x: CheckedEntry(program, program.module, y) for x, y in entries.items()},
            [variant],
            lambda _: unit.program,
            lambda _: None,
            full=False,
        )
        return {x.entry for x in found if not (x.kernels and x.kernels.launches)}

    assert not unevaluated(15e6)
    assert unevaluated(5e6) == {"large"}
    assert str(KernelCount()) == "no kernel of it was evaluated"


def test_regions_whose_kernels_are_not_compiled_are_not_evaluated() -> None:
    kernels = evaluated(1e6)
    arrays = [np.ones(shape, "f4") for shape in ((33, 64), (64, 32), (32,))]
    (evaluated_by_kernel,), _ = kernels.call("dense", arrays)
    assert kernels.count.launches == 1
    kernels.uncompiled = {digest(kernel.text) for kernel, _ in kernels.known.values()}
    (found,), _ = kernels.call("dense", arrays)
    assert kernels.count.launches == 1
    np.testing.assert_allclose(found, evaluated_by_kernel, rtol=1e-5)


def test_kernels_write_what_derivatives_read_of_them() -> None:
    kernels, rng = evaluated(1e6, file="differentiated.py"), np.random.default_rng(2)
    made = {
        fused.kernel: len(function.type.results)
        for function in functions_of(kernels.program.module).values()
        if (fused := fused_of(function)) and "contraction" not in fused.kernel
    }
    assert made["attention"] == 2
    x, scale = rng.normal(size=(2, 40, 3, 16)), rng.normal(size=16)
    given = [each.astype("f4") for each in (x, scale)]
    found, _ = kernels.call("gradients", given)
    wanted = reference.evaluate(kernels.program.module, "gradients", given)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-3)
    assert kernels.count.evaluated == kernels.count.programs > 0


def test_a_launch_without_work_has_no_programs() -> None:
    kernels = evaluated(1e6)
    (found,), _ = kernels.call("later", [np.ones((1, 40), "f4")])
    assert found.shape == (0, 40)
    assert kernels.count.launches == kernels.count.programs == 0


@pytest.mark.parametrize(
    "change",
    [
        {"predicate = 2 : i64": "predicate = 3 : i64"},
        {'"arith.maximumf"': '"arith.minimumf"'},
    ],
)
def test_a_kernel_that_is_wrong_is_found(change: dict[str, str]) -> None:
    """Masks of one too many, and another op than was meant."""
    kernels, x = evaluated(1e6, change), -np.ones((33, 64), "f4")
    y, b = np.ones((64, 32), "f4"), np.zeros(32, "f4")
    if "predicate" in str(change):
        with pytest.raises(CompileError, match="region 'contraction'") as caught:
            kernels.call("dense", [x, y, b])
        assert caught.value.code == "self-check"
    else:
        (found,), _ = kernels.call("dense", [x, y, b])
        assert not np.allclose(found, 0)
