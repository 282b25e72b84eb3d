"""Modules hold the code of kernels, or say why they have none.

No Triton is needed: what it makes of a kernel is stood in for by a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from aotc import reference
from aotc.backend import CompiledVariant, compile_units, crossing
from aotc.backend.device_kernels import DeviceKernels
from aotc.checks.kernel_check import kernel_texts, uncompiled_texts
from aotc.core.cache import digest
from aotc.kernels.gpu.compiling import GpuCode, KernelSource
from aotc.kernels.lowered import kernels_of
from aotc.machine.target import Target
from aotc.passes.base import Unit

from .building import unit_at
from .flatbuffers import executables_in

pytestmark = pytest.mark.usefixtures("with_triton")

THREADS, SHARED = 128, 12288
REFUSED = "there is no such instruction"


def fake_code(source: KernelSource) -> GpuCode:
    """A text in the place of what Triton makes of a kernel."""
    text = f"// {sha256(json.dumps([source.name, source.text]).encode()).hexdigest()}"
    return GpuCode(text.encode(), THREADS, SHARED, source.stages, 40, 0)


def built(
    target: str,
    monkeypatch: pytest.MonkeyPatch,
    refuses: Callable[[KernelSource], bool] = lambda source: False,
) -> tuple[CompiledVariant, DeviceKernels, list[KernelSource]]:
    """A variant with texts for the code of kernels, and what was asked of Triton."""
    asked: list[KernelSource] = []

    def compile_all(self: DeviceKernels, missing: Any, _: Any) -> Iterator[Any]:
        for source in missing:
            asked.append(source)
            yield source, REFUSED if refuses(source) else fake_code(source)

    monkeypatch.setattr(DeviceKernels, "_compile_all", compile_all)
    unit = unit_at("variant", "dispatched.py", target)
    kernels = DeviceKernels.of(unit.module, unit.target, "strict", 1, None)
    assert kernels is not None
    (found,) = compile_units([unit])
    return found, kernels, asked


@pytest.mark.parametrize(
    ("target", "identifier"), [("cuda:sm_80", b"CDA1"), ("rocm:gfx942", b"HIP1")]
)
@pytest.mark.usefixtures("compile_anew")
def test_modules_hold_the_code_of_kernels_as_it_was_compiled(
    target: str, identifier: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, kernels, asked = built(target, monkeypatch)
    rows = {row["name"]: row["device"] for row in found.kernels["regions"]}
    assert rows.keys() == kernels.launches.keys()
    assert len(rows) == 7
    codes = {fake_code(source).code: source for source in asked}
    held = {}
    for executable in executables_in(found.vmfb, identifier):
        for export in executable.tables(0):
            module = executable.tables(1)[export.value(0)]
            held[module.text(0)] = export
    digests = {sha256(code).hexdigest(): code for code in codes}
    for name, launch in kernels.launches.items():
        code = digests[rows[name]["sha256"]]
        export = held[code]
        assert export.text(1).decode() == launch.function
        at = export.field(2)
        assert at is not None
        assert [export.number(at + 4 * n) for n in range(3)] == [THREADS, 1, 1]
        # a fault of IREE's: see `compiling`
        assert export.value(3) == (SHARED if target.startswith("cuda") else 0)
        assert export.value(4) == launch.numbers
        begin, count = export.vector(5)
        flags = [export.number(begin + 8 * n, 8) for n in range(count)]
        read_only, indirect = 1, 2  # else each call records all of its launches
        assert flags == [
            *[read_only | indirect] * launch.reads,
            *[indirect] * launch.writes,
        ]
    # one writes behind a row of 65 elements, which are no multiple of 16 bytes
    unaligned = [r for r in found.kernels["regions"] if not r["device"]["aligned"]]
    assert [[*row["entries"]] for row in unaligned] == [["joined"]]
    assert ["tt.divisibility" in each.text for each in asked] == [True] * 7 + [False]


def test_iree_computes_the_ops_of_kernels_that_are_not_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here for this processor: what a program is without any of its kernels."""
    from iree import runtime

    unit = unit_at("variant", "dispatched.py", "cuda:sm_80")
    names = [each.name for each in kernels_of(unit.module)]
    crossed = crossing.crossing
    monkeypatch.setattr(
        crossing, "crossing", lambda program, _=(): crossed(program, names)
    )
    (found,) = compile_units([Unit(unit.program, Target.parse("x86_64-v2"))])
    config = runtime.Config("local-sync")
    module = runtime.VmModule.copy_buffer(config.vm_instance, found.vmfb)
    bound = runtime.load_vm_module(module, config)
    original, rng = (
        unit_at("optimized", "dispatched.py", "cuda:sm_80"),
        np.random.default_rng(3),
    )
    calls: list[tuple[str, list[tuple[int, ...]]]] = [
        ("dense", [(33, 64), (64, 32), (32,)]),
        ("softmax", [(9, 40)]),
        ("bounded", [(7, 24), (24, 40)]),
        ("attend", [(2, 40, 2, 16), (2, 50, 2, 16)]),
        ("later", [(3, 40)]),
        ("joined", [(65, 63), (63, 65)]),
    ]
    for entry, shapes in calls:
        arrays = [rng.normal(size=shape).astype("f4") for shape in shapes]
        (wanted,) = reference.evaluate(original.module, entry, arrays)
        mine = np.asarray(bound[entry](*arrays))
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("compile_anew")
def test_refused_kernels_are_listed_with_the_reason_and_have_no_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(source: KernelSource) -> bool:
        return source.name == "aotc_contraction"

    found, kernels, _ = built("cuda:sm_80", monkeypatch, refuses)
    rows = found.kernels["regions"]
    assert {row["family"] for row in rows} == {"rows", "attention"}
    without = {(row["entry"], row["op"]): row for row in found.kernels["without"]}
    assert without.keys() == {
        ("dense", "dot_general, add, relu"),
        ("bounded", "dot_general"),
        ("joined", "dot_general"),
    }
    for row in without.values():
        assert row["why"] == f"its kernel is not compiled: {REFUSED}"
        assert row["places"][0].startswith("dispatched.py:")
    texts = {digest(launch.text) for launch in kernels.launches.values()}
    assert kernel_texts(found.kernels) | uncompiled_texts(found.kernels) == texts
    assert b"aotc_contraction" not in found.vmfb
    assert b"aotc_rows" in found.vmfb
