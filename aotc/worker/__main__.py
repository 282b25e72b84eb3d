"""Do one job of compiling: see `aotc.worker`."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.worker import IO_ERROR, constants, memory
from aotc.worker.alignment import unaligned_kernels
from aotc.worker.host_code import HostCode
from aotc.worker.parent import end_with
from aotc.worker.rewrites import Runner

if TYPE_CHECKING:
    from iree.compiler import ir
    from iree.compiler.api import Invocation, Session


def main(folder: Path) -> int:
    """Compile the job in `folder` with IREE and write its outputs there; return 0 on
    success.
    """
    start = time.perf_counter()
    from iree.compiler import api, version

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    os.chdir(folder)  # where IREE finds the objects of executables
    flags, plans, is_mapped = job["flags"], job["plans"], job["is_mapped"]
    rewrites = Runner(job)
    api._initializeGlobalCL("aotc", *filter(is_process_flag, flags))
    module, kernels, invocation = compiled_to_stream(folder, rewrites, flags)
    if module is not None and is_mapped and constants.excess_message(module):
        flags, rewrites = [*flags, *job["smaller_steps"]], Runner(job)
        module, kernels, invocation = compiled_to_stream(folder, rewrites, flags)
    if module is None:
        return 1
    if is_mapped and (refusal := constants.excess_message(module)):
        print(refusal, file=sys.stderr)
        return 1
    unaligned = unaligned_kernels(module) if job["device_kernels"] else []
    if not run_rewrites(rewrites, "stream", module):
        return 1
    host = HostCode(module)
    report: dict[str, Any] = {
        "flags": flags,
        "unaligned": unaligned,
        "memory": {
            name: entry_memory(host, name, plans[name], is_mapped) for name in plans
        },
    }
    if not job["only_plans"]:
        inline_kernels(module, kernels)
        for phase, ends in TO_THE_END:
            if not run_phases(invocation, module, phase, *ends):
                return 1
            if not run_rewrites(rewrites, ends[-1], module):
                return 1
        write_module(invocation, folder / "module.vmfb")
        statistics = json.loads((folder / _STATISTICS).read_text(encoding="utf-8"))
        report |= {
            "compiler": {
                "version": version.VERSION,
                "revision": version.REVISIONS["IREE"],
            },
            "statistics": summary(statistics),
        }
    report |= {
        "rewrites": rewrites.records,
        "seconds": time.perf_counter() - start,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return 0


_STATISTICS = "statistics.json"
# phases after which a module is looked at: of the first, LLVM makes machine code
TO_THE_END = ("stream", ("executable-targets", "hal")), ("hal", ("end",))


def compiled_to_stream(
    folder: Path, rewrites: Runner, flags: list[str]
) -> tuple[ir.Module | None, ir.Module, Invocation]:
    """Compile a module with IREE up to its phase `stream`; return module, kernels,
    invocation.

    Returns:
        The module, which is None if it could not be compiled (diagnostics are on
        standard error), the kernels whose bodies it lacks, and the invocation.
    """
    from iree.compiler.api import Session

    session = Session()
    session.set_flags(
        *(flag for flag in flags if not is_process_flag(flag)),
        "--iree-scheduling-dump-statistics-format=json",
        f"--iree-scheduling-dump-statistics-file={folder / _STATISTICS}",
    )
    module, kernels = load_module(session, folder)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    invocation.import_module(module.operation)
    leave_out_verification(invocation)
    done = (
        run_phases(invocation, module, "start", "global-optimization")
        and run_rewrites(rewrites, "global-optimization", module)
        and run_phases(invocation, module, "global-optimization", "stream")
    )
    return module if done else None, kernels, invocation


def load_module(session: Session, folder: Path) -> tuple[ir.Module, ir.Module]:
    """Parse the graph and IREE's frame; return them merged, and the module of kernel
    bodies.
    """
    from iree.compiler import ir

    with session.context, ir.Location.unknown():
        graph = ir.Module.parse((folder / "graph.mlirbc").read_bytes())
        module = ir.Module.parse((folder / "frame.mlir").read_text(encoding="utf-8"))
        merge(module, graph)
        return module, graph


def leave_out_verification(invocation: Invocation) -> None:
    """Turn off IREE's verification of the module after each of its passes.

    The wheel's Python classes leave out this function of the C interface, and those of
    `run_phases`.
    """
    from iree.compiler.api import ctypes_dl

    function = ctypes_dl._dylib.ireeCompilerInvocationSetVerifyIR
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_bool], None
    function(invocation._inv_p, False)


def run_rewrites(rewrites: Runner, after: str, module: Any) -> bool:
    """Run aotc's passes that follow an IREE phase; return False for an invalid module.

    Returns:
        Whether they left a valid module, where each pass of aotc's is verified.
    """
    rewrites.run(after, module)
    return not rewrites.job["verifies_each"] or is_valid(module)


def run_phases(
    invocation: Invocation, module: ir.Module, after: str, *ends: str
) -> bool:
    """Run IREE's phases up to each of `ends`; return whether the module is valid after
    each.

    Returns:
        Whether it went well, and left a valid module each time.
    """
    from iree.compiler.api import ctypes_dl

    library, handle = ctypes_dl._dylib, ctypes.c_void_p(invocation._inv_p)
    for last in ends:
        library.ireeCompilerInvocationSetCompileFromPhase(handle, after.encode())
        library.ireeCompilerInvocationSetCompileToPhase(handle, last.encode())
        if not (invocation.execute() and is_valid(module)):
            return False
        after = last
    return True


def is_valid(module: ir.Module) -> bool:
    """Verify a module; print the fault to standard error and return False if there
    is one.
    """
    from iree.compiler import ir

    try:
        module.operation.verify()
    except ir.MLIRError as error:
        print(error, file=sys.stderr)
        return False
    return True


def entry_memory(
    host: HostCode, entry: str, sizes: dict[str, Any], is_mapped: bool
) -> dict[str, object] | None:
    """Return an entry's peak device memory as JSON; None if it depends on data.

    Args:
        host: the code of its module.
        entry: its name.
        sizes: `shapes`, those of the inputs in some calls, and `bounds`, of each size.
        is_mapped: see `memory.plan`.

    Returns:
        `resident_bytes`, `peak_bytes`, `bound`: `exact`, the most that a call takes;
        `upper`, what no call exceeds; `tried`, the most of the calls that are given;
        and `call`, which of these takes most.
    """
    shapes = sizes["shapes"]
    try:
        plans = [memory.plan(host, entry, x, is_mapped=is_mapped) for x in shapes]
    except memory.UnknownMemory:
        return None
    worst = max(plans, key=lambda plan: plan.peak)
    kind, found = "exact", worst
    if len(plans) > 1:
        try:
            most = memory.bound(host, entry, sizes["bounds"], is_mapped=is_mapped)
            kind, found = ("exact" if most == worst else "upper"), most
        except memory.UnknownMemory:
            kind = "tried"
    return {
        "resident_bytes": found.resident,
        "peak_bytes": found.peak,
        "bound": kind,
        "call": plans.index(worst),
    }


def write_module(invocation: Invocation, file: Path) -> None:
    """Write the compiled module's VM bytecode to a file."""
    from iree.compiler.api import Output

    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    file.write_bytes(bytes(output.map_memory()))


def is_process_flag(flag: str) -> bool:
    """Return whether IREE takes a flag for the whole process only, before any session.

    Once a process has flags, sessions do not take the level of optimisation.
    """
    own = (
        "--iree-codegen-",
        "--iree-hal-force-",
        "--iree-llvmcpu-vector-pproc-",
        "--iree-opt-level=",
        "--iree-plugin=",
    )
    return flag.startswith(own)


def merge(module: ir.Module, graph: ir.Module) -> None:
    """Move the functions of `graph` into `module`; definitions replace declarations.

    Kernels are left in `graph`, see `inline_kernels`.
    """
    defined = {name_of(function) for function in graph.body if has_body(function)}
    for op in list(module.body):
        if name_of(op) in defined and not is_executable(op):
            op.detach_from_parent()
    for function in list(graph.body):
        if is_kernel(function):
            continue
        function.detach_from_parent()
        if has_body(function):
            module.body.append(function)


def is_executable(op: ir.Operation) -> bool:
    """Return whether an op is an executable that dispatches a kernel of aotc's."""
    return bool(op.operation.name == "stream.executable")


def is_kernel(op: ir.Operation) -> bool:
    """Return whether an op of the graph module holds the body of a kernel."""
    return bool(op.operation.name == "builtin.module")


def inline_kernels(module: ir.Module, graph: ir.Module) -> None:
    """Inline the bodies of kernels at the calls in their executables.

    Up to the phase `stream` IREE's passes over whole modules, which are over a hundred,
    have nothing to do in kernels: they would walk, verify and simplify each of their
    ops again, which took half of the time of a build.
    """
    executables = {name_of(op): op for op in module.body if is_executable(op)}
    for holder in list(graph.body):
        if is_kernel(holder) and name_of(holder) in executables:
            inline_kernel(holder, executables[name_of(holder)])


def inline_kernel(holder: ir.Operation, executable: ir.Operation) -> None:
    """Inline a kernel's body at the call in its executable; erase the call."""
    (kernel,) = holder.regions[0].blocks[0].operations
    parts = executable.regions[0].blocks[0].operations
    (inner,) = (op for op in parts if op.operation.name == "builtin.module")
    functions = list(inner.regions[0].blocks[0].operations)
    (declared,) = (op for op in functions if name_of(op) == name_of(kernel))
    (caller,) = (op for op in functions if has_body(op))
    (call,) = (
        op
        for op in caller.regions[0].blocks[0].operations
        if op.operation.name == "func.call"
    )
    body = kernel.regions[0].blocks[0]
    for argument, value in zip(body.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(value)
    *ops, _ = body.operations
    for op in ops:
        op.operation.move_before(call.operation)
    call.operation.erase()
    declared.operation.erase()


def name_of(op: ir.Operation) -> str:
    """Return the symbol name that an op defines, or ""."""
    return str(op.attributes["sym_name"].value) if "sym_name" in op.attributes else ""


def has_body(function: ir.Operation) -> bool:
    """Return whether a function is more than a declaration."""
    return len(function.regions[0].blocks) > 0


def summary(statistics: dict[str, Any]) -> dict[str, int]:
    """Return the counts of IREE's scheduling statistics that the manifest records."""
    whole = statistics["stream-aggregate"]
    execution = whole["execution"]
    return {
        "dispatches": execution["dispatch-count"],
        "executables": whole["executable"]["executable-count"],
        "fills": execution["fill-count"],
        "copies": execution["copy-count"],
        "submissions": execution["submission-count"],
        "awaits": whole["synchronization"]["await-count"],
        "static_transient_bytes": execution["transient-memory-size"],
    }


def exit_status(folder: Path) -> int:
    """Run `main`; return its status, or IO_ERROR if files cannot be read or written."""
    try:
        return main(folder)
    except OSError as error:
        print(error, file=sys.stderr)
        return IO_ERROR


if __name__ == "__main__":
    end_with(int(sys.argv[2]))
    sys.exit(exit_status(Path(sys.argv[1])))
