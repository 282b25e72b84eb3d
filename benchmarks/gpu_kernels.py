"""Code of GPU kernels of usual shapes, without a GPU.

    python -m benchmarks.gpu_kernels --arch sm_80

For each: how it is cut up, how many programs there are, what Triton's code has of
instructions for matrices and asynchronous copies, the registers of a thread and what of
them spills (ptxas), and, of products, how long they take by the model of the chip
beside the floor: operations over the nominal rate, or bytes over the bandwidth. Needs
`aotc[gpu]`. Exits with 1 if anything spills.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from aotc.core.dtypes import bits
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor, static_size
from aotc.importers import load
from aotc.kernels.gpu import matrices, products
from aotc.kernels.gpu.compiling import GpuCode, compile_kernel, resources_of
from aotc.kernels.gpu.emitter import NoTermKernel, emit
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.machines import MACHINES, Gpu
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Term
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

# the shapes that `benchmarks.gpu` times on a GPU
MODEL = Path(__file__).with_name("gpu") / "models" / "kernels.py"


def main() -> int:
    """Print a line for each kernel."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_kernels", description=__doc__
    )
    parser.add_argument("--arch", choices=[*MACHINES], default="sm_80")
    machine = MACHINES[parser.parse_args().arch]
    spills = 0
    for name, term, kernel in _kernels(machine):
        code = compile_kernel(kernel, machine.arch)
        told, spilled = _resources(code, machine)
        spills += spilled
        said = f"{kernel.schedule}; {kernel.programs} programs; {told}"
        print(f"{name}: {said}{_model(term, machine)}", flush=True)
    return 1 if spills else 0


def _kernels(machine: Gpu) -> Iterator[tuple[str, Term, GpuKernel]]:
    """Yield the GPU kernels of the model."""
    unit = Unit(load(MODEL))
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    for name, function in functions_of(unit.module).items():
        with function.context, known_contracts(contracts_of(function)):
            term = term_of(function)
            assert term is not None
            kernel = emit(term, name, machine)
            if isinstance(kernel, NoTermKernel):
                print(f"{name}: none: {kernel.why}")
            else:
                yield name, term, kernel


def _resources(code: GpuCode, machine: Gpu) -> tuple[str, int]:
    """Return instruction counts, memory and registers of a kernel as text, and spilled
    bytes.
    """
    shared = f"{code.shared >> 10} KiB shared"
    if not machine.arch.startswith("sm_"):
        return shared, 0
    text = code.code.decode()
    counted = {each: text.count(each) for each in ("mma.sync", "wgmma.mma", "fma.rn")}
    counted |= {each: text.count(each) for each in ("tcgen05.mma", "cp.async.c")}
    found = [f"{count} {each}" for each, count in counted.items() if count]
    needed = resources_of(code, machine.arch)
    found += [shared, f"{needed.registers} registers"]
    if needed.spilled:
        found.append(f"{needed.spilled} BYTES SPILL")
    return ", ".join(found), needed.spilled


def _model(term: Term, machine: Gpu) -> str:
    """Return a product's time by the model and its lower bound, as text."""
    anchor = products.anchor_of(term)
    if anchor is None:
        return ""
    counts, dtype = matrices.Counts.of(anchor), matrices.factor_dtype(anchor)
    tile = products.plan(term, machine)
    expected = matrices.nanoseconds(tile, counts, dtype, machine) - matrices.START
    operations = 2 * counts.batch * counts.rows * counts.columns * counts.depth
    kinds = [Tensor.of(x) for x in (*term.arguments, *term.results)]
    moved = sum(static_size(k.elements) * bits(k.dtype) // 8 for k in kinds)
    floor = max(operations / machine.rate(dtype), moved / machine.bandwidth)
    return f"; {expected / 1e3:.1f} us by the model, floor {floor / 1e3:.1f}"


if __name__ == "__main__":
    sys.exit(main())
