"""Compiles kernels by Triton, which needs no GPU for that.

Triton is an extra of the machine that builds (`aotc[gpu]`), never of a device. What it
makes takes the arguments of the kernel and no others, in their order: so IREE launches
it, with the memory that a dispatch binds and then its numbers.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from aotc.core import options
from aotc.core.installation import has_triton, install_command
from aotc.core.numerics import STRICT
from aotc.errors import CompileError, SetupError

_ALIGNED = "{tt.divisibility = 16 : i32}"  # of an argument, in the text of a kernel

# the oldest PTX that has a chip: the older the text, the older a driver may be
_OLDEST_PTX = {"sm_80": 76, "sm_86": 76, "sm_89": 78, "sm_90": 80}
_OLDEST_PTX |= {"sm_100": 86, "sm_120": 87}
ALONE = ("sm_90", "sm_100")  # chips whose PTX, for sm_90a, no other chip runs
_WARPS_OF_64 = ("gfx9",)  # the beginning of names of chips whose warps are as wide
_ENTRY = re.compile(r"(\.visible \.entry \w+\()(.*?)(\n\))", re.DOTALL)
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SCRATCH = 2  # pointers that Triton adds to the arguments of each kernel


@dataclass(frozen=True)
class KernelSource:
    """The Triton IR of one kernel, with the options to compile it.

    Args:
        name: of its function.
        text: of a module of Triton's IR.
        warps: of a program.
        stages: of what is loaded ahead.
    """

    name: str
    text: str
    warps: int
    stages: int

    def without_alignment(self) -> KernelSource:
        """Return the source for arguments that may not be aligned to 16 bytes."""
        text = self.text.replace(_ALIGNED, "{}")
        return KernelSource(self.name, text, self.warps, self.stages)


@dataclass(frozen=True)
class GpuCode:
    """The compiled code of one kernel: PTX or an hsaco, with the resources it needs.

    Args:
        code: PTX, or an hsaco.
        threads: of a program.
        shared: bytes of memory that they share.
        stages: of what is loaded ahead.
        registers: of a thread; None where nothing has said so.
        spilled: the same of bytes, or registers on AMD's chips, for which there was no
            room in registers.
    """

    code: bytes
    threads: int
    shared: int
    stages: int
    registers: int | None = None
    spilled: int | None = None


@dataclass(frozen=True)
class Resources:
    """The registers and spills of a kernel, as the assembler reports them.

    Args:
        registers: of a thread.
        spilled: bytes of a thread that found no room in registers; on AMD's chips,
            registers.
    """

    registers: int
    spilled: int


def _triton(name: str = "triton") -> Any:
    """Import and return a module of Triton, or raise if Triton is not installed."""
    if not has_triton():
        raise SetupError(
            "missing-extra",
            "kernels of GPUs need the package 'triton', which is not installed",
            hint=install_command("gpu"),
        )
    return import_module(name)


def compile_kernel(
    kernel: KernelSource, arch: str, numerics: str = STRICT, most_shared: int = 2**31
) -> GpuCode:
    """Compile a kernel for a chip, prefetching less if shared memory is short.

    Less is loaded ahead than the kernel asks for where its programs would share more
    memory than there is.

    Args:
        kernel: of it.
        arch: the chip, such as `sm_80` or `gfx942`.
        numerics: what results may be: products and sums are fused, if relaxed.
        most_shared: bytes of memory that the threads of a program can share.

    Raises:
        SetupError: `missing-extra`: Triton is not installed.
        CompileError: `kernel-not-compiled`: Triton refuses it, or it has no room.
    """
    for stages in range(kernel.stages, 0, -1):
        found = _compile(kernel, arch, numerics, stages)
        if found.shared <= most_shared:
            return found
    raise CompileError(
        "kernel-not-compiled",
        f"'{kernel.name}' needs {found.shared} bytes of shared memory; {arch} has "
        f"{most_shared}",
    )


def _compile(kernel: KernelSource, arch: str, numerics: str, stages: int) -> GpuCode:
    """Compile a kernel for a chip by Triton, with a number of pipeline stages."""
    triton, target = _triton(), _target(arch)
    given = {
        "num_warps": kernel.warps,
        "num_stages": stages,
        "enable_fp_fusion": numerics != STRICT,
    }
    if target.backend == "cuda" and arch in _OLDEST_PTX:
        given["ptx_version"] = _OLDEST_PTX[arch]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = Path(folder) / f"{kernel.name}.ttir"
        source.write_text(kernel.text)
        knobs = _triton("triton.knobs")
        with (
            knobs.cache.scope(),
            knobs.compilation.scope(),
            knobs.runtime.scope(),
        ):
            knobs.cache.dir = folder
            knobs.compilation.disable_line_info = True  # paths have no place in code
            knobs.runtime.add_stages_inspection_hook = _arguments_hook(kernel)
            try:
                made = triton.compile(str(source), target=target, options=given)
            except (OSError, MemoryError):  # of the machine, and not of the kernel
                raise
            except Exception as error:
                why = (str(error).strip().splitlines() or ["no reason is given"])[0]
                raise CompileError(
                    "kernel-not-compiled",
                    f"Triton does not compile '{kernel.name}' for {arch}: {why[:200]}",
                ) from error
            threads = made.metadata.num_warps * target.warp_size
            code = made.asm["ptx" if target.backend == "cuda" else "hsaco"]
            code = code.encode() if isinstance(code, str) else code
            found = GpuCode(code, threads, made.metadata.shared, stages)
            if target.backend == "cuda":
                return found
            registers, spilled = _amd_resources(made.asm["amdgcn"])
            return GpuCode(
                code, threads, made.metadata.shared, stages, registers, spilled
            )


def _target(arch: str) -> Any:
    """Return Triton's target for a chip."""
    cls = _triton("triton.backends.compiler").GPUTarget
    if arch.startswith("sm_"):
        return cls("cuda", int(arch.removeprefix("sm_")), 32)
    return cls("hip", arch, 64 if arch.startswith(_WARPS_OF_64) else 32)


# ---- the arguments of a kernel ------------------------------------------------------


def _arguments_hook(kernel: KernelSource) -> Callable[..., Any]:
    """Return a compiler hook that removes the arguments that Triton adds to a kernel.

    Triton adds pointers to memory that these kernels have no use for. Who launches the
    code would have to give some: NVIDIA's driver refuses to launch without, and AMD's
    reads as many as the code says, wherever that leads.
    """

    def hook(backend: object = None, stages: Any = None, *_: object) -> tuple[str, str]:
        for name, change in (("ptx", _without_scratch), ("amdgcn", _as_iree_launches)):
            if stages is not None and name in stages:
                make = stages[name]
                stages[name] = lambda source, metadata, make=make, change=change: (
                    change(make(source, metadata), kernel, metadata["shared"])
                )
        return "", ""

    return hook


def _without_scratch(ptx: str, kernel: KernelSource, _: int = 0) -> str:
    """Return PTX whose entry takes no scratch pointers, for sm_120 or later chips.

    Triton makes it for one chip alone where that has instructions that no other has:
    kernels use none of sm_120's, and so may run on what comes after it.
    """
    ptx = ptx.replace(".target sm_120a", ".target sm_120")
    head = _ENTRY.search(ptx)
    assert head is not None
    lines = [line.strip().rstrip(",") for line in head[2].strip().splitlines()]
    taken, added = lines[:-_SCRATCH], lines[-_SCRATCH:]
    for extra in added:
        name = extra.split()[-1]
        assert ptx.count(f"[{name}]") == 0, f"{kernel.name} uses {name}"
    parameters = ",\n\t".join(taken)
    return ptx.replace(head[0], f"{head[1]}\n\t{parameters}{head[3]}")


_LDS = ".amdhsa_group_segment_fixed_size 0\n", ".group_segment_fixed_size: 0\n"


def _as_iree_launches(assembly: str, kernel: KernelSource, shared: int) -> str:
    """Return AMD assembly changed so that IREE's launch without hidden arguments works.

    Pointers to scratch stay where the arguments lie, as `hidden_none`: "space needs to
    be left for it, but nothing needs to be set up" (LLVM, "User Guide for AMDGPU
    Backend", "AMDHSA Code Object V3 Metadata"). Memory that threads share begins at 0
    and is of a fixed size: IREE asks HIP for none.
    """
    for stated in _LDS:
        assert assembly.count(stated) == 1, f"{kernel.name}: {stated}"
        assembly = assembly.replace(stated, f"{stated[:-2]}{shared}\n")
    marker = ".value_kind:     global_buffer"
    before, rest = assembly.split(".args:", 1)
    arguments, after = rest.split("    .group_segment_fixed_size:", 1)
    parts = arguments.split("      - ")
    assert len(parts) > _SCRATCH, kernel.name
    for place in range(len(parts) - _SCRATCH, len(parts)):
        assert parts[place].count(marker) == 1, f"{kernel.name}: {parts[place]}"
        hidden = parts[place].replace(marker, ".value_kind:     hidden_none")
        parts[place] = hidden.replace(".address_space:  global\n        ", "")
    arguments = "      - ".join(parts)
    return f"{before}.args:{arguments}    .group_segment_fixed_size:{after}"


# ---- what an assembler says ---------------------------------------------------------


def resources_of(compiled: GpuCode, arch: str) -> Resources:
    """Return the registers and spills of compiled code, assembling PTX if necessary.

    Raises:
        CompileError: `kernel-not-compiled`: NVIDIA's refuses the PTX.
    """
    if compiled.registers is not None and compiled.spilled is not None:
        return Resources(compiled.registers, compiled.spilled)
    said = assemble(compiled, arch)[1]
    registers, spills = _REGISTERS.search(said), _SPILLS.search(said)
    assert registers is not None, said
    spilled = 0 if spills is None else sum(map(int, spills.groups()))
    return Resources(int(registers[1]), spilled)


def assemble(compiled: GpuCode, arch: str) -> tuple[bytes, str]:
    """Assemble PTX by ptxas; return the machine code and the log.

    Raises:
        CompileError: `kernel-not-compiled`: it refuses the PTX.
    """
    assembler = _triton("triton.knobs").nvidia.ptxas.path
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_bytes(compiled.code)
        suffix = "a" if arch in ALONE else ""
        asked = [assembler, "-v", f"--gpu-name={arch}{suffix}", str(source)]
        environment = options.child_environment()
        done = subprocess.run(
            [*asked, "-o", str(made)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if done.returncode or _REGISTERS.search(done.stderr) is None:
            why = done.stderr.strip()
            raise CompileError("kernel-not-compiled", f"ptxas refuses a kernel: {why}")
        return made.read_bytes(), done.stderr


def _amd_resources(assembly: str) -> tuple[int, int]:
    """Parse AMD assembly for the registers of a thread and the spilled ones."""

    def stated(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", assembly)
        return int(found[1]) if found else 0

    spilled = stated("vgpr_spill_count") + stated("sgpr_spill_count")
    return stated("vgpr_count") + stated("agpr_count"), spilled
