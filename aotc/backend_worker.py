"""The process in which IREE compiles one module for one target.

    python -m aotc.backend_worker FOLDER

FOLDER holds `graph.mlirbc` (linalg), `frame.mlir` (IREE's side) and `flags.json`; the
worker adds `module.vmfb` and, last, `report.json`. Diagnostics go to standard error.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

IO_ERROR = 74  # EX_IOERR of sysexits.h: files could not be read or written


def main(folder: Path) -> int:
    """Compile what is in `folder`; 0 if a module was written."""
    start = time.perf_counter()
    from iree.compiler import api, ir, version
    from iree.compiler.api import Output, Session

    statistics = folder / "statistics.json"
    flags = json.loads((folder / "flags.json").read_text(encoding="utf-8"))
    api._initializeGlobalCL("aotc", *filter(is_process_flag, flags))
    session = Session()
    session.set_flags(
        *(flag for flag in flags if not is_process_flag(flag)),
        "--iree-scheduling-dump-statistics-format=json",
        f"--iree-scheduling-dump-statistics-file={statistics}",
    )
    with session.context, ir.Location.unknown():
        graph = ir.Module.parse((folder / "graph.mlirbc").read_bytes())
        module = ir.Module.parse((folder / "frame.mlir").read_text(encoding="utf-8"))
        merge(module, graph)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    invocation.import_module(module.operation)
    if not invocation.execute():
        return 1
    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    (folder / "module.vmfb").write_bytes(bytes(output.map_memory()))
    report = {
        "compiler": {
            "version": version.VERSION,
            "revision": version.REVISIONS["IREE"],
        },
        "statistics": summary(json.loads(statistics.read_text(encoding="utf-8"))),
        "seconds": time.perf_counter() - start,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return 0


def is_process_flag(flag: str) -> bool:
    """Whether IREE takes a flag for the whole process only, before any session."""
    return flag.startswith("--iree-codegen-")


def merge(module: Any, graph: Any) -> None:
    """Put the functions of `graph` into `module`; definitions replace declarations."""
    defined = {name_of(function) for function in graph.body if has_body(function)}
    for op in list(module.body):
        if name_of(op) in defined:
            op.detach_from_parent()
    for function in list(graph.body):
        function.detach_from_parent()
        if has_body(function):
            module.body.append(function)


def name_of(op: Any) -> str:
    """The symbol that an op defines, or nothing."""
    return str(op.attributes["sym_name"].value) if "sym_name" in op.attributes else ""


def has_body(function: Any) -> bool:
    """Whether a function is more than a declaration."""
    return len(function.regions[0].blocks) > 0


def summary(statistics: dict[str, Any]) -> dict[str, int]:
    """The counts that the manifest records; static sizes only, summed by IREE."""
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


def guarded(folder: Path) -> int:
    """`main`, where a full disk is an exit code of its own."""
    try:
        return main(folder)
    except OSError as error:
        print(error, file=sys.stderr)
        return IO_ERROR


if __name__ == "__main__":
    sys.exit(guarded(Path(sys.argv[1])))
