"""Kernels for RISC-V against the reference evaluator, on an emulated processor.

    python -m benchmarks.emulation.riscv [MODEL] [--vlen 128 256] [--rounds N]

There is no runtime of IREE for RISC-V to be had, so kernels are called by themselves:
the object file that IREE's compiler makes of a model (by default of one op an entry, of
random sizes: `shapes`) is linked with a small program in C, `call_kernel.c`, once for
each kernel, which QEMU runs. Its memory is random, and the reference evaluates the
region that the kernel is of on the same arrays. Needs Debian's packages qemu-user,
gcc-riscv64-linux-gnu and libc6-dev-riscv64-cross. A kernel whose operands the compiler
has merged, or of whose sizes calls decide some, is left out, and said so. Integers are
to be equal. Exits with 1 if one differs, writes beyond its memory, or if none was
compared.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aotc import reference
from aotc.backend import compile_units
from aotc.core.dtypes import to_numpy
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.kernels.families import FAMILIES
from aotc.kernels.family import PlannedKernel
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES, all_passes
from benchmarks.emulation.shapes import model_source

TARGET = Target.parse("riscv64-v")
TOOLS = "riscv64-linux-gnu-"
EMULATOR = ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu")
SHARES = (1, 3)  # into which the work of a kernel is cut

_SOURCE = Path(__file__).with_name("call_kernel.c")
_DISPATCH = re.compile(r"dispatch<.*?bindings\(\[(.*?)\]\)", re.DOTALL)
_BINDING = re.compile(r"\)\[%c\w+, %c(\d+)\]")


@dataclass(frozen=True)
class Case:
    """A kernel, its random arguments, and the expected results.

    Args:
        name: of its region.
        family: that it is of.
        arguments: of the region.
        results: that the reference makes of them.
        scratch: f32 elements that each share has for itself.
    """

    name: str
    family: str
    arguments: Sequence[Any]
    results: Sequence[Any]
    scratch: int

    @property
    def kernel(self) -> str:
        """The name of its function."""
        return f"{self.name}.kernel"


def cases(model: Path) -> list[Case]:
    """Return the kernels of a model with random arguments."""
    unit = Unit(load(model)).fork(TARGET)
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    rng, found = np.random.default_rng(1), []
    for name, function in functions_of(unit.module).items():
        kernel = PlannedKernel.of(function, FAMILIES)
        if kernel is None:
            continue
        with unit.module.context:
            taken, _ = signature(function)
            scratch = kernel.scratch
            is_static = all(isinstance(n, int) for x in taken for n in x.shape)
        if not is_static:
            print(f"{name}: left out, calls decide sizes")
            continue
        given = [_random(rng, x) for x in taken]
        results = reference.evaluate(unit.module, name, given)
        found.append(Case(name, kernel.name, given, results, scratch))
    return found


def _random(rng: np.random.Generator, kind: Tensor) -> Any:
    """Return random numbers of a type, integers of its whole range."""
    dtype = to_numpy(kind.dtype)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, kind.shape, dtype, endpoint=True)
    return np.asarray(rng.normal(size=kind.shape), dtype)


def compile_model(model: Path, folder: Path) -> Path:
    """Compile a model; return the object file of its kernels. `folder` gets IREE's
    dumps.
    """
    unit = Unit(load(model)).fork(TARGET)
    run_passes(unit, all_passes(), silently=True)
    flags = (
        f"--iree-hal-dump-executable-{what}-to={folder}"
        for what in ("benchmarks", "intermediates")
    )
    dumping = replace(TARGET, flags=(*TARGET.flags, *flags))
    compile_units([replace(unit, target=dumping)])
    (found,) = folder.glob("*.o")
    return found


def has_own_bindings(case: Case, folder: Path) -> bool:
    """Return whether each operand and result of a kernel is one binding, in order.

    A binding may have some bytes more, up to the next multiple of 64. Nothing says it
    of kernels that ask for the number of threads, which have scratch besides.
    """
    if case.scratch:
        return True
    (file,) = folder.glob(f"*_{case.kernel}_embedded_elf_*_benchmark.mlir")
    dispatch = _DISPATCH.search(file.read_text(encoding="utf-8"))
    assert dispatch is not None
    found = [int(size) for size in _BINDING.findall(dispatch[1])]
    wanted = [array.nbytes for array in (*case.arguments, *case.results)]
    return len(found) == len(wanted) and all(
        has in (needs, -(-needs // 64) * 64)
        for has, needs in zip(found, wanted, strict=True)
    )


def linked(case: Case, objects: Path, folder: Path) -> Path:
    """Link a program that calls a kernel; return its path."""
    program, exported = folder / case.kernel, folder / f"{case.kernel}.o"
    name = f"--globalize-symbol={case.kernel}"
    subprocess.run([f"{TOOLS}objcopy", name, objects, exported], check=True)
    subprocess.run(
        [
            f"{TOOLS}gcc",
            "-std=c11",
            "-O1",
            "-static",
            f'-DKERNEL="{case.kernel}"',
            _SOURCE,
        ]
        + [exported, "-o", program],
        check=True,
    )
    return program


def wrong_in(case: Case, program: Path, vlen: int) -> str:
    """Run a kernel's program under emulation; describe wrong results, or ""."""
    memory = program.with_suffix(".memory")
    unwritten = [np.frombuffer(b"\xff" * x.nbytes, x.dtype) for x in case.results]
    arrays = [*case.arguments, *unwritten]
    memory.write_bytes(b"".join(array.tobytes() for array in arrays))
    sizes = [str(array.nbytes) for array in arrays]
    own = 4 * case.scratch * max(SHARES)
    if own:  # the last result
        memory.write_bytes(memory.read_bytes() + b"\xff" * own)
        sizes.append(str(own))
    for shares in SHARES:
        done = subprocess.run(
            [*EMULATOR, "-cpu", f"rv64,v=true,vlen={vlen}", program, memory]
            + [str(len(case.results) + bool(own)), str(shares), *sizes],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            return f"in {shares} shares it ends with {done.returncode}"
        first = 0
        for wanted in case.results:
            part = done.stdout[first : first + wanted.nbytes]
            first += wanted.nbytes
            far = _difference(np.frombuffer(part, wanted.dtype), wanted.ravel())
            if far:
                return f"in {shares} shares it is off by {far:.1e}"
    return ""


def _difference(found: Any, wanted: Any) -> float:
    """Return the largest difference if rounding does not explain it; else 0."""
    if np.issubdtype(wanted.dtype, np.integer):
        return float(abs(found.astype("i8") - wanted.astype("i8")).max())
    scale = 2e-5 * max(1.0, float(abs(wanted).max()))
    is_near = np.allclose(found, wanted, 2e-5, scale)
    return 0.0 if is_near else float(abs(found - wanted).max())


def main() -> int:
    """Compile a model's kernels, run them under emulation, and compare."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.emulation.riscv", description=__doc__
    )
    add = parser.add_argument
    add("--vlen", type=int, nargs="+", default=[128, 256], help="bits of a register")
    add("--rounds", type=int, default=3, help="entries of each kind (3)")
    add("--seed", type=int, default=0)
    add("model", nargs="?", type=Path, help="of static sizes")
    asked = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    families, left_out, failed = Counter[str](), [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model = asked.model or folder / "model.py"
        if asked.model is None:
            source = model_source(asked.seed, asked.rounds)
            model.write_text(source, encoding="utf-8")
        objects = compile_model(model, folder)
        for case in cases(model):
            if not has_own_bindings(case, folder):
                left_out.append(case.name)
                continue
            families[case.family] += 1
            program = linked(case, objects, folder)
            for vlen in asked.vlen:
                wrong = wrong_in(case, program, vlen)
                failed += bool(wrong)
                if wrong:
                    print(f"{case.name}, {vlen} bits: {wrong}", flush=True)
    print(f"kernels: {dict(families)}; left out: {', '.join(left_out) or 'none'}")
    print(f"{failed} of {len(asked.vlen) * families.total()} differ")
    return 1 if failed or not families else 0


if __name__ == "__main__":
    sys.exit(main())
