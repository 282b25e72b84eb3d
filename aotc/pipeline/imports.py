"""Imported files in the cache: the program of a file by the SHA-256 of its content.

To import a file of PyTorch takes its package, which takes longer to load than an equal
build takes in all. What a file of PyTorch says is in the file, so an equal one gives an
equal program. Large arrays stay where they lie in it: the cache has but their places.

A program is kept if its importer warned of nothing, and if the file that it was made of
is the one that was looked for: the manifest's digest of it is made after it was read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

import numpy as np

from aotc import importers
from aotc.checks.reuse import examples_digest
from aotc.core import dtypes
from aotc.core.cache import Cache, CacheRecipe, arrays_digest, digest
from aotc.dialects import context
from aotc.mlir import bytecode, ir
from aotc.pipeline.array_tables import (
    ArrayTable,
    Row,
    arrays_of_rows,
    parts_of_value,
    value_of,
)
from aotc.pipeline.reuse import MOST_BYTES, computing_parts
from aotc.programs.computed_arrays import StoredArray
from aotc.programs.networks import NetworksOnDemand
from aotc.programs.program import Program, source_of

# suffixes of files that name no other files, and the packages that read them
_WHOLE = {".pt2": ("torch", "torchao")}
_LARGE = 1 << 16  # bytes; smaller arrays are kept with the program


@dataclass(frozen=True)
class ImportedProgram:
    """A program as the importer made it, and its parameters.

    Args:
        program: itself.
        parameters: its arrays, before anything has changed them.
        known_digest: of these, where the cache has it.
    """

    program: Program
    parameters: Mapping[str, StoredArray]
    known_digest: str | None = None

    @cached_property
    def weights_digest(self) -> str:
        """The digest of the program's weights and states."""
        return self.known_digest or arrays_digest(self.parameters)


def import_file(
    path: Path, entries: tuple[str, ...], cache: Cache | None
) -> ImportedProgram:
    """Import a model, or read its program from the cache if the file is the same.

    Args:
        path: of the model.
        entries: of it; all, if there are none.
        cache: what keeps programs; None for none.
    """
    source = _sha256(path) if cache is not None and path.suffix in _WHOLE else None
    if cache is None or source is None:
        program = importers.load(path, entries)
        return ImportedProgram(program, dict(program.parameters))
    recipe = _recipe(path, source, entries)
    value = cache.find(recipe)
    if value is not None:
        return _import_of(value, path, entries)
    with warnings.catch_warnings(record=True) as said:
        program = importers.load(path, entries)
    for each in said:
        warnings.warn_explicit(
            each.message, each.category, each.filename, each.lineno, source=each.source
        )
    found = ImportedProgram(program, dict(program.parameters))
    if not said and program.source.get("sha256") == source:
        _keep(cache, recipe, found, path)
    return found


def _sha256(path: Path) -> str | None:
    """Return the digest of a file; None if it cannot be read."""
    try:
        return str(source_of(path, "")["sha256"])
    except OSError:
        return None


def _recipe(path: Path, source: str, entries: Sequence[str]) -> CacheRecipe:
    """Return the cache recipe of importing these entries of a file."""
    parts = {
        "file": source,
        "path": str(path),  # which places in the program name
        "entries": digest(*entries),
        "importers": digest(*map(_version, _WHOLE[path.suffix])),
        **computing_parts(),
    }
    return CacheRecipe("import", path.name, parts)


def _version(package: str) -> str:
    """Return the version of an importer's package."""
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return "none"


def _import_of(value: bytes, path: Path, entries: tuple[str, ...]) -> ImportedProgram:
    """Rebuild an imported program from its cached bytes and the model file."""
    facts, (module, *blobs) = parts_of_value(value)
    with context() as known, ir.Location.unknown():
        parsed = ir.Module.parse(module, known)
    whole = np.memmap(path, np.uint8, "r")
    arrays = arrays_of_rows(
        facts["arrays"], blobs, known, lambda row: _array_in(whole, row)
    )
    parameters = {name: arrays[row] for name, row in facts["parameters"]}
    networks = NetworksOnDemand(
        lambda: importers.load(path, entries).networks, facts["examples"]
    )
    return ImportedProgram(
        Program(parsed, parameters, networks), parameters, facts["digest"]
    )


def _keep(
    cache: Cache, recipe: CacheRecipe, found: ImportedProgram, path: Path
) -> None:
    """Write an imported program to the cache, unless it has many arrays beside its
    file.
    """
    table = ArrayTable(dict(_mapped_arrays(found.parameters.values(), path)))
    rows = [[name, table.number_of(x)] for name, x in found.parameters.items()]
    if table.nbytes > MOST_BYTES:
        return
    facts = {
        "arrays": table.rows,
        "parameters": rows,
        "digest": found.weights_digest,
        "examples": examples_digest(found.program),
    }
    blobs = [bytecode(found.program.module), *table.stored_blobs()]
    cache.keep(recipe, value_of(facts, blobs))


# ---- arrays in a file ---------------------------------------------------------------


def _array_in(whole: np.ndarray, row: Row) -> np.ndarray:
    """Return the array that a row describes, as a view of the file's bytes."""
    dtype, shape, offset, strides = row
    return np.ndarray(shape, dtypes.to_numpy(dtype), whole, offset, strides)


def _mapped_arrays(
    arrays: Iterable[StoredArray], path: Path
) -> Iterator[tuple[int, Row]]:
    """Yield (id, row) of large arrays that are memory-mapped from the file.

    An array is taken for one if its memory is mapped from the file, and the file has
    the same elements there.
    """
    mappings, whole = [*_mappings(path)], np.memmap(path, np.uint8, "r")
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.nbytes < _LARGE:
            continue
        first, end = np.lib.array_utils.byte_bounds(array)
        for start, stop, offset in mappings:
            if start <= first and end <= stop and min(array.strides) >= 0:
                kind = dtypes.canonical_dtype(array.dtype), array.shape
                row = (*kind, first - start + offset, array.strides)
                if np.array_equal(_bits(_array_in(whole, row)), _bits(array)):
                    yield id(array), row


def _bits(array: np.ndarray) -> np.ndarray:
    """View elements as unsigned integers, so that NaNs compare equal."""
    size = array.dtype.itemsize
    return array.view(f"u{size}") if size in (1, 2, 4, 8) else array


def _mappings(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield start address, end and file offset of each memory mapping of a file.

    Source: proc_pid_maps(5).
    """
    status = path.stat()
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, _, inode, *_ = line.split(maxsplit=5)
        if int(inode) == status.st_ino:
            start, end = (int(each, 16) for each in span.split("-"))
            yield start, end, int(offset, 16)
