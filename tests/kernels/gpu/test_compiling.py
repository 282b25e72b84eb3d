"""The code of kernels takes the arguments of the kernel, and what it needs besides."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from aotc.backend import device_kernels
from aotc.backend.device_kernels import DeviceKernels
from aotc.core.installation import has_triton
from aotc.errors import CompileError
from aotc.kernels.gpu import compiling, worker
from aotc.kernels.gpu.compiling import KernelSource, compile_kernel, resources_of
from aotc.kernels.gpu.machines import MACHINES
from aotc.kernels.lowered import GpuLaunch
from aotc.machine.target import Target
from aotc.processes.running import RunningProcesses

from .test_products import compiled_kernel

KERNEL = KernelSource("kernel", "", 4, 1)
PTX = """
.version 8.7
.target sm_120a
.visible .entry kernel(
	.param .u64 .ptr .global .align 1 kernel_param_0,
	.param .u32 kernel_param_1,
	.param .u64 .ptr .global .align 1 kernel_param_2,
	.param .u64 .ptr .global .align 1 kernel_param_3
)
.reqntid 128
{
	ld.param.b64 	%rd19, [kernel_param_0];
"""
AMDGCN = """
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_kernarg_size 32
amdhsa.kernels:
  - .agpr_count:     4
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         24
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_size: 32
    .sgpr_spill_count: 1
    .vgpr_count:     60
    .vgpr_spill_count: 2
"""


def test_code_for_nvidia_takes_no_scratch_and_runs_on_newer_chips() -> None:
    found = compiling._without_scratch(PTX, KERNEL)
    head = found.partition("{")[0]
    assert re.findall(r"\w+_param_\d", head) == ["kernel_param_0", "kernel_param_1"]
    assert "kernel_param_1\n)" in head
    assert ".target sm_120\n" in found
    with pytest.raises(AssertionError, match="uses"):
        compiling._without_scratch(PTX + "[kernel_param_3]", KERNEL)


def test_code_for_amd_is_given_neither_scratch_nor_shared_memory() -> None:
    found = compiling._as_iree_launches(AMDGCN, KERNEL, 4096)
    kinds = re.findall(r"\.offset: +(\d+)\n.*\n +\.value_kind: +(\w+)", found)
    assert kinds == [
        ("0", "global_buffer"),
        ("8", "by_value"),
        ("16", "hidden_none"),
        ("24", "hidden_none"),
    ]
    assert re.findall(r"group_segment_fixed_size:? (\d+)", found) == ["4096", "4096"]
    assert "kernarg_segment_size: 32" in found
    assert compiling._amd_resources(AMDGCN) == (64, 3)


def kernels_of(texts: list[str]) -> DeviceKernels:
    launches = {
        f"k{number}.kernel": GpuLaunch("k", text, 4, 1, 1, 1, 0)
        for number, text in enumerate(texts)
    }
    target = Target.parse("cuda:sm_80")
    return DeviceKernels(target, MACHINES["sm_80"], "strict", launches, 1, None)


def test_a_kernel_that_the_compiler_dies_of_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process goes on with the kernels after it."""
    met: list[list[str]] = []

    def run(folder, running):
        job = (folder / "job.json").read_text()
        names = re.findall(r"text\d", job)
        met.append(names)
        for number, name in enumerate(names):
            if name == "text1":
                return -11, "LLVM ERROR: no such thing"
            (folder / f"{number}.code").write_bytes(name.encode())
            facts = '{"threads": 128, "shared": 0, "stages": 1, "registers": 1, '
            (folder / f"{number}.json").write_text(facts + '"spilled": 0}')
        return 0, ""

    monkeypatch.setattr(device_kernels, "_run_worker", run)
    kernels = kernels_of(["text0", "text1", "text2"])
    codes, refused = kernels.compile(RunningProcesses())
    assert met == [["text0", "text1", "text2"], ["text2"]]
    assert {name: made.code for name, made in codes.items()} == {
        "k0.kernel": b"text0",
        "k2.kernel": b"text2",
    }
    why = "Triton died of SIGSEGV: LLVM ERROR: no such thing"
    assert refused == {"k1.kernel": why}


def test_a_kernel_of_more_tensors_than_drivers_bind_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """IREE's drivers of CUDA and HIP would refuse the whole module."""
    compiled: list[str] = []

    def run(folder, running):
        compiled.extend(re.findall(r"text\d", (folder / "job.json").read_text()))
        (folder / "0.code").write_bytes(b"")
        facts = '{"threads": 128, "shared": 0, "stages": 1, "registers": 1, '
        (folder / "0.json").write_text(facts + '"spilled": 0}')
        return 0, ""

    monkeypatch.setattr(device_kernels, "_run_worker", run)
    kernels = kernels_of([])
    few = GpuLaunch("k", "text0", 4, 1, 15, 1, 0)
    many = GpuLaunch("k", "text1", 4, 1, 14, 3, 0)
    launches = {"few.kernel": few, "many.kernel": many}
    codes, refused = replace(kernels, launches=launches).compile(RunningProcesses())
    assert compiled == ["text0"]
    assert [*codes] == ["few.kernel"]
    why = "it binds 17 tensors, and IREE's drivers of GPUs take 16"
    assert refused == {"many.kernel": why}


def test_a_process_that_ends_for_want_of_memory_refuses_no_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A build with less memory must not become another bundle."""
    monkeypatch.setattr(device_kernels, "_run_worker", lambda *_: (-9, ""))
    with pytest.raises(CompileError, match="SIGKILL") as caught:
        kernels_of(["text0"]).compile(RunningProcesses())
    assert caught.value.code == "kernel-not-compiled"


def test_kernels_get_more_warps_where_registers_spill_and_else_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    spilled = {"few": {4: 64, 8: 0}, "many": {4: 4096, 8: 2048, 16: 512}}

    def compile_kernel(source: KernelSource, *_: object) -> compiling.GpuCode:
        code = f"{source.name} {source.warps}".encode()
        return compiling.GpuCode(code, 32 * source.warps, 0, 1)

    def resources_of(made: compiling.GpuCode, _: str) -> compiling.Resources:
        name, warps = made.code.decode().split()
        return compiling.Resources(255, spilled[name][int(warps)])

    monkeypatch.setattr(worker, "compile_kernel", compile_kernel)
    monkeypatch.setattr(worker, "resources_of", resources_of)
    settings = {"arch": "sm_80", "numerics": "strict", "most_shared": 1 << 16}
    sources = [KernelSource(name, "", 4, 1) for name in spilled]
    worker.write_job(tmp_path, sources, settings)
    worker.main(tmp_path)
    few, many = (worker.read_result(tmp_path, number) for number in range(2))
    assert isinstance(few, compiling.GpuCode)
    assert (few.code, few.threads, few.spilled) == (b"few 8", 256, 0)
    assert many == (
        "'many' has no room for 512 bytes of a thread in the registers of sm_80, by up "
        "to 16 warps"
    )


@pytest.mark.skipif(not has_triton(), reason="needs triton")
@pytest.mark.parametrize("arch", ["sm_100", "sm_120", "gfx1201"])
def test_code_for_newer_chips_is_accepted_by_assemblers(arch: str) -> None:
    kernel = compiled_kernel("symbolic", arch)
    found = compile_kernel(kernel.source, arch)
    assert resources_of(found, arch).spilled == 0
    if arch.startswith("sm_"):
        target = f".target {arch}{'a' if arch == 'sm_100' else ''}\n".encode()
        assert target in found.code
    else:
        assert found.code.count(b"hidden_none") == 2


@pytest.mark.skipif(not has_triton(), reason="needs triton")
def test_a_process_compiles_kernels_and_says_why_not(tmp_path) -> None:
    kernel = compiled_kernel("turned")
    wrong = KernelSource("wrong", kernel.text.replace("tt.func", "tt.funk"), 4, 1)
    settings = {"arch": "sm_80", "numerics": "strict", "most_shared": 1 << 16}
    worker.write_job(tmp_path, [kernel.source, wrong], settings)
    worker.main(tmp_path)
    good, bad = (worker.read_result(tmp_path, number) for number in range(2))
    assert isinstance(good, compiling.GpuCode)
    assert good.code == compile_kernel(kernel.source, "sm_80").code
    assert (good.spilled, bad is None) == (0, False)
    assert isinstance(bad, str)
    assert "wrong" in bad
