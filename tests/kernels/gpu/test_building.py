"""Programs built for GPUs have kernels, and IREE launches them as they are written.

No GPU is needed, and no Triton: what it makes of a kernel is stood in for by a text, or
by code for this processor that records what it was launched with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.backend import Compiled, compile_units, crossing, device_kernels
from aotc.backend.crossing import with_executables
from aotc.backend.device_kernels import DeviceKernels
from aotc.cache import digest
from aotc.checks import evaluated_entries
from aotc.checks.kernel_check import (
    EvaluatedKernels,
    kernel_texts,
    uncompiled_texts,
)
from aotc.checks.kernel_count import KernelCount
from aotc.checks.report import SelfCheck
from aotc.checks.subject import Subject
from aotc.cli.main import main
from aotc.dialects.functions import functions_of
from aotc.dialects.fusion import fused_of
from aotc.dialects.symbols import contracts_of, known_contracts
from aotc.dialects.types import evaluate_size
from aotc.errors import CompileError
from aotc.importers import load
from aotc.kernels import capabilities
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.gpu.compiling import Compiled as Code
from aotc.kernels.gpu.compiling import KernelSource
from aotc.kernels.gpu.emitter import NoKernel
from aotc.kernels.gpu.families import kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.lowered import Launch, kernels_of
from aotc.kernels.refusal import refusals_in
from aotc.kernels.verifier import impossible_regions
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.target import Target
from aotc.tracing.assembly import trace
from aotc.worker.alignment import unaligned_kernels

HERE = Path(__file__).parent
THREADS, SHARED = 128, 12288
HEADER = 64  # bytes before the root of a flatbuffer, at most


@pytest.fixture(autouse=True)
def _with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "has_triton", lambda: True)
    monkeypatch.setattr(device_kernels, "triton_version", lambda: "0")


def unit_at(stage: str, file: str, target: str, **options: str) -> Unit:
    """The unit of a model file for a target, once the passes up to a stage have run."""
    unit = Unit(load(HERE / file))
    for name, value in options.items():
        setattr(unit.program, name, value)
    for each in PASS_STAGES:
        if each.per_target and unit.target is None:
            unit = unit.fork(Target.parse(target))
        run_passes(unit, each.passes(), silently=True)
        if each.name == stage:
            break
    return unit


@cache
def kernels_by_name(file: str, target: str) -> dict[str, GpuKernel]:
    """The kernels of the regions of a model file."""
    unit = unit_at("regions", file, target)
    found = {}
    for name, function in functions_of(unit.module).items():
        if fused_of(function) is not None:
            kernel = kernel_of_region(function)
            assert not isinstance(kernel, NoKernel), kernel.why
            found[f"{name}.kernel"] = kernel
    return found


# ---- regions ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_kernels_take_all_products_and_rows_of_layers(target: str) -> None:
    """A layer of BERT, a block of ResNet, a step of a decoder and one of training."""
    unit = unit_at("regions", "layers.py", target)
    known = capabilities_of(Target.parse(target))
    assert not [*impossible_regions(unit.module, known)]
    refused = refusals_in(unit.module, known)
    assert refused.keys() == {"bert_layer", "resnet_block", "decode", "train_mlp"}
    assert not any(refused.values())
    families = {name.partition(".")[0].partition("_")[0] for name in
                kernels_by_name("layers.py", target)}  # fmt: skip
    assert families == {"contraction", "attention", "rows"}


def test_why_calls_make_floats_of_weights_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(HERE / "dequantised.py")
    assert main(["explain", file, "--target", "cuda:sm_80"]) == 0
    said = (
        "graph.dequantize (1×): cuda:sm_80 has no kernel for it: something else than a "
        "product reads it"
    )
    assert said in capsys.readouterr().out


def test_relaxed_products_of_f32_have_kernels_of_their_own() -> None:
    def families(target: str) -> set[str]:
        unit = unit_at("regions", "dispatched.py", target, numerics="relaxed")
        found = map(fused_of, functions_of(unit.module).values())
        return {fused.kernel for fused in found if fused is not None}

    relaxed = {"contraction-tf32x3", "attention-tf32x3", "rows"}
    assert families("cuda:sm_80") == relaxed
    assert families("rocm:gfx1100") == {"contraction", "attention", "rows"}


# ---- launches -----------------------------------------------------------------------

RECORDED = 16  # elements of a result that a recorder may write


def recorder(name: str, launch: Launch) -> list[str]:
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


# ---- what is in a module ------------------------------------------------------------


def fake_code(source: KernelSource) -> Code:
    """A text in the place of what Triton makes of a kernel."""
    text = f"// {sha256(json.dumps([source.name, source.text]).encode()).hexdigest()}"
    return Code(text.encode(), THREADS, SHARED, source.stages, 40, 0)


def built(
    target: str,
    monkeypatch: pytest.MonkeyPatch,
    refuses: Callable[[KernelSource], bool] = lambda source: False,
) -> tuple[Compiled, DeviceKernels, list[KernelSource]]:
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


class Table:
    """A table of a flatbuffer (https://flatbuffers.dev/internals/).

    Args:
        data: that it is in.
        at: where it begins.
    """

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def number(self, at: int, size: int = 4) -> int:
        return int.from_bytes(self._data[at : at + size], "little")

    def field(self, index: int) -> int | None:
        """Where a field is; None if it has its default."""
        signed = int.from_bytes(
            self._data[self._at : self._at + 4], "little", signed=True
        )
        table = self._at - signed
        place = 4 + 2 * index
        if place >= self.number(table, 2):
            return None
        offset = self.number(table + place, 2)
        return self._at + offset if offset else None

    def value(self, index: int) -> int:
        at = self.field(index)
        return 0 if at is None else self.number(at)

    def vector(self, index: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        at = self.field(index)
        if at is None:
            return 0, 0
        begin = at + self.number(at)
        return begin + 4, self.number(begin)

    def text(self, index: int) -> bytes:
        begin, size = self.vector(index)
        return self._data[begin : begin + size]

    def tables(self, index: int) -> list[Table]:
        begin, count = self.vector(index)
        places = [begin + 4 * n for n in range(count)]
        return [Table(self._data, at + self.number(at)) for at in places]


def executables_in(vmfb: bytes, identifier: bytes) -> Iterator[Table]:
    """The executables of a module for GPUs, by the identifier of their format."""
    at = vmfb.find(identifier)
    while at >= 0:
        begin = at - 4
        root = begin + int.from_bytes(vmfb[begin:at], "little")
        if 0 < root - begin < HEADER:  # else it is that of what is around it
            yield Table(vmfb, root)
        at = vmfb.find(identifier, at + 1)


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


# ---- kernels that are not compiled --------------------------------------------------


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


REFUSED = "there is no such instruction"


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


DISPATCH = """
module {{
  hal.executable.source private @k {{
    hal.executable.export public @f ordinal(0) layout(#hal.pipeline.layout<bindings = [
      #hal.pipeline.binding<storage_buffer>]>) count(%d: !hal.device) -> (index, index,
      index) {{
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }}
  }}
  util.global private mutable @held : !stream.resource<constant>
  util.func public @entry(%n: index, %given: !stream.resource<transient>) {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c48 = arith.constant 48 : index
    %c64 = arith.constant 64 : index
    %rows = arith.muli %n, %c48 : index
    %odd = arith.muli %n, %c8 : index
    %both = arith.addi %rows, %c64 : index
    %up = util.align %odd, %c64 : index
    %size = arith.constant 9999 : index
    %new, %t = stream.resource.alloca uninitialized
      : !stream.resource<transient>{{%size}} => !stream.timepoint
    %part = stream.resource.subview %new[%c8] : !stream.resource<transient>{{%size}}
      -> !stream.resource<transient>{{%size}}
    %held = util.global.load @held : !stream.resource<constant>
    %done = stream.cmd.execute await(%t) => with({memory} as %x: {kind}{{%size}}) {{
      stream.cmd.dispatch @k::@f {{
        rw %x[{offset} for %c16] : {kind}{{%size}}
      }}
    }} => !stream.timepoint
    util.return
  }}
}}
"""


def test_memory_begins_at_multiples_where_offsets_say_so() -> None:
    from iree.compiler import ir

    known = {
        ("%new", "%c0"): True,
        ("%new", "%c48"): True,
        ("%new", "%rows"): True,
        ("%new", "%both"): True,
        ("%new", "%up"): True,
        ("%new", "%c8"): False,
        ("%new", "%odd"): False,
        ("%new", "%n"): False,
        ("%part", "%c0"): False,
        ("%given", "%c0"): False,  # of which nothing is known
        ("%held", "%c0"): False,  # which nothing stores
    }
    with ir.Context():
        for (memory, offset), is_aligned in known.items():
            kind = (
                f"!stream.resource<{'constant' if memory == '%held' else 'transient'}>"
            )
            text = DISPATCH.format(memory=memory, offset=offset, kind=kind)
            found = unaligned_kernels(ir.Module.parse(text))
            assert found == ([] if is_aligned else ["k"]), (memory, offset)


# ---- evaluation ---------------------------------------------------------------------


def evaluated(
    steps: float,
    change: Mapping[str, str] | None = None,
    file: str = "dispatched.py",
) -> EvaluatedKernels:
    """What computes the entries of a model file by kernels, some of them changed."""
    unit = unit_at("regions", file, "cuda:sm_80")
    found = EvaluatedKernels(unit.program, (), (), steps)
    for name, function in functions_of(unit.module).items():
        if fused_of(function) is not None:
            kernel, term = found.kernel_of(function)
            for before, after in (change or {}).items():
                kernel = replace(kernel, text=kernel.text.replace(before, after))
            found.known[name] = kernel, term
    return found


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
            {x: Subject(program, program.module, y) for x, y in entries.items()},
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


def test_a_launch_without_work_is_one_program_that_does_nothing() -> None:
    kernels = evaluated(1e6)
    (found,), _ = kernels.call("later", [np.ones((1, 40), "f4")])
    assert found.shape == (0, 40)
    assert kernels.count.programs == kernels.count.evaluated == 1


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
