"""The weights of a program's variants → the files that they are stored in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.artifacts.pack import FinishedFile, write_file
from aotc.errors.system import cannot_write
from aotc.programs.computed_arrays import StoredArray, is_same_array
from aotc.programs.parameter_archive import ArchiveParts
from aotc.programs.program import Program

Arrays = dict[str, StoredArray]
Archives = Mapping[str, FinishedFile]  # by path in the bundle


@dataclass(frozen=True)
class WeightFile:
    """The parameters that the same variants read, to be stored in one archive.

    Args:
        path: in the bundle.
        parameters: by name.
        required_by: the ids of the variants.
    """

    path: str
    parameters: Arrays
    required_by: tuple[str, ...]


def write_archives(weights: Sequence[WeightFile], folder: Path) -> Archives:
    """Write the archives of weights into a folder; return the finished files by bundle
    path.

    Args:
        weights: of all variants, see `weight_files`.
        folder: on the file system of the bundle.

    Raises:
        SetupError: `cannot-write`.
    """
    try:
        return {each.path: _write(each, folder) for each in weights}
    except OSError as error:
        raise cannot_write(folder, error, "the weights") from error


def _write(weights: WeightFile, folder: Path) -> FinishedFile:
    """Write one archive; return it as a finished file."""
    parts = ArchiveParts(weights.parameters)
    return write_file(folder / weights.path, parts, lambda: parts.head)


def merge_parameters(programs: Mapping[str, Program]) -> Arrays:
    """Return all variants' parameters, each distinct array once; rename clashing ones
    in programs.

    Where a variant has other values under a name than one before it, its parameter
    takes another name, in its module too.

    Args:
        programs: the program of each variant, before it is compiled, by the id of its
            target.
    """
    merged: Arrays = {}
    stored: dict[str, list[str]] = {}  # under which names the arrays of one name are
    taken = {name for program in programs.values() for name in program.parameters}
    for target, program in programs.items():
        names: dict[str, str] = {}
        for name, array in program.parameters.items():
            known = stored.setdefault(name, [])
            like = (each for each in known if is_same_array(merged[each], array))
            stored_name = next(like, None)
            if stored_name is None:
                stored_name = free_name(name, target, taken) if known else name
                merged[stored_name] = array
                known.append(stored_name)
                taken.add(stored_name)
            if stored_name != name:
                names[name] = stored_name
        program.rename_parameters(names)
    return merged


def weight_files(programs: Mapping[str, Program]) -> list[WeightFile]:
    """Group the parameters of a program's variants into files, by the variants that
    read them.

    What all of them read is in `weights.irpa`, what one alone reads in
    `weights-ID.irpa`, and what others share in `weights-shared.irpa` and so on.

    Args:
        programs: by the id of their targets, after `merge_parameters`.
    """
    groups: dict[tuple[str, ...], Arrays] = {}
    known = {k: x for each in programs.values() for k, x in each.parameters.items()}
    for name, array in known.items():
        readers = (k for k, program in programs.items() if name in program.parameters)
        groups.setdefault(tuple(readers), {})[name] = array
    paths = _weight_paths(groups, len(programs))
    return [
        WeightFile(path, parameters, readers)
        for path, (readers, parameters) in zip(paths, groups.items(), strict=True)
    ]


def _weight_paths(groups: Iterable[Sequence[str]], variants: int) -> Iterator[str]:
    """Yield the bundle path of each group of parameters, by the variants that read
    it.
    """
    shared = 0
    for readers in groups:
        if len(readers) == variants:
            yield "weights.irpa"
        elif len(readers) == 1:
            yield f"weights-{readers[0]}.irpa"
        else:
            shared += 1
            yield f"weights-shared{f'-{shared}' if shared > 1 else ''}.irpa"


def free_name(name: str, target: str, taken: Collection[str]) -> str:
    """Return `name@target`, with more `@` signs if that name is taken."""
    signs = "@"
    while (free := f"{name}{signs}{target}") in taken:
        signs += "@"
    return free
