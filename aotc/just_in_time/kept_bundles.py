"""Bundles of functions in the user's cache: by their graphs, before any pass has run.

The cache of builds keeps modules by what IREE reads, for which all passes have to run.
A process that traces a function that was compiled before needs neither these nor the
compiler's side of aotc.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.core import options
from aotc.core.cache import Cache, CacheRecipe, arrays_digest, digest
from aotc.core.json_values import JsonObject
from aotc.machine.target import Target

if TYPE_CHECKING:
    from aotc.programs.program import Program

_LARGEST = 16 << 20  # bytes of Weights and States of a function that is kept
_SOURCES = ("aotc", "aotc.dialects", "aotc.passes", "aotc.artifacts")
_TOOLS = ("iree-base-compiler", "torch-mlir", "numpy")


@dataclass(frozen=True)
class KeptBundle:
    """The cache entry for the bundle of a traced program: key and cache."""

    cache: Cache
    recipe: CacheRecipe

    @classmethod
    def of(cls, program: Program, target: Target) -> KeptBundle | None:
        """Return the cache entry of a program at the stage `graph`, filled or not; None
        if the program is not to be cached.

        Args:
            program: which is left as it is.
            target: that it is compiled for.

        Returns:
            None where nothing is kept: without a cache, with many weights, or where
            somebody wants to see the IR of passes.
        """
        kept = cache_of_functions()
        size = sum(array.nbytes for array in program.parameters.values())
        if kept is None or size > _LARGEST:
            return None
        names = ", ".join(entry.name for entry in program.entries)
        with program.module.context:
            text = program.module.operation.get_asm(enable_debug_info=True)
        parts = {"graph": digest(text), "weights": _weights_digest(program)}
        label = f"{target}: {names}"
        return cls(kept, CacheRecipe("function", label, parts | toolchain(target)))

    def unpack(self, folder: Path) -> Path | None:
        """Unpack the cached bundle into a folder; return its path, or None if not
        cached.
        """
        value = self.cache.find(self.recipe)
        if value is None:
            return None
        with zipfile.ZipFile(io.BytesIO(value)) as archive:
            archive.extractall(folder)
        (bundle,) = folder.iterdir()
        return bundle

    def keep(self, bundle: Path) -> None:
        """Store a bundle in the cache."""
        value = io.BytesIO()
        with zipfile.ZipFile(value, "w") as archive:
            for path in sorted(bundle.rglob("*")):
                archive.write(path, path.relative_to(bundle.parent))
        self.cache.keep(self.recipe, value.getvalue())

    def check(self) -> JsonObject | None:
        """Return the stored outcome of comparing a call of the code; None if there
        is none.
        """
        value = self.cache.find(self._check_recipe)
        found: JsonObject | None = None if value is None else json.loads(value)
        return found

    def note_check(self, found: JsonObject) -> None:
        """Store the outcome of comparing a call of the code, as JSON."""
        self.cache.keep(self._check_recipe, json.dumps(found).encode())

    @property
    def _check_recipe(self) -> CacheRecipe:
        """The cache key of the outcome of a comparison."""
        return CacheRecipe("call-check", self.recipe.label, self.recipe.parts)


def _weights_digest(program: Program) -> str:
    """Return a digest of the program's parameter arrays."""
    return arrays_digest(program.parameters)


def cache_of_functions() -> Cache | None:
    """Return the user's cache; None without one, or while the IR of passes is
    dumped.
    """
    is_watched = options.get("AOTC_DUMP") or options.get("AOTC_PRINT_AFTER")
    return None if is_watched else Cache.of_user()


def toolchain(target: Target) -> dict[str, str]:
    """Return cache key parts for what code depends on: aotc's sources, tools, target
    flags.

    A source counts by its size and the time of its last change, as Python's own cache
    of compiled modules has it.
    """
    return {"tools": _tools(), "target": " ".join([target.name, *target.flags])}


@cache
def _tools() -> str:
    """Return a digest of aotc's source files and the versions of its tools."""
    parts = list[str]()
    for name in _SOURCES:
        spec = find_spec(name)
        assert spec is not None
        for folder in spec.submodule_search_locations or []:
            for path in sorted(Path(folder).rglob("*.py")):
                status = path.stat()
                parts.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return digest(*parts, *map(_version, _TOOLS))


def _version(tool: str) -> str:
    """Return the installed version of a distribution, such as `numpy-2.4.0.dist-info`.

    By the name of the folder: to read its metadata would take as long as a call.
    """
    prefix = tool.replace("-", "_") + "-"
    for folder in map(Path, sys.path):
        found = sorted(path.name for path in folder.glob(f"{prefix}*.dist-info"))
        if found:
            return found[0]
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{tool} {version(tool)}"
    except PackageNotFoundError:  # tracing says what is missing, if that is needed
        return f"{tool} none"
