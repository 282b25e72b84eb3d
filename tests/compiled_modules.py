"""Modules that tests have compiled, shared by all who compile equal ones.

Equal is what the cache of builds takes for equal: all that IREE's compiler reads, but
for places in the user's source where the code is native, with IREE's release and the
code of aotc that is around it. What a worker process would be asked is answered from a
folder, so counters, caches and reports are as ever.
"""

import hashlib
import json
import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

from aotc import backend
from aotc.artifacts.backends import BACKENDS
from aotc.backend.reuse import _toolchain
from aotc.mlir import ir

MOST_BYTES = 2 << 30  # that are kept from run to run


class CompiledModules:
    """Stands in for the function of `aotc.backend` that runs a worker.

    Args:
        folder: of the run, which its processes share.
        kept: that runs share; None for none. Modules with kernels for GPUs are not in
            it, as tests put other compilers in the place of theirs.
    """

    def __init__(self, folder: Path, kept: Path | None = None) -> None:
        self._folder = folder
        self._kept = kept or folder
        self.compile = backend._run

    def __call__(self, job: Any, running: Any) -> Any:
        """Return the worker's report of a module, and the module."""
        folder = self._folder if job.device_kernels else self._kept
        file = folder / _digest(job)
        if not job.settings["dump"]:  # which is for the worker
            with suppress(FileNotFoundError):
                os.utime(file)
                return pickle.loads(file.read_bytes())
        found = self.compile(job, running)
        written = file.with_suffix(f".{os.getpid()}")
        written.write_bytes(pickle.dumps(found))
        written.rename(file)  # whole, whoever looks
        return found


def remove_unused(folder: Path, most: int = MOST_BYTES) -> None:
    """Remove the modules unused for longest, until at most so many bytes remain."""
    found = [(file.stat(), file) for file in folder.iterdir()]
    for stat, file in sorted(found, key=lambda each: -each[0].st_mtime):
        most -= stat.st_size
        if most < 0:
            file.unlink(missing_ok=True)


def _digest(job: Any) -> str:
    bytecode, frame = job.crossed
    has_places = BACKENDS[job.target.backend].is_portable
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(bytecode)
        text = module.operation.get_asm(enable_debug_info=has_places)
    settings = {**job.settings, "dump": None}
    read = json.dumps([text, frame, settings, _toolchain()], sort_keys=True)
    return hashlib.sha256(read.encode()).hexdigest()
