"""IREE launches kernels with the memory, numbers and programs that they ask for.

What Triton makes of a kernel is stood in for by code for this processor that records
what it was launched with.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aotc.backend import compile_units, crossing
from aotc.backend.crossing import with_executables
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import evaluate_size
from aotc.kernels.lowered import GpuLaunch, kernels_of
from aotc.machine.target import Target
from aotc.passes.base import Unit

from .building import kernels_by_name, unit_at

pytestmark = pytest.mark.usefixtures("with_triton")

RECORDED = 16  # elements of a result that a recorder may write


def recorder(name: str, launch: GpuLaunch) -> list[str]:
    """Code that writes what it is launched with where the kernel's result would be:

    how many programs there are, the numbers, and the first element of each operand.
    """
    reads = [f"%b{n}: !stream.binding" for n in range(launch.reads)]
    numbers = [f"%n{n}: i32" for n in range(launch.numbers)]
    taken = ", ".join([*reads, *numbers, "%r: !stream.binding"])
    lines = ["%programs = stream.dispatch.workgroup.count[0] : index",
             "%count = arith.index_cast %programs : index to i32"]  # fmt: skip
    values = []
    for number in ("%count", *(f"%n{n}" for n in range(launch.numbers))):
        values.append(f"{number}.f")
        lines.append(f"{number}.f = arith.sitofp {number} : i32 to f32")
    for n in range(launch.reads):
        kind = "memref<1xf32>"
        lines += [
            f"%m{n} = stream.binding.subspan %b{n}[%zero] : !stream.binding -> {kind}",
            f"%x{n} = memref.load %m{n}[%zero] : {kind}",
        ]
        values.append(f"%x{n}")
    kind = f"memref<{RECORDED}xf32>"
    lines.append(f"%m = stream.binding.subspan %r[%zero] : !stream.binding -> {kind}")
    for place, value in enumerate(values):
        lines += [f"%at{place} = arith.constant {place} : index",
                  f"memref.store {value}, %m[%at{place}] : {kind}"]  # fmt: skip
    return [
        f'stream.executable private @"{name}" {{',
        f"  stream.executable.export public @{launch.function} "
        "workgroups(%programs: index) -> (index, index, index) {",
        "    %one = arith.constant 1 : index",
        "    stream.return %programs, %one, %one : index, index, index",
        "  }",
        "  builtin.module {",
        f"    func.func @{launch.function}({taken}) {{",
        "      %zero = arith.constant 0 : index",
        *(f"      {line}" for line in lines),
        "      return",
        "    }",
        "  }",
        "}",
    ]


def own_name(kernel: str) -> str:
    """The name of the function of a recorder."""
    return kernel.removesuffix(".kernel")


def recording_module(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The module of `dispatched.py`, its kernels stood in for by recorders."""
    unit = unit_at("variant", "dispatched.py", "cuda:sm_80")
    crossed = crossing.crossing

    def with_recorders(program: Any, _: Any = ()) -> tuple[bytes, str]:
        bytecode, frame = crossed(program)
        lines = [
            line
            for each in kernels_of(program.module)
            if each.launch
            for line in recorder(
                each.name, replace(each.launch, function=own_name(each.name))
            )
        ]
        # for processors, no two functions of a module may have one name
        own = re.sub(r'@"(\w+)\.kernel"::@"\w+"', r'@"\1.kernel"::@"\1"', frame)
        return bytecode, with_executables(own, lines)

    monkeypatch.setattr(crossing, "crossing", with_recorders)
    (found,) = compile_units([Unit(unit.program, Target.parse("x86_64-v2"))])
    return found.vmfb


def test_iree_launches_kernels_with_their_memory_numbers_and_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from iree import runtime

    vmfb = recording_module(monkeypatch)
    config = runtime.Config("local-sync")
    module = runtime.VmModule.copy_buffer(config.vm_instance, vmfb)
    bound = runtime.load_vm_module(module, config)
    rng = np.random.default_rng(0)
    kernels = kernels_by_name("dispatched.py", "cuda:sm_80")
    unit = unit_at("regions", "dispatched.py", "cuda:sm_80")
    functions = functions_of(unit.module)
    calls: list[tuple[str, str, list[tuple[int, ...]], list[int]]] = [
        ("dense", "contraction", [(n, 64), (64, 32), (32,)], [n]) for n in (1, 33, 700)
    ]
    calls += [("softmax", "rows", [(9, 40)], [9, 40])]
    calls += [("softmax", "rows", [(5000, 3)], [5000, 3])]
    calls += [("bounded", "contraction_1", [(n, 24), (24, 40)], [n]) for n in (1, 899)]
    calls += [("attend", "attention", [(2, 40, 2, 16), (2, 50, 2, 16)], [])]
    for entry, region, shapes, symbols in calls:
        arrays = [rng.normal(size=shape).astype("f4") for shape in shapes]
        found = np.asarray(bound[entry](*arrays)).ravel()
        kernel, function = kernels[f"{region}.kernel"], functions[region]
        with function.context, known_contracts(contracts_of(function)):
            programs = evaluate_size(kernel.programs, symbols)
        given = [*arrays, arrays[-1]] if entry == "attend" else arrays
        firsts = [x.ravel()[0] for x in given]
        wanted = [programs, *kernel.numbers(symbols), *firsts]
        assert found[: len(wanted)].tolist() == wanted, (entry, symbols)
