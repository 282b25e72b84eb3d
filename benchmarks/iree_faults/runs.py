"""Witnesses of faults that no module alone shows: a few lines of Python each."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import iree.compiler
import iree.runtime
import numpy as np

from .witnesses import Differs, Source, load

_CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
)
_UNREGISTERED = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "graph.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
_LEVEL = "--iree-opt-level=O2"


def compile_unregistered_op() -> None:
    """Compile a module with an op of a dialect that IREE does not know."""
    from iree.compiler import ir
    from iree.compiler.api import Session

    session = Session()
    session.set_flags(*_CPU)
    session.context.allow_unregistered_dialects = True
    with session.context, ir.Location.unknown():
        module = ir.Module.parse(_UNREGISTERED)
    invocation = session.invocation()
    invocation.import_module(module.operation)
    invocation.execute()


def compile_at_a_level_after_process_flags() -> str | None:
    """Return a message if O2 is ignored after process-wide flags; None if not."""
    from iree.compiler import api

    api._initializeGlobalCL("aotc")
    source = Source("sums-of-rows")
    flags = [flag for flag in source.arguments if flag != _LEVEL]
    if _compiled(source, [*flags, _LEVEL]) != _compiled(source, flags):
        return None
    return "O2 gives the code of O0"


def _compiled(source: Source, flags: list[str]) -> bytes:
    """Return the code of a source, compiled with flags."""
    from iree.compiler import api

    session = api.Session()
    session.set_flags(*flags)
    invocation = session.invocation()
    text = source.path.read_bytes() + b"\0"
    invocation.parse_source(api.Source.wrap_buffer(session, text))
    if not invocation.execute():
        raise Differs("it is refused")
    output = api.Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory())


def compile_the_sum_of_all_of_a_product() -> str | None:
    """Compile `mean(x @ x.T)` without a barrier; return IREE's refusal or None.

    Not a module alone: sums are split into blocks between two phases of IREE.
    """
    from aotc import numpy as anp
    from aotc.passes import lower_to_linalg

    assert lower_to_linalg.products_reduced_over_symbols
    lower_to_linalg.products_reduced_over_symbols = lambda block: set()
    return _build_refusal(lambda x: anp.mean(x @ x.T), ("n", 5), "stack allocation")


def compile_many_sums_before_a_long_one() -> str | None:
    """Compile a sum over three axes, two of unknown size; return IREE's refusal or
    None.
    """
    from aotc import numpy as anp
    from aotc.dialects.ops import reduction

    assert reduction.with_few_axes
    reduction.with_few_axes = lambda low, x, kind, axes: (x, kind, [*axes])
    return _build_refusal(anp.sum, ("n", "m", 8), "stack allocation")


def compile_sums_around_an_axis() -> str | None:
    """Compile a sum over the axes around a kept one; return IREE's refusal or None."""
    from aotc import numpy as anp

    shape = ("n", 64, 64)
    return _build_refusal(lambda x: anp.sum(x * x, (0, 2)), shape, "stack allocation")


def compile_a_mean_of_losses() -> str | None:
    """Compile the mean of the losses of tokens, which are sums; return IREE's refusal
    or None.
    """
    from aotc import nn
    from aotc import numpy as anp
    from aotc.passes import lower_to_linalg

    assert lower_to_linalg.reductions_reduced_again
    lower_to_linalg.reductions_reduced_again = lambda block: set()

    def mean_loss(x: Any) -> Any:
        return nn.cross_entropy(x, anp.astype(x[:, :, 0], "i32")).mean()

    return _build_refusal(mean_loss, ("n", 64, 128), "large vector sizes")


def _build_refusal(
    function: Callable[[Any], Any], shape: tuple[Any, ...], message: str
) -> str | None:
    """Build a function; return IREE's refusal with this message, None if it compiles.

    Raises:
        Differs: that is not the message.
    """
    import aotc
    from aotc import backend
    from aotc.backend import compile_targets
    from aotc.errors import CompileError
    from aotc.machine.target import Target
    from aotc.pipeline import lower
    from aotc.tracing.assembly import trace

    backend.with_fewer_vectors = lambda flags: iter([flags])

    @aotc.entry(x=aotc.Spec(shape))
    def entry(x: Any) -> Any:
        return function(x)

    target = Target.parse("x86_64-v3")
    try:
        compile_targets(lower(trace([entry], {}), target), [target])
    except CompileError as error:
        if message not in error.message:
            raise Differs(error.message) from error
        return f"IREE says: {error.message.partition(': ')[2]}"
    return None


def compile_known_numbers() -> str | None:
    """Compare compile times of a chain on constants and on arguments; describe a
    slowdown.
    """
    known, given = (_seconds_to_compile(_chain(is_known=k)) for k in (True, False))
    told = f"{known:.1f} s of a processor, and {given:.1f} s where a call gives them"
    return told if known > 5 * given else None


def _chain(*, is_known: bool, length: int = 60) -> str:
    """Return a module that computes 12 numbers by `length` ops in a row."""
    kind = "tensor<12xi32>"
    known = f"arith.constant dense<{list(range(12))}> : {kind}"
    ops = [f"  %v0 = {known if is_known else f'tensor.cast %x : {kind} to {kind}'}"]
    ops += ["  %empty = tensor.empty() : tensor<12xi32>"]
    for number in range(1, length):
        sources = f"%v{number - 1}, %v{max(number - 3, 0)}"
        ops += _elementwise(
            f"%v{number}", sources, ("addi", "xori", "muli")[number % 3]
        )
    ops += _elementwise("%y", f"%v{length - 1}, %x", "addi")
    head = f"func.func @main(%x: {kind}) -> {kind} {{"
    return "\n".join([head, *ops, f"  return %y : {kind}", "}"])


def _elementwise(name: str, sources: str, op: str) -> list[str]:
    """Return the MLIR lines of an elementwise op on 12 integers."""
    same = "affine_map<(d0) -> (d0)>"
    maps, kind = f"indexing_maps = [{same}, {same}, {same}]", "tensor<12xi32>"
    return [
        f'  {name} = linalg.generic {{{maps}, iterator_types = ["parallel"]}}',
        f"      ins({sources} : {kind}, {kind}) outs(%empty : {kind}) {{",
        "  ^bb0(%e: i32, %f: i32, %_: i32):",
        f"    %r = arith.{op} %e, %f : i32",
        "    linalg.yield %r : i32",
        f"  }} -> {kind}",
    ]


def _seconds_to_compile(text: str) -> float:
    """Return the processor time that IREE's compiler takes for a module."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    iree.compiler.compile_str(text, extra_args=Source("").arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime


def compile_without_a_temporary_folder() -> str | None:
    """Compile with a missing temporary folder; describe a failure, or None."""
    source = Source("sums-of-rows")
    code = f"from benchmarks.iree_faults.witnesses import Source; {source!r}.compile()"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": "/nowhere"},
        capture_output=True,
        check=False,
    )
    return None if ended.returncode == 0 else "the compiler fails"


def scatter_into_an_argument() -> str | None:
    """Call a scatter into an argument; describe a change of the argument, or None."""
    config = iree.runtime.Config("local-sync")
    x = iree.runtime.asdevicearray(config.device, np.zeros((8, 1), np.float32))
    code = Source("scatter-into-an-argument").compile()
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, code)
    scatter = iree.runtime.load_vm_module(module, config).main
    scatter(x, np.ones((3, 1), np.float32), np.array([[0], [1], [2]], np.int32))
    return "the argument is changed" if x.to_host().any() else None


def scatter_out_of_bounds() -> None:
    """Scatter to a row far beyond an empty table."""
    scatter = load(Source("scatter-out-of-bounds").compile()).main
    rows = np.array([[100_000_000], [1], [2]], np.int32)
    scatter(np.zeros((0, 1), np.float32), np.ones((3, 1), np.float32), rows)


def read_from_an_empty_axis() -> None:
    """Gather from an array with an empty axis at computed indices."""
    read = load(Source("reads-of-nothing").compile()).main
    read(np.zeros((7, 0), np.float32))


def view_of_mapped_memory() -> str | None:
    """Describe if a view does not keep mapped memory alive; None if it does."""
    config = iree.runtime.Config("local-sync")
    held = iree.runtime.asdevicearray(config.device, np.ones((8, 4), np.float32))
    memory = held._buffer_view.map()
    before = sys.getrefcount(memory)
    array: Any = memory.asarray((8, 4), np.dtype(np.float32))
    view = array[2:3]
    del array
    is_kept = sys.getrefcount(memory) > before
    return None if is_kept and view.size else "the view does not keep the memory"


def signed_maximum_on_gpus() -> str | None:
    """Describe a wrong maximum of signed integers in GPU code; None if it is right."""
    flag = "--iree-codegen-llvmgpu-use-reduction-vector-distribution"
    source = Source("signed-maximum-on-gpus", "cuda:sm_80", without=(flag,))
    found = re.search(rb"max\.s32\s[^;]*, 0;", source.compile())
    return None if found is None else f"the code has {found[0].decode()!r}"
