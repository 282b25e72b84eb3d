"""Limits of the processor: an own kernel of nothing but FMAs, and copies of memory.

    python -m operator_tables.limits LEVEL THREADS wall|processor

prints GFLOP/s and GB/s as JSON, each the best of many.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from inference.clocks import seconds_of_calls

STEPS = 1_000_000
COPY = 1 << 28  # bytes, beyond any cache
# of the calling thread: other work on the machine counts for less
CLOCKS = {"wall": time.perf_counter, "processor": time.thread_time}
# level → lanes of a vector, independent sums: two FMA units of latency 4 need eight
SHAPES = {"x86_64-v4": (16, 24), "x86_64-v3": (8, 12)}


def kernel(lanes: int, sums: int, groups: int) -> str:
    """Return the MLIR of an executable that only does multiply-adds in registers."""
    vector, memory = f"vector<{lanes}xf32>", f"memref<{sums + 1}x{lanes}xf32>"
    whole = f"tensor<{sums + 1}x{lanes}xf32>"
    rows = range(sums)
    lines = "\n".join
    starts = ", ".join(f"%s{i} = %l{i}" for i in rows)
    types, results = ", ".join([vector] * sums), ", ".join(f"%f{i}" for i in rows)
    indices = lines(f"%i{i} = arith.constant {i} : index" for i in range(sums + 1))
    loads = lines(
        f"%l{i} = vector.load %A[%i{i}, %i0] : {memory}, {vector}" for i in rows
    )
    steps = lines(f"%f{i} = vector.fma %s{i}, %m, %m : {vector}" for i in rows)
    stores = lines(
        f"vector.store %r#{i}, %C[%i{i}, %i0] : {memory}, {vector}" for i in rows
    )
    return f"""
stream.executable private @peak {{
  stream.executable.export public @peak workgroups() -> (index, index, index) {{
    %n = arith.constant {groups} : index
    %one = arith.constant 1 : index
    stream.return %n, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @peak(%a: !stream.binding, %c: !stream.binding) {{
      {indices}
      %n = arith.constant {STEPS} : index
      %A = stream.binding.subspan %a[%i0] : !stream.binding -> {memory}
      %C = stream.binding.subspan %c[%i0] : !stream.binding -> {memory}
      {loads}
      %m = vector.load %A[%i{sums}, %i0] : {memory}, {vector}
      %r:{sums} = scf.for %i = %i0 to %n step %i1 iter_args({starts}) -> ({types}) {{
        {steps}
        scf.yield {results} : {types}
      }}
      {stores}
      return
    }}
  }}
}}
func.func @main(%a: {whole}) -> {whole} {{
  %0 = flow.dispatch @peak::@peak(%a) : ({whole}) -> {whole}
  return %0 : {whole}
}}"""


def fma_peak(level: str, threads: int, clock: str) -> float:
    """Measure the peak GFLOP/s of multiply-adds on all threads."""
    import iree.runtime as iree
    from iree.compiler.tools import compile_str

    from aotc.machine.target import Target
    from aotc.runtime import engine

    lanes, sums = SHAPES[level]
    groups = 4 * threads
    flags = list(Target.parse(level).flags)
    code = compile_str(kernel(lanes, sums, groups), extra_args=flags)
    context = iree.SystemContext(
        config=iree.Config(device=engine.device("llvm-cpu", threads))
    )
    module = iree.VmModule.copy_buffer(context.instance, code)
    context.add_vm_module(module)
    main = context.modules[module.name]["main"]
    given = np.full((sums + 1, lanes), 0.5, np.float32)
    best = best_seconds(lambda: main(given).to_host(), 20, clock)
    return 2 * lanes * sums * STEPS * groups / best / 1e9


def copy_bandwidth(threads: int, clock: str) -> float:
    """Measure the GB/s of copying on all threads."""
    size = COPY // threads
    pairs = [(np.ones(size, "u1"), np.ones(size, "u1")) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            if threads == 1:
                np.copyto(*pairs[0])
            else:
                list(pool.map(lambda pair: np.copyto(*pair), pairs))

        return 2 * size * threads / best_seconds(copy, 20, clock) / 1e9


def best_seconds(call: Callable[[], object], count: int, clock: str) -> float:
    """Return the least seconds of several calls."""
    return min(seconds_of_calls(call, count, CLOCKS[clock]))


def main() -> None:
    """Measure and print the machine's peak rate and bandwidth."""
    level, threads, clock = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    gflops = fma_peak(level, threads, clock)
    print(json.dumps({"gflops": gflops, "gbytes": copy_bandwidth(threads, clock)}))


if __name__ == "__main__":
    main()
