"""A compiled program → the manifest and the files of its bundle.

What depends on the machine or the moment (times, paths, memory) stays out of the bundle
and in the build report: two builds of one source give the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from aotc import __version__
from aotc.artifacts import Signer, vmfb, write_bundle
from aotc.artifacts.pack import Content, FinishedFile, scratch_folder, write_file
from aotc.backend import Compiled
from aotc.backend.state_exports import reader_name, writer_name
from aotc.computed_arrays import (
    StoredArray,
    is_computed_alike,
    is_same_array,
    likeness_key,
)
from aotc.dialects.entries import Entry, Port, Specialization
from aotc.dialects.parameters import SCOPE
from aotc.dialects.symbols import known_contracts
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.parameter_archive import ArchiveParts
from aotc.program import Program, StateSpec
from aotc.provenance import BINDINGS, digests, provenance, sbom
from aotc.pytree import leaf_names
from aotc.system_errors import cannot_write

Arrays = dict[str, StoredArray]
Archives = Mapping[str, FinishedFile]  # by path in the bundle


@dataclass(frozen=True)
class WeightFile:
    """The parameters that the same variants read: none loads what it does not need.

    Args:
        path: in the bundle.
        parameters: by name.
        required_by: the ids of the variants.
    """

    path: str
    parameters: Arrays
    required_by: tuple[str, ...]


def write_archives(weights: Sequence[WeightFile], folder: Path) -> Archives:
    """Write the archives of weights, which bundles take from there, by their paths.

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
    parts = ArchiveParts(weights.parameters)
    return write_file(folder / weights.path, parts, lambda: parts.head)


def pack(
    program: Program,
    variants: Sequence[Compiled],
    weights: Sequence[WeightFile],
    title: tuple[str, str],
    folder: Path,
    *,
    archives: Archives | None = None,
    findings: Mapping[str, Any] | None = None,
    signer: Signer | None = None,
    force: bool = False,
) -> Path:
    """Write a bundle into a folder, and return its path.

    Args:
        program: what was compiled, as far as it is the same for all targets.
        variants: its code.
        weights: of all variants, see `weight_files`.
        title: name and version.
        folder: to write into, or the bundle itself, if it ends with `.aotc`.
        archives: of the weights, which are moved into the bundle; written here if there
            are none yet.
        findings: of the checks, by the field of the manifest.
        signer: None for a bundle that is not signed.
        force: replace a bundle that is there.
    """
    with ExitStack() as work:
        if archives is None:
            scratch = work.enter_context(scratch_folder(folder, title))
            archives = write_archives(weights, scratch)
        return write_bundle(
            folder,
            manifest(program, variants, weights, title, findings),
            files(program, archives, variants, title),
            signer,
            force=force,
        )


@dataclass(frozen=True)
class PackedWeights:
    """The weights of a bundle that is written, for others that read the same.

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
        """Return other names for some parameters: those of the like in this bundle.

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
                new = _free_name(name, "own", {*held, *parameters})
            if new is not None:
                names[name] = new
                taken.add(new)
        return names

    @contextmanager
    def lent_to(
        self, program: Program, variant: Compiled, parameters: Arrays, folder: Path
    ) -> Iterator[Path]:
        """Write another bundle, which has the archives within this block.

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
        given = program, [variant], [*weights, *own], ("part", "1.0.0")
        bundle = pack(*given, folder, archives=archives)
        for path in lent:  # files of bundles have one name
            (self.bundle / path).unlink()
        try:
            yield bundle
        finally:
            for path in lent:
                (bundle / path).rename(self.bundle / path)


_OWN_WEIGHTS = "weights-own.irpa"


def take_back(archives: Archives, bundle: Path) -> None:
    """Move archives out of a bundle, which is none then, to where they came from."""
    for name, archive in archives.items():
        (bundle / name).rename(archive.path)


def manifest(
    program: Program,
    variants: Sequence[Compiled],
    weights: Sequence[WeightFile],
    title: tuple[str, str],
    findings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The manifest without `files` and `channel`, which writing the bundle adds.

    Args:
        program: what was compiled, as far as it is the same for all targets.
        variants: its code.
        weights: of all variants.
        title: name and version.
        findings: of the checks, by the field of the manifest.
    """
    head = {
        "schema": "aotc.manifest/1",
        "requires_features": _features(program),
        "name": title[0],
        "version": title[1],
        "source": program.source,
        "toolchain": _toolchain(variants),
        "precision": _precision(program),
        "numerics": program.numerics,
        "symbols": _symbols(program),
        "entry_points": [
            _entry_point(entry, program.specializations_of(entry.name))
            for entry in program.entry_points
        ],
        "states": [_state(state) for state in program.states],
        "weights": [_weights(each) for each in weights],
        "variants": [_variant(variant) for variant in variants],
        # of all variants: each of them may take less
        "memory_plan": {
            "parameter_bytes": sum(
                array.nbytes for each in weights for array in each.parameters.values()
            )
        },
    }
    created = {"created": made} if (made := _creation_time()) else {}
    return {
        **head,
        **_tuning(program),
        **_quantization(program),
        **(findings or {}),
        **created,
    }


def _quantization(program: Program) -> dict[str, Any]:
    """What precision each layer was given and what was measured of it, if it was."""
    facts = program.quantization
    return {} if facts is None else {"quantization": facts}


def _tuning(program: Program) -> dict[str, Any]:
    """The tuning file that schedules come from, if there is one."""
    tuning = program.tuning
    if tuning is None:
        return {}
    return {"tuning": {"file": tuning["file"], "sha256": tuning["sha256"]}}


def _features(program: Program) -> list[str]:
    """What a reader must know to call entries as they are to be called."""
    entries = program.entry_points
    needed = {
        "guards": any(entry.guards for entry in entries),
        "policies": not all(entry.has_general_code for entry in entries),
        "devices": any(entry.devices for entry in entries),
    }
    return [name for name, is_needed in needed.items() if is_needed]


def _creation_time() -> str | None:
    """The time of the sources, where the build is told one (SOURCE_DATE_EPOCH)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return None
    try:
        created = datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(
            "bad-option", f"expected seconds in SOURCE_DATE_EPOCH; got {epoch!r}"
        ) from None
    return created.strftime("%Y-%m-%dT%H:%M:%SZ")


def _toolchain(variants: Sequence[Compiled]) -> dict[str, Any]:
    return {
        "aotc": __version__,
        "iree_compiler": variants[0].compiler,
        "mlir": {"package": BINDINGS, "version": installed_version(BINDINGS)},
        "deterministic": True,
    }


def _precision(program: Program) -> dict[str, Any]:
    """The element types that cross the boundary, where nothing is converted.

    Beside them stands what a build was asked to compute products in (`mixed`).
    """
    ports = [p for e in program.entry_points for p in (*e.arguments, *e.results)]
    dtypes = {"dtypes": sorted({port.type.dtype for port in ports})}
    mixed = program.mixed_precision
    return dtypes if mixed is None else {**dtypes, "mixed": mixed}


def _symbols(program: Program) -> dict[str, Any]:
    contracts: dict[str, Any] = {}
    for entry in program.entry_points:
        for contract in entry.symbols:
            known = contracts.setdefault(contract.name, contract)
            if known != contract:
                raise InputError(
                    "bad-contract",
                    f"entry '{entry.name}' gives size '{contract.name}' the contract "
                    f"'{contract}', an earlier entry '{known}'",
                    hint="use one Dim for all entries, or another name",
                )
    return {name: contract.to_json() for name, contract in contracts.items()}


def _leaf(name: str, tensor: Tensor) -> dict[str, Any]:
    shape = [size if isinstance(size, int) else str(size) for size in tensor.shape]
    return {"name": name, "dtype": tensor.dtype, "shape": shape}


def _leaves(ports: Sequence[Port]) -> list[dict[str, Any]]:
    return [
        {
            **_leaf(port.name, port.type),
            **({"layout": port.layout} if port.layout else {}),
            **({"where": port.where} if port.where else {}),
        }
        for port in ports
    ]


def _entry_point(
    entry: Entry, specializations: Mapping[str, Specialization]
) -> dict[str, Any]:
    guards = [guard.to_json() for guard in entry.guards]
    special = [
        _specialization(entry, name, each) for name, each in specializations.items()
    ]
    with known_contracts(entry.symbols):
        between = [_leaf("", tensor) for tensor in entry.intermediates]
        return {
            "name": entry.name,
            "kind": "train-step" if entry.updates else "infer",
            "inputs": _leaves(entry.ports("input")),
            "arguments": entry.input_tree.to_json(),
            "outputs": _leaves(entry.ports("output")),
            "result": entry.output_tree.to_json(),
            "reads": list(entry.reads),
            "updates": list(entry.updates),
            **({"guards": guards} if guards else {}),
            **({"intermediates": between} if between else {}),
            **_devices(entry),
            **({"specializations": special} if special else {}),
            **({} if entry.has_general_code else {"has_general_code": False}),
        }


def _devices(entry: Entry) -> dict[str, Any]:
    """The devices that compute a call together, where there are several."""
    if entry.devices is None:
        return {}
    axis, count = entry.devices
    return {"devices": {"axis": axis, "count": count}}


def _specialization(entry: Entry, name: str, special: Specialization) -> dict[str, Any]:
    row = {"export": name, "sizes": dict(special.sizes)}
    if not special.padded:
        return row
    fixed = {*row["sizes"]}.difference(special.padded)
    told = [each.name for each in entry.symbols if each.name not in fixed]
    return {**row, "padded": [*special.padded], "told": told}


def _state(state: StateSpec) -> dict[str, Any]:
    names = leaf_names(state.tree)
    return {
        "name": state.name,
        "read": reader_name(state.name),
        "write": writer_name(state.name),
        "leaves": [_leaf(n, t) for n, t in zip(names, state.types, strict=True)],
        "tree": state.tree.to_json(),
    }


def _weights(weights: WeightFile) -> dict[str, Any]:
    row = {"file": weights.path, "format": "irpa", "scope": SCOPE}
    return {**row, "required_by": list(weights.required_by)}


def _module_file(variant: Compiled) -> str:
    return f"variants/{variant.target.id}.vmfb"


def _variant(variant: Compiled) -> dict[str, Any]:
    abi = vmfb.runtime_abi(variant.vmfb)
    release = variant.compiler["version"].partition("rc")[0]
    unknown = variant.memory_unknown
    return {
        "id": variant.target.id,
        "file": _module_file(variant),
        "backend": variant.target.backend,
        "target": {**variant.target.to_json(), **_features_of(variant.vmfb)},
        "passes": list(variant.passes),
        "flags": list(variant.flags),
        "runtime_abi": {**abi, "runtime_tested": [release]},
        "statistics": variant.statistics,
        "memory": {name: plan.to_json() for name, plan in variant.memory.items()},
        **({"memory_unknown": unknown} if unknown else {}),
        "kernels": variant.kernels,
    }


def _features_of(code: bytes) -> dict[str, Any]:
    """Return the features that code for Vulkan asks of a device, for the manifest."""
    found = sorted(vmfb.vulkan_features(code))
    return {"vulkan_features": found} if found else {}


# ---- files --------------------------------------------------------------------------


def merge_parameters(programs: Mapping[str, Program]) -> Arrays:
    """The parameters of a program's variants, each distinct array once.

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
                stored_name = _free_name(name, target, taken) if known else name
                merged[stored_name] = array
                known.append(stored_name)
                taken.add(stored_name)
            if stored_name != name:
                names[name] = stored_name
        program.rename_parameters(names)
    return merged


def weight_files(programs: Mapping[str, Program]) -> list[WeightFile]:
    """The files for the parameters of a program's variants.

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
    shared = 0
    for readers in groups:
        if len(readers) == variants:
            yield "weights.irpa"
        elif len(readers) == 1:
            yield f"weights-{readers[0]}.irpa"
        else:
            shared += 1
            yield f"weights-shared{f'-{shared}' if shared > 1 else ''}.irpa"


def _free_name(name: str, target: str, taken: Collection[str]) -> str:
    """`name@target`, with more signs between where a parameter is called that."""
    signs = "@"
    while (free := f"{name}{signs}{target}") in taken:
        signs += "@"
    return free


def files(
    program: Program,
    archives: Archives,
    variants: Sequence[Compiled],
    title: tuple[str, str],
) -> dict[str, Content]:
    """Every file of a bundle but manifest and signature."""
    found: dict[str, Content] = {_module_file(v): v.vmfb for v in variants}
    found |= archives
    digested = digests(found)
    return {
        **found,
        "provenance.json": provenance(program, variants, digested),
        "sbom.json": sbom(variants, digested, title),
    }
