"""The one crossing to IREE: a linalg module in, a `.vmfb` and what it cost out.

The linalg module crosses as MLIR bytecode of upstream dialects. What only IREE knows is
written as text and added on its side, in a worker process (`aotc.backend_worker`), one
per target: globals for weights and state, and the exported functions around the graph
functions. IREE's compiler can crash on odd input; in a worker that is a diagnosed
failure.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotc import options
from aotc.backend_worker import IO_ERROR as WORKER_IO_ERROR
from aotc.dialects.functions import functions_of
from aotc.dialects.lowering import foreign
from aotc.dialects.lowering.blocks import to_blocks
from aotc.dialects.types import Tensor, lowered_type
from aotc.errors import CompileError, SetupError
from aotc.frontends.program import Entry, Program, StateSpec
from aotc.mlir import func, ir
from aotc.target import Target

SCOPE = "model"  # of the parameters in the weights archive

# For every target. The defaults of IREE drop assertions, change f64 to f32 in public
# signatures and leave reductions unvectorised; source paths would make builds differ.
# Aggressive fusion, part of O2, fails on reductions that share an operand ("operand #0
# does not dominate this use", IREE 3.13).
COMMON_FLAGS = (
    "--iree-opt-level=O2",
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-opt-strip-assertions=false",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-vm-bytecode-module-strip-source-map",
    "--iree-vm-bytecode-module-strip-debug-ops",
    "--iree-llvmcpu-debug-symbols=false",
)


@dataclass(frozen=True)
class Compiled:
    """One compiled variant.

    Args:
        target: what it was compiled for.
        vmfb: the module.
        flags: flags of the compiler, in order.
        compiler: version and revision of IREE's compiler.
        statistics: dispatches, transient bytes and the like, as IREE counts them.
        seconds: wall time of the worker.
        peak_bytes: largest resident set of the worker.
    """

    target: Target
    vmfb: bytes
    flags: tuple[str, ...]
    compiler: dict[str, str]
    statistics: dict[str, int]
    seconds: float
    peak_bytes: int


def compile_targets(
    program: Program, targets: Sequence[Target], *, dump: Path | None = None
) -> list[Compiled]:
    """Compile a program, lowered to linalg, for each target; in parallel.

    Raises:
        CompileError: the compiler refused the module, or died.
        SetupError: the compiler is not installed.
    """
    require_compiler()
    require_upstream_only(program.module)
    bytecode, frame = crossing(program)
    if dump is not None:
        (dump / "linalg.mlir").write_text(f"{program.module}\n", encoding="utf-8")
        (dump / "iree-frame.mlir").write_text(frame, encoding="utf-8")
    jobs = options.get("AOTC_JOBS") or os.cpu_count() or 1
    running: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(max_workers=min(jobs, len(targets))) as pool:
        work = [
            pool.submit(_compile, bytecode, frame, target, running)
            for target in targets
        ]
        try:
            return [future.result() for future in work]
        except BaseException:  # an interrupt, too, leaves no compiler behind
            for future in work:
                future.cancel()
            for process in tuple(running):
                process.kill()
            raise


def require_compiler() -> None:
    """Refuse to go on where IREE's compiler is not installed."""
    from importlib.util import find_spec

    if find_spec("iree") is None or find_spec("iree.compiler") is None:
        raise SetupError(
            "missing-extra",
            "compiling needs 'iree-base-compiler', which is not installed",
            hint="pip install 'aotc[compiler]'",
        )


_CROSSING = {
    "affine",
    "arith",
    "builtin",
    "cf",
    "func",
    "linalg",
    "math",
    "scf",
    "tensor",
}


def require_upstream_only(module: Any) -> None:
    """Refuse ops that IREE does not know: one of them crashes its compiler."""
    names: list[str] = []

    def visit(op: Any) -> Any:  # an error raised here would lose its type
        names.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for name in names:
        if name.partition(".")[0] not in _CROSSING:
            raise CompileError(
                "not-lowered",
                f"op '{name}' is left in the module that goes to IREE",
                hint="run the pass 'lower-to-linalg' first",
            )


# ---- what crosses -------------------------------------------------------------------


def crossing(program: Program) -> tuple[bytes, str]:
    """The graph functions as bytecode (made private), and IREE's frame around them."""
    with program.module.context, ir.Location.unknown():
        copy = ir.Module.parse(program.module.operation.get_asm(enable_debug_info=True))
        to_blocks(copy)
        for function in copy.body.operations:
            if isinstance(function, func.FuncOp) and not function.is_external:
                name = ir.StringAttr(function.attributes["sym_name"]).value
                function.attributes["sym_name"] = ir.StringAttr.get(inner_name(name))
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        buffer = io.BytesIO()
        copy.operation.write_bytecode(buffer)
        return buffer.getvalue(), frame_text(program)


def inner_name(entry: str) -> str:
    """The name of the graph function behind an entry."""
    return f"{entry}.graph"


def frame_text(program: Program) -> str:
    """IREE's side of the module: globals, entries, and access to states.

    The functions behind the entries are declared here and defined by the bytecode; for
    the bodies that only IREE can read it is the other way round.
    """
    mutable = {leaf for state in program.states for leaf in state.leaves}
    types = {
        port.name: _mlir(port.type)
        for entry in program.entries
        for port in entry.arguments
        if port.kind != "input"
    }
    lines = [_global(name, kind, name in mutable) for name, kind in types.items()]
    for entry in program.entries:
        lines += _declaration(entry) + _exported(entry)
    for state in program.states:
        lines += _reader(state) + _writer(state)
    for function in functions_of(program.module).values():
        if foreign.body_of(function) is not None:
            lines += foreign.definition(function)
    body = "\n".join(f"  {line}" for line in lines)
    return f"module @aotc {{\n{body}\n}}\n"


def _mlir(tensor: Tensor) -> str:
    return str(lowered_type(tensor))


def _global(name: str, kind: str, mutable: bool) -> str:
    access = "private mutable" if mutable else "private"
    initial = f'#flow.parameter.named<"{SCOPE}"::"{name}">'
    return f'util.global {access} @"{name}" = {initial} : {kind}'


def _declaration(entry: Entry) -> list[str]:
    operands = ", ".join(_mlir(port.type) for port in entry.arguments)
    results = ", ".join(_mlir(port.type) for port in entry.results)
    name = inner_name(entry.name)
    return [f'func.func private @"{name}"({operands}) -> ({results})']


def _exported(entry: Entry) -> list[str]:
    """The function that callers see: inputs in, outputs out, state in globals."""
    inputs = [
        f'%{i}: {_mlir(port.type)} {{iree.abi.name = "{port.name}"}}'
        for i, port in enumerate(entry.arguments)
        if port.kind == "input"
    ]
    outputs = [
        f"%r{i}" for i, port in enumerate(entry.results) if port.kind == "output"
    ]
    output_types = [_mlir(port.type) for port in entry.ports("output")]
    signature = f"({', '.join(inputs)}) -> ({', '.join(output_types)})"
    lines = [f"func.func @{entry.name}{signature} {{"]
    lines += [
        f'  %{i} = util.global.load @"{port.name}" : {_mlir(port.type)}'
        for i, port in enumerate(entry.arguments)
        if port.kind != "input"
    ]
    operands = ", ".join(f"%{i}" for i in range(len(entry.arguments)))
    operand_types = ", ".join(_mlir(port.type) for port in entry.arguments)
    results = ", ".join(f"%r{i}" for i in range(len(entry.results)))
    result_types = ", ".join(_mlir(port.type) for port in entry.results)
    name = inner_name(entry.name)
    assigned = f"{results} = " if results else ""
    lines.append(
        f'  {assigned}func.call @"{name}"({operands}) : '
        f"({operand_types}) -> ({result_types})"
    )
    lines += [
        f'  util.global.store %r{i}, @"{port.name}" : {_mlir(port.type)}'
        for i, port in enumerate(entry.results)
        if port.kind == "state"
    ]
    return [*lines, f"  {_return(outputs, output_types)}", "}"]


def _return(values: Sequence[str], types: Sequence[str]) -> str:
    if not values:
        return "return"
    return f"return {', '.join(values)} : {', '.join(types)}"


def reader_name(state: str) -> str:
    """The exported function that returns the leaves of a state."""
    return f"{state}__read"


def writer_name(state: str) -> str:
    """The exported function that replaces the leaves of a state."""
    return f"{state}__write"


def _reader(state: StateSpec) -> list[str]:
    types = [_mlir(tensor) for tensor in state.types]
    loads = [
        f'  %{i} = util.global.load @"{leaf}" : {kind}'
        for i, (leaf, kind) in enumerate(zip(state.leaves, types, strict=True))
    ]
    values = [f"%{i}" for i in range(len(types))]
    head = f"func.func @{reader_name(state.name)}() -> ({', '.join(types)}) {{"
    return [head, *loads, f"  {_return(values, types)}", "}"]


def _writer(state: StateSpec) -> list[str]:
    pairs = list(zip(state.leaves, map(_mlir, state.types), strict=True))
    arguments = ", ".join(f"%{i}: {kind}" for i, (_, kind) in enumerate(pairs))
    stores = [
        f'  util.global.store %{i}, @"{leaf}" : {kind}'
        for i, (leaf, kind) in enumerate(pairs)
    ]
    head = f"func.func @{writer_name(state.name)}({arguments}) {{"
    return [head, *stores, "  return", "}"]


# ---- the worker ---------------------------------------------------------------------


def target_flags(target: Target) -> tuple[str, ...]:
    """All flags that the compiler gets for a target, in order."""
    return (*target.flags, *COMMON_FLAGS)


def _compile(
    bytecode: bytes,
    frame: str,
    target: Target,
    running: set[subprocess.Popen[str]],
) -> Compiled:
    flags = target_flags(target)
    with tempfile.TemporaryDirectory(prefix="aotc-") as folder:
        root = Path(folder)
        (root / "graph.mlirbc").write_bytes(bytecode)
        (root / "frame.mlir").write_text(frame, encoding="utf-8")
        (root / "flags.json").write_text(json.dumps(flags), encoding="utf-8")
        code, log = _run_worker(folder, running)
        if code == WORKER_IO_ERROR:
            raise SetupError(
                "no-space",
                f"the compiler could not write its files: {log.strip()}",
                where=folder,
                hint="free some space, or set TMPDIR to a folder that has it",
            )
        if code != 0 or not (root / "report.json").is_file():
            raise _compile_failure(target, code, log)
        report = json.loads((root / "report.json").read_text(encoding="utf-8"))
        return Compiled(
            target=target,
            vmfb=(root / "module.vmfb").read_bytes(),
            flags=flags,
            compiler=report["compiler"],
            statistics=report["statistics"],
            seconds=report["seconds"],
            peak_bytes=report["peak_bytes"],
        )


def _run_worker(folder: str, running: set[subprocess.Popen[str]]) -> tuple[int, str]:
    """Exit code and diagnostics of the compiler on the files in `folder`."""
    with subprocess.Popen(
        [sys.executable, "-m", "aotc.backend_worker", folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        running.add(process)
        try:
            _, log = process.communicate()
        finally:
            running.discard(process)
    return process.returncode, log


# `loc(callsite("model.py":48:0 at …)): error: what is wrong`
_DIAGNOSTIC = re.compile(r"^(?P<place>.*?): error: (?P<message>.*)$", re.MULTILINE)
_PLACE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+)')


def _compile_failure(target: Target, code: int, log: str) -> CompileError:
    """One message out of the compiler's output; the whole of it is kept in a file."""
    kept = _keep(target, log)
    if code < 0:
        cause = f"IREE's compiler died of {_signal_name(-code)}"
        return CompileError(
            "compiler-crashed", f"{cause} for target '{target}'", hint=f"log: {kept}"
        )
    found = _DIAGNOSTIC.search(log)
    place = _PLACE.search(found["place"]) if found else None
    message = (
        found["message"] if found else (log.strip().splitlines() or ["no output"])[-1]
    )
    return CompileError(
        "compile-failed",
        f"IREE could not compile for target '{target}': {message[:400]}",
        where=f"{place['file']}:{place['line']}" if place else None,
        hint=f"log: {kept}",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _keep(target: Target, log: str) -> Path:
    file = Path(tempfile.mkdtemp(prefix="aotc-log-")) / f"{target.id}.log"
    file.write_text(log, encoding="utf-8")
    return file
