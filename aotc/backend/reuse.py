"""Compiled modules in the cache, by the compiler's input and version.

The module counts as text without the places in the user's source, which leave no trace
in native code: a comment more in a model compiles nothing again. Portable code (vmvx)
keeps line numbers, so there they count (IREE 3.13; a test compiles both).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from aotc import worker
from aotc.artifacts.backends import BACKENDS
from aotc.core.cache import Cache, CacheRecipe, digest, sources_digest
from aotc.core.json_values import JsonObject
from aotc.mlir import ir
from aotc.passes.base import Unit

# what the worker reports of the module, and not of its own work
_FACTS = ("flags", "compiler", "statistics", "memory", "rewrites", "device_kernels")


@dataclass(frozen=True)
class KeptModule:
    """The cache entry of a program's module for a target."""

    cache: Cache
    recipe: CacheRecipe

    @classmethod
    def of(
        cls,
        cache: Cache,
        unit: Unit,
        crossed: tuple[bytes, str],
        settings: JsonObject,
    ) -> KeptModule:
        """Return the cache entry for the module of a lowered program.

        Args:
            cache: what keeps it.
            unit: the program, and its target.
            crossed: what IREE gets of it: bytecode, and the frame as text.
            settings: for the worker that compiles it.
        """
        target = unit.target
        assert target is not None
        names = ", ".join(entry.name for entry in unit.program.entries)
        parts = {
            "model": _model_digest(unit, crossed, BACKENDS[target.backend].is_portable),
            "sizes": digest(json.dumps(settings["plans"], sort_keys=True)),
            "flags": digest(*settings["flags"]),
            "flags for smaller steps": digest(*settings["smaller_steps"]),
            "block of sums": str(settings["sum_block"]),
            **settings["device_kernels"],
            **_toolchain(),
        }
        return cls(cache, CacheRecipe("module", f"{target}: {names}", parts))

    def find(self) -> tuple[JsonObject, bytes] | None:
        """Return the cached report and module, or None."""
        value = self.cache.find(self.recipe)
        if value is None:
            return None
        report, _, vmfb = value.partition(b"\n")
        return json.loads(report), vmfb

    @contextmanager
    def lock(
        self, is_stopped: Callable[[], bool]
    ) -> Iterator[tuple[JsonObject, bytes] | None]:
        """Lock the cache entry within the `with` block; yield what has been cached
        meanwhile.

        Args:
            is_stopped: says whether there is no need to wait for one any more.

        Returns:
            As `find`: what another process has compiled meanwhile.
        """
        with self.cache.lock(self.recipe, is_stopped) as is_there:
            yield self.find() if is_there else None

    def why_missing(self) -> str:
        """Return "miss", with the inputs that differ from the last such module."""
        return f"miss ({self.cache.why_missing(self.recipe)})"

    def keep(self, report: JsonObject, vmfb: bytes) -> str:
        """Store a module in the cache; return "", or `, not kept: …` with the
        reason.
        """
        known = {name: report[name] for name in _FACTS if name in report}
        facts = json.dumps(known, sort_keys=True)
        failure = self.cache.keep(self.recipe, facts.encode() + b"\n" + vmfb)
        return f", not kept: {failure}" if failure else ""


def _model_digest(unit: Unit, crossed: tuple[bytes, str], with_places: bool) -> str:
    """Return the digest of the module and frame, with source locations if they
    matter.
    """
    bytecode, frame = crossed
    with unit.module.context:
        module = ir.Module.parse(bytecode)
        text = module.operation.get_asm(
            enable_debug_info=with_places, assume_verified=True
        )
    return digest(text, frame)


@cache
def _toolchain() -> dict[str, str]:
    """Return cache key parts of IREE's version and aotc's sources around it."""
    return {
        "IREE": digest(stated_version("iree.compiler")),
        "aotc": digest(
            sources_digest(Path(worker.__file__).parent),
            sources_digest(Path(__file__).parent),
        ),
    }


def stated_version(package: str) -> bytes:
    """Return the contents of the file that states the version of an IREE package.

    Read and not imported: the compiler's brings all of it into this process.
    """
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (folder,) = spec.submodule_search_locations
    return (Path(folder) / "version.py").read_bytes()
