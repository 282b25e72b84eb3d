"""Compiles kernels by Triton, which needs no GPU for that.

Triton is an extra of the machine that builds (`aotc[gpu]`), never of a device.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aotc import options
from aotc.errors import CompileError, SetupError
from aotc.installation import install_command
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.numerics import STRICT

_OLDEST_PTX = {"sm_80": 76, "sm_86": 76, "sm_89": 78, "sm_90": 80}  # of drivers
_WARPS_OF_64 = ("gfx9",)  # the beginning of names of chips whose warps are as wide
_ENTRY = re.compile(r"(\.visible \.entry \w+\()(.*?)(\n\))", re.DOTALL)
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class Compiled:
    """The code of a kernel.

    Args:
        code: PTX, or an hsaco.
        threads: of a program.
        shared: bytes of memory that they share.
    """

    code: bytes
    threads: int
    shared: int


@dataclass(frozen=True)
class Resources:
    """What NVIDIA's assembler says of a kernel.

    Args:
        registers: of a thread.
        spilled: bytes of a thread that found no room in registers.
    """

    registers: int
    spilled: int


def has_triton() -> bool:
    """Return whether kernels can be compiled here."""
    return find_spec("triton") is not None


def _triton(name: str = "triton") -> Any:
    if not has_triton():
        raise SetupError(
            "missing-extra",
            "kernels of GPUs need the package 'triton', which is not installed",
            hint=install_command("gpu"),
        )
    return import_module(name)


def compile_kernel(kernel: GpuKernel, arch: str, numerics: str = STRICT) -> Compiled:
    """Return the code of a kernel for a chip.

    Args:
        kernel: of it.
        arch: the chip, such as `sm_80` or `gfx942`.
        numerics: what results may be: products and sums are fused, if relaxed.

    Raises:
        SetupError: `missing-extra`: Triton is not installed.
        CompileError: `kernel-not-compiled`: Triton refuses it.
    """
    triton = _triton()
    target = _target(arch)
    options = {
        "num_warps": kernel.warps,
        "num_stages": kernel.stages,
        "enable_fp_fusion": numerics != STRICT,
    }
    if target.backend == "cuda" and arch in _OLDEST_PTX:
        options["ptx_version"] = _OLDEST_PTX[arch]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = Path(folder) / f"{kernel.name}.ttir"
        source.write_text(kernel.text)
        knobs = _triton("triton.knobs")
        with knobs.cache.scope(), knobs.compilation.scope():
            knobs.cache.dir = folder
            knobs.compilation.disable_line_info = True  # paths have no place in code
            try:
                made = triton.compile(str(source), target=target, options=options)
            except Exception as error:
                raise CompileError(
                    "kernel-not-compiled",
                    f"Triton does not compile the kernel '{kernel.name}' for {arch}: "
                    f"{error}",
                ) from error
            threads = kernel.warps * target.warp_size
            if target.backend == "cuda":
                text = _without_scratch(made.asm["ptx"], kernel)
                return Compiled(text.encode(), threads, made.metadata.shared)
            return Compiled(made.asm["hsaco"], threads, made.metadata.shared)


def _target(arch: str) -> Any:
    cls = _triton("triton.backends.compiler").GPUTarget
    if arch.startswith("sm_"):
        return cls("cuda", int(arch.removeprefix("sm_")), 32)
    return cls("hip", arch, 64 if arch.startswith(_WARPS_OF_64) else 32)


def _without_scratch(ptx: str, kernel: GpuKernel) -> str:
    """Return PTX that takes no arguments but the kernel's.

    Triton adds two pointers to memory that these kernels have no use for.
    """
    head = _ENTRY.search(ptx)
    assert head is not None
    lines = head[2].strip().splitlines()
    *taken, first, second = (line.strip().rstrip(",") for line in lines)
    for extra in (first, second):
        name = extra.split()[-1]
        assert ptx.count(f"[{name}]") == 0, f"{kernel.name} uses {name}"
    parameters = ",\n\t".join(taken)
    return ptx.replace(head[0], f"{head[1]}\n\t{parameters}{head[3]}")


def resources_of(compiled: Compiled, arch: str) -> Resources:
    """Return what NVIDIA's assembler says of a kernel, on a machine without GPUs.

    Raises:
        CompileError: `kernel-not-compiled`: it refuses the PTX.
    """
    assembler = _triton("triton.knobs").nvidia.ptxas.path
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_bytes(compiled.code)
        suffix = "a" if arch in ("sm_90", "sm_100") else ""
        asked = [assembler, "-v", f"--gpu-name={arch}{suffix}", str(source)]
        asked += ["-o", str(Path(folder) / "kernel.cubin")]
        environment = options.child_environment()
        done = subprocess.run(
            asked, capture_output=True, text=True, check=False, env=environment
        )
    registers = _REGISTERS.search(done.stderr)
    if done.returncode or registers is None:
        why = done.stderr.strip()
        raise CompileError("kernel-not-compiled", f"ptxas refuses a kernel: {why}")
    spills = _SPILLS.search(done.stderr)
    spilled = 0 if spills is None else sum(map(int, spills.groups()))
    return Resources(int(registers[1]), spilled)
