"""A compiled program → its manifest, without the facts that writing a bundle adds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from typing import Any

from aotc import __version__
from aotc.artifacts import vmfb
from aotc.backend import CompiledVariant
from aotc.backend.state_exports import reader_name, writer_name
from aotc.core.json_values import JsonObject
from aotc.core.pytree import leaf_names
from aotc.dialects.functions.entries import Entry, Port, SizeSpecialization
from aotc.dialects.functions.parameters import SCOPE
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.packager.provenance import BINDINGS
from aotc.packager.weights import WeightFile
from aotc.programs.program import Program, StateSpec


def manifest(
    program: Program,
    variants: Sequence[CompiledVariant],
    weights: Sequence[WeightFile],
    title: tuple[str, str],
    findings: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return a bundle's manifest without `files` and `channel`, which writing the
    bundle adds.

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


def _quantization(program: Program) -> dict[str, object]:
    """Return the manifest's section on quantized layers; empty without any."""
    facts = program.quantization
    return {} if facts is None else {"quantization": facts}


def _tuning(program: Program) -> dict[str, object]:
    """Return the manifest's section on the tuning file; empty without one."""
    tuning = program.tuning
    if tuning is None:
        return {}
    return {"tuning": {"file": tuning["file"], "sha256": tuning["sha256"]}}


def _features(program: Program) -> list[str]:
    """Return the features that a loader must know to call the entries correctly."""
    entries = program.entry_points
    needed = {
        "guards": any(entry.guards for entry in entries),
        "policies": not all(entry.has_general_code for entry in entries),
        "devices": any(entry.devices for entry in entries),
    }
    return [name for name, is_needed in needed.items() if is_needed]


def _creation_time() -> str | None:
    """Return the time of SOURCE_DATE_EPOCH in ISO format, or None if that is not
    set.
    """
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


def _toolchain(variants: Sequence[CompiledVariant]) -> dict[str, object]:
    """Return the manifest's section on the versions of the tools."""
    return {
        "aotc": __version__,
        "iree_compiler": variants[0].compiler,
        "mlir": {"package": BINDINGS, "version": installed_version(BINDINGS)},
        "deterministic": True,
    }


def _precision(program: Program) -> JsonObject:
    """Return the manifest's section on dtypes: of inputs and outputs, and of mixed
    precision.

    Beside them stands what a build was asked to compute products in (`mixed`).
    """
    ports = [p for e in program.entry_points for p in (*e.arguments, *e.results)]
    dtypes = {"dtypes": sorted({port.type.dtype for port in ports})}
    mixed = program.mixed_precision
    return dtypes if mixed is None else {**dtypes, "mixed": mixed}


def _symbols(program: Program) -> dict[str, object]:
    """Return the contract of each symbol as JSON; refuse different ones of one name."""
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
    """Return the manifest's record of an array: name, dtype and shape."""
    shape = [size if isinstance(size, int) else str(size) for size in tensor.shape]
    return {"name": name, "dtype": tensor.dtype, "shape": shape}


def _leaves(ports: Sequence[Port]) -> list[dict[str, Any]]:
    """Return the manifest's records of an entry's inputs or outputs."""
    return [
        {
            **_leaf(port.name, port.type),
            **({"layout": port.layout} if port.layout else {}),
            **({"where": port.where} if port.where else {}),
        }
        for port in ports
    ]


def _entry_point(
    entry: Entry, specializations: Mapping[str, SizeSpecialization]
) -> dict[str, object]:
    """Return the manifest's record of an entry."""
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
            **({"devices": asdict(entry.devices)} if entry.devices else {}),
            **({"specializations": special} if special else {}),
            **({} if entry.has_general_code else {"has_general_code": False}),
        }


def _specialization(
    entry: Entry, name: str, special: SizeSpecialization
) -> dict[str, Any]:
    """Return the manifest's record of a specialization of an entry."""
    row = {"export": name, "sizes": dict(special.sizes)}
    if not special.padded:
        return row
    fixed = {*row["sizes"]}.difference(special.padded)
    told = [each.name for each in entry.symbols if each.name not in fixed]
    return {**row, "padded": [*special.padded], "told": told}


def _state(state: StateSpec) -> dict[str, object]:
    """Return the manifest's record of a State."""
    names = leaf_names(state.tree)
    return {
        "name": state.name,
        "read": reader_name(state.name),
        "write": writer_name(state.name),
        "leaves": [_leaf(n, t) for n, t in zip(names, state.types, strict=True)],
        "tree": state.tree.to_json(),
    }


def _weights(weights: WeightFile) -> dict[str, object]:
    """Return the manifest's record of a weight file."""
    row = {"file": weights.path, "format": "irpa", "scope": SCOPE}
    return {**row, "required_by": list(weights.required_by)}


def module_file(variant: CompiledVariant) -> str:
    """Return the path of a variant's module in the bundle."""
    return f"variants/{variant.target.id}.vmfb"


def _variant(variant: CompiledVariant) -> JsonObject:
    """Return the manifest's record of a compiled variant."""
    abi = vmfb.runtime_abi(variant.vmfb)
    release = variant.compiler["version"].partition("rc")[0]
    unknown = variant.memory_unknown
    return {
        "id": variant.target.id,
        "file": module_file(variant),
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


def _features_of(code: bytes) -> dict[str, object]:
    """Return the Vulkan features that code needs of a device, for the manifest."""
    found = sorted(vmfb.vulkan_features(code))
    return {"vulkan_features": found} if found else {}
