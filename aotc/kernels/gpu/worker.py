"""Compiles kernels in a process of its own, so that Triton's crashes do not end aotc.

`python -m aotc.kernels.gpu.worker FOLDER PARENT` reads `job.json` in the folder, and
writes of each kernel the code, and then, as JSON, what is to be told of it, or why
there is none. A kernel of which neither is there is what the process died of.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from aotc.errors import CompileError
from aotc.kernels.gpu.compiling import (
    GpuCode,
    KernelSource,
    compile_kernel,
    resources_of,
)

_JOB = "job.json"
_MOST_WARPS = 16
_MOST_SPILLED = 256  # bytes of a thread, which the first cache has


def write_job(
    folder: Path, sources: Sequence[KernelSource], settings: Mapping[str, object]
) -> None:
    """Write a worker's input file: kernels and the arguments of `compile_source`."""
    rows = [asdict(each) for each in sources]
    text = json.dumps({"sources": rows, **settings})
    (folder / _JOB).write_text(text, encoding="utf-8")


def read_result(folder: Path, number: int) -> GpuCode | str | None:
    """Return a worker's code for a kernel, or the error; None if it crashed there."""
    file = folder / f"{number}.json"
    if not file.is_file():
        return None
    facts = json.loads(file.read_text(encoding="utf-8"))
    if "error" in facts:
        return str(facts["error"])
    return GpuCode((folder / f"{number}.code").read_bytes(), **facts)


def main(folder: Path) -> int:
    """Compile the kernels of a job, writing a result file for each; return 0."""
    job = json.loads((folder / _JOB).read_text(encoding="utf-8"))
    rows = job.pop("sources")
    for number, row in enumerate(rows):
        try:
            found = compile_source(KernelSource(**row), **job)
        except CompileError as error:
            facts: dict[str, Any] = {"error": error.message}
        else:
            (folder / f"{number}.code").write_bytes(found.code)
            facts = asdict(replace(found, code=b""))
            del facts["code"]
        aside = folder / f"{number}.part"
        aside.write_text(json.dumps(facts), encoding="utf-8")
        aside.rename(folder / f"{number}.json")
    return 0


def compile_source(
    source: KernelSource, arch: str, numerics: str, most_shared: int
) -> GpuCode:
    """Compile a kernel for a chip, with more warps if registers spill.

    Raises:
        CompileError: `kernel-not-compiled`: Triton refuses it, or it spills anyway.
    """
    tried = []
    most = max(_MOST_WARPS, source.warps)
    for warps in sorted({source.warps, min(2 * source.warps, most), most}):
        made = compile_kernel(replace(source, warps=warps), arch, numerics, most_shared)
        found = resources_of(made, arch)
        made = replace(made, registers=found.registers, spilled=found.spilled)
        tried.append((found.spilled, made))
        if not found.spilled:
            break
    least, best = min(tried, key=itemgetter(0))
    if least > _MOST_SPILLED:
        raise CompileError(
            "kernel-not-compiled",
            f"'{source.name}' has no room for {least} bytes of a thread in the "
            f"registers of {arch}, by up to {_MOST_WARPS} warps",
        )
    return best


if __name__ == "__main__":
    from aotc.worker.parent import end_with

    end_with(int(sys.argv[2]))
    sys.exit(main(Path(sys.argv[1])))
