"""A compiled program → the manifest and the files of its bundle.

What depends on the machine or the moment (times, paths, memory) stays out of the bundle
and in the build report: two builds of one source give the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from aotc.artifacts import Signer, write_bundle
from aotc.artifacts.pack import FinishedFile, scratch_folder, write_file
from aotc.backend import CompiledVariant
from aotc.errors.system import cannot_write
from aotc.packager.manifests import manifest, module_file
from aotc.packager.provenance import digests, provenance, sbom
from aotc.packager.weights import (
    Archives,
    Arrays,
    WeightFile,
    free_name,
    merge_parameters,
    weight_files,
    write_archives,
)
from aotc.programs.computed_arrays import is_computed_alike, likeness_key
from aotc.programs.program import Program

__all__ = [
    "Archives",
    "Arrays",
    "PackedWeights",
    "WeightFile",
    "files",
    "manifest",
    "merge_parameters",
    "pack",
    "take_back",
    "weight_files",
    "write_archives",
    "write_files",
]

# by path in the bundle: all files but manifest and signature
Contents = Mapping[str, bytes | FinishedFile]
FinishedFiles = Mapping[str, FinishedFile]


def pack(
    program: Program,
    variants: Sequence[CompiledVariant],
    weights: Sequence[WeightFile],
    title: tuple[str, str],
    folder: Path,
    *,
    contents: Contents | None = None,
    findings: Mapping[str, object] | None = None,
    signer: Signer | None = None,
    force: bool = False,
) -> Path:
    """Write a bundle of a compiled program into a folder; return the bundle's path.

    Args:
        program: what was compiled, as far as it is the same for all targets.
        variants: its code.
        weights: of all variants, see `weight_files`.
        title: name and version.
        folder: to write into, or the bundle itself, if it ends with `.aotc`.
        contents: see `files`; what is finished is moved into the bundle. Made here if
            there are none yet.
        findings: of the checks, by the field of the manifest.
        signer: None for a bundle that is not signed.
        force: replace a bundle that is there.
    """
    with ExitStack() as work:
        if contents is None:
            scratch = work.enter_context(scratch_folder(folder, title))
            archives = write_archives(weights, scratch)
            contents = files(program, archives, variants, title)
        described = manifest(program, variants, weights, title, findings)
        return write_bundle(folder, described, contents, signer, force=force)


@dataclass(frozen=True)
class PackedWeights:
    """The weight archives of a written bundle, for other bundles with the same weights.

    Args:
        bundle: its folder.
        weights: of all of its variants.
        archives: of them, which lie in the bundle now.
        compared: the names of those that were computed again, and lie as they should.
    """

    bundle: Path
    weights: Sequence[WeightFile]
    archives: Archives
    compared: set[str] = field(default_factory=set)

    def names_of(self, parameters: Arrays, target: str) -> dict[str, str]:
        """Map parameters to new names: of equal arrays here, or free ones if their own
        is another array's.

        Passes name what they compute by what else there is, such as other entries.

        Args:
            parameters: of a program with the same weights, for a target of this bundle.
            target: its id.
        """
        files = [x.parameters for x in self.weights if target in x.required_by]
        held = {name: array for each in files for name, array in each.items()}
        alike: dict[Hashable, list[str]] = {}
        for name, array in held.items():
            alike.setdefault(likeness_key(array), []).append(name)
        taken = {
            name
            for name, array in parameters.items()
            if name in held and is_computed_alike(held[name], array)
        }
        names: dict[str, str] = {}
        for name in [x for x in parameters if x not in taken]:
            array = parameters[name]
            known = (x for x in alike.get(likeness_key(array), ()) if x not in taken)
            new = next((x for x in known if is_computed_alike(held[x], array)), None)
            if new is None and name in held:  # of another array
                new = free_name(name, "own", {*held, *parameters})
            if new is not None:
                names[name] = new
                taken.add(new)
        return names

    @contextmanager
    def lent_to(
        self,
        program: Program,
        variant: CompiledVariant,
        parameters: Arrays,
        folder: Path,
    ) -> Iterator[Path]:
        """Write another bundle that borrows this one's weight archives within the
        `with` block.

        An archive is lent if it has no other tensor of a name. What is in none of them
        is packed. This bundle cannot be loaded meanwhile.

        Args:
            program: what was compiled.
            variant: its code, for a target of this bundle.
            parameters: of the code.
            folder: to write into, on the file system of this bundle.
        """
        target, left = variant.target.id, dict(parameters)
        weights: list[WeightFile] = []
        lent: dict[str, FinishedFile] = {}
        for each in self.weights:
            shared = {k: x for k, x in each.parameters.items() if k in left}
            is_alike = (is_computed_alike(x, left[k]) for k, x in shared.items())
            if target in each.required_by and shared and all(is_alike):
                weights.append(WeightFile(each.path, shared, (target,)))
                link = folder / f"{len(lent)}.irpa"
                link.hardlink_to(self.bundle / each.path)
                lent[each.path] = replace(self.archives[each.path], path=link)
                left = {k: x for k, x in left.items() if k not in shared}
        own = [WeightFile(_OWN_WEIGHTS, left, (target,))] if left else []
        archives = {**lent, **write_archives(own, folder)}
        title = "part", "1.0.0"
        contents = files(program, archives, [variant], title)
        given = program, [variant], [*weights, *own], title
        bundle = pack(*given, folder, contents=contents)
        for path in lent:  # files of bundles have one name
            (self.bundle / path).unlink()
        try:
            yield bundle
        finally:
            for path in lent:
                (bundle / path).rename(self.bundle / path)


_OWN_WEIGHTS = "weights-own.irpa"


def take_back(finished: FinishedFiles, bundle: Path) -> None:
    """Move files from an abandoned bundle back to their former paths."""
    for name, file in finished.items():
        (bundle / name).rename(file.path)


def write_files(contents: Contents, folder: Path) -> FinishedFiles:
    """Write contents that are in memory to files in a folder; return all as finished
    files.

    Args:
        contents: see `files`.
        folder: on the file system of the bundle.

    Raises:
        SetupError: `cannot-write`.
    """
    try:
        return {
            path: _write_unfinished(each, folder / path)
            for path, each in contents.items()
        }
    except OSError as error:
        raise cannot_write(folder, error, "the bundle") from error


def _write_unfinished(content: bytes | FinishedFile, place: Path) -> FinishedFile:
    """Write bytes to a file, and return it as finished; a finished file unchanged."""
    if isinstance(content, FinishedFile):
        return content
    place.parent.mkdir(parents=True, exist_ok=True)
    return write_file(place, [content])


def files(
    program: Program,
    archives: Archives,
    variants: Sequence[CompiledVariant],
    title: tuple[str, str],
) -> Contents:
    """Return the contents of a bundle by path: all but the manifest and signature."""
    modules = {module_file(v): v.vmfb for v in variants}
    found: Contents = {**modules, **archives}
    digested = digests(found)
    return {
        **found,
        "provenance.json": provenance(program, variants, digested),
        "sbom.json": sbom(variants, digested, title),
    }
