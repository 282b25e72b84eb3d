"""Modules that a run of the tests has compiled, shared by all who compile equal ones.

Equal is what the cache of builds takes for equal: all that IREE's compiler reads, but
for places in the user's source where the code is native. What a worker process would
be asked is answered from a folder, so counters, caches and reports are as ever.
"""

import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

from aotc import backend
from aotc.artifacts.backends import BACKENDS
from aotc.mlir import ir


class CompiledModules:
    """Stands in for the function of `aotc.backend` that runs a worker.

    Args:
        folder: of the run, which its processes share.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.compile = backend._run

    def __call__(self, job: Any, running: Any) -> Any:
        """What the worker reports of a module, and the module."""
        file = self._folder / _digest(job)
        if file.exists() and not job.settings["dump"]:  # which is for the worker
            return pickle.loads(file.read_bytes())
        found = self.compile(job, running)
        written = file.with_suffix(f".{os.getpid()}")
        written.write_bytes(pickle.dumps(found))
        written.rename(file)  # whole, whoever looks
        return found


def _digest(job: Any) -> str:
    bytecode, frame = job.crossed
    has_places = BACKENDS[job.target.backend].is_portable
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(bytecode)
        text = module.operation.get_asm(enable_debug_info=has_places)
    settings = {**job.settings, "dump": None}
    read = json.dumps([text, frame, settings], sort_keys=True)
    return hashlib.sha256(read.encode()).hexdigest()
