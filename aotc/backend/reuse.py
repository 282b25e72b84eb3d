"""Compiled modules in the cache: by what the compiler reads, and by the compiler.

The module counts as text without the places in the user's source, which leave no trace
in native code: a comment more in a model compiles nothing again. Portable code (vmvx)
keeps line numbers, so there they count (IREE 3.13; a test compiles both).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aotc import worker
from aotc.cache import Cache, Recipe, digest, sources_digest
from aotc.frontends.program import Program
from aotc.mlir import ir
from aotc.target import Target

# what the worker reports of the module, and not of its own work
_FACTS = ("flags", "compiler", "statistics", "memory")


class Modules:
    """The modules of one program, by target.

    Args:
        cache: where they are kept.
        program: lowered to linalg.
        crossed: what IREE gets of it: bytecode, and the frame as text.
    """

    def __init__(
        self, cache: Cache, program: Program, crossed: tuple[bytes, str]
    ) -> None:
        self._cache = cache
        self._names = ", ".join(entry.name for entry in program.entries)
        # before the threads that ask: a context of MLIR is for one at a time
        self._models = {
            with_places: _model_digest(program, crossed, with_places)
            for with_places in (False, True)
        }

    def find(
        self, target: Target, job: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bytes] | None:
        """What the worker reported of the module, and the module."""
        value = self._cache.find(self._recipe(target, job))
        if value is None:
            return None
        report, _, vmfb = value.partition(b"\n")
        return json.loads(report), vmfb

    def why_missing(self, target: Target, job: Mapping[str, Any]) -> str:
        """`miss`, and what is new since a module of this kind was made."""
        return f"miss ({self._cache.why_missing(self._recipe(target, job))})"

    def keep(
        self,
        target: Target,
        job: Mapping[str, Any],
        report: Mapping[str, Any],
        vmfb: bytes,
    ) -> str:
        """Keep a module; what to add to the reason of the miss if that fails."""
        facts = json.dumps({name: report[name] for name in _FACTS}, sort_keys=True)
        failure = self._cache.keep(
            self._recipe(target, job), facts.encode() + b"\n" + vmfb
        )
        return f", not kept: {failure}" if failure else ""

    def _recipe(self, target: Target, job: Mapping[str, Any]) -> Recipe:
        return Recipe(
            "module",
            f"{target}: {self._names}",
            {
                "model": self._models[target.backend == "vmvx"],
                "sizes": digest(json.dumps(job["plans"], sort_keys=True)),
                "flags": digest(*job["flags"]),
                "flags for smaller steps": digest(*job["smaller_steps"]),
                "block of sums": str(job["sum_block"]),
                **_toolchain(),
            },
        )


def _model_digest(
    program: Program, crossed: tuple[bytes, str], with_places: bool
) -> str:
    bytecode, frame = crossed
    with program.module.context:
        module = ir.Module.parse(bytecode)
        text = module.operation.get_asm(enable_debug_info=with_places)
    return digest(text, frame)


@cache
def _toolchain() -> dict[str, str]:
    """IREE's compiler, and the code of aotc around it."""
    return {
        "IREE": digest(stated_version("iree.compiler")),
        "aotc": digest(
            sources_digest(Path(worker.__file__).parent),
            sources_digest(Path(__file__).parent),
        ),
    }


def stated_version(package: str) -> bytes:
    """The file in which a package of IREE's states its release and revision.

    Read and not imported: the compiler's brings all of it into this process.
    """
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (folder,) = spec.submodule_search_locations
    return (Path(folder) / "version.py").read_bytes()
