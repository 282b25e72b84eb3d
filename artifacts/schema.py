"""The fields of `aotc.manifest/1` and the rules that tie them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aotc.artifacts import trees
from aotc.artifacts.conditions import Condition
from aotc.artifacts.fields import (
    Check,
    Invalid,
    anything,
    boolean,
    fail,
    integer,
    listing,
    mapping,
    nullable,
    number,
    one_of,
    record,
    short_text,
    text,
    within,
)
from aotc.artifacts.shapes import SizeExpression, deciding_sizes
from aotc.core.json_values import JsonObject

DTYPES = tuple(
    [
        "bool",
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f16",
        "bf16",
        "f32",
        "f64",
    ]
)
_LISTED = 20  # names in a message
RESERVED_PATHS = ("manifest.json", "signature.json")

# No part of a path may begin with a dot: that excludes `..`, and `.git`, which other
# verifiers of the signature format skip.
_PART = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
# a bundle's name and version
NAME = _PART
VERSION = r"[A-Za-z0-9._+-]+"
_name = text(NAME, "a name of letters, digits and . _ -")
_path = text(rf"{_PART}(/{_PART}){{0,7}}", "a relative path of plain names")
_string = text()
_something = text(r"(?s).+", "a string that is not empty")
_size = integer(0)
_digest = text("[0-9a-f]{64}", "a SHA-256 in hexadecimal")
_identifier = text("[A-Za-z_][A-Za-z0-9_]*", "an identifier")


def _dim(value: object) -> None:
    """Check that a value is a static size or a valid size expression."""
    if isinstance(value, str):
        try:
            SizeExpression.parse(value)
        except ValueError as error:
            raise Invalid(str(error)) from None
    else:
        _size(value)


def _condition(value: Any) -> None:
    """Check that a value is a valid condition on sizes."""
    _string(value)
    try:
        Condition.parse(value)
    except ValueError as error:
        raise Invalid(str(error)) from None


_guard = record({"condition": _condition, "message": _string}, {"where": _string})
_leaf = record(
    {"name": _string, "dtype": one_of(*DTYPES), "shape": listing(_dim)},
    {
        "layout": text("n[dhw]{1,3}c|nc[dhw]{1,3}", "a layout such as nhwc"),
        "where": _string,
    },
)
_specialization = record(
    {"export": _identifier, "sizes": mapping(_identifier, integer(0))},
    {"padded": listing(_identifier), "told": listing(_identifier)},
)
_entry_point = record(
    {
        "name": _identifier,
        "kind": one_of("infer", "train-step"),
        "inputs": listing(_leaf),
        "arguments": record({"dict": mapping(_identifier, anything)}),
        "outputs": listing(_leaf),
        "result": anything,
        "reads": listing(_string),
        "updates": listing(_string),
    },
    {
        "guards": listing(_guard),
        "intermediates": listing(_leaf),
        "specializations": listing(_specialization),
        "has_general_code": boolean,
        "devices": record({"axis": _string, "count": integer(2)}),
    },
)
_state = record(
    {
        "name": _string,
        "read": _identifier,
        "write": _identifier,
        "leaves": listing(_leaf),
        "tree": anything,
    }
)
_weights = record(
    {"file": _path, "format": one_of("irpa", "safetensors"), "scope": _string},
    {"required_by": listing(_string)},
)
_target = record(
    {"name": _string},
    {
        "arch": _string,
        "cpu_features_required": listing(_string),
        "sm": text(r"sm_[0-9]{1,4}[af]?", "a compute capability such as sm_80"),
        "ptx_isa": text(r"[0-9]{1,4}\.[0-9]{1,4}", "a PTX version such as 7.6"),
        "min_cuda_driver_api": integer(0),
        "min_vulkan_api": text(
            r"[0-9]{1,4}\.[0-9]{1,4}", "a Vulkan version such as 1.1"
        ),
        "vulkan_features": listing(_string),
        "gfx": text(
            r"gfx[0-9a-f-]{1,8}(generic)?(:[a-z]{1,16}[+-]){0,2}",
            "an AMD processor such as gfx942",
        ),
    },
)
_runtime_abi = record(
    {},
    {
        "iree_vm_bytecode": listing(integer(0), least=2),
        "vm_feature_bits": integer(0),
        "module_deps": mapping(_string, integer(0)),
        "executable_formats": listing(_string),
        "runtime_tested": listing(_string),
    },
)
_memory = record(
    {
        "sizes": mapping(_identifier, integer(0)),
        "resident_bytes": integer(0),
        "peak_bytes": integer(0),
    },
    {"bound": one_of("exact", "upper", "tried")},
)
_memory_unknown = record({"why": _string, "unlimited": listing(_identifier)})
_calls = record({"calls": integer(0), "places": listing(_string), "more": integer(0)})
_region = record(
    {
        "name": _string,
        "family": _string,
        "schedule": _string,
        "ops": listing(_string),
        "flops": integer(0),
        "bytes_read": integer(0),
        "bytes_written": integer(0),
        "entries": mapping(_identifier, _calls),
    },
    {
        "tile": mapping(_string, integer(0)),
        "workgroups": listing(integer(0)),
        "shares": integer(1),
        "cycles": integer(0),
        "sizes": mapping(_identifier, integer(0)),
        "precision": _string,
        "device": record(
            {
                "threads": integer(1),
                "shared_bytes": integer(0),
                "stages": integer(1),
                "registers": nullable(integer(0)),
                "spilled": nullable(integer(0)),
                "aligned": boolean,
                "sha256": _digest,
                "text": _digest,
            }
        ),
    },
)
_without = record(
    {
        "entry": _identifier,
        "op": _string,
        "why": _string,
        "count": integer(0),
        "places": listing(_string),
        "more": integer(0),
    },
    {"text": _digest},  # of a kernel for GPUs that could not be compiled
)
_shared_work = record({"work": integer(0), "turns": integer(0)})
_kernels = record(
    {"regions": listing(_region)},
    {
        "machine": record(
            {"flops_per_cycle": integer(1), "bytes_per_cycle": integer(1)}
        ),
        "chip": record(
            {
                "name": _string,
                "flops_per_ns": mapping(_identifier, integer(1)),
                "bytes_per_ns": integer(1),
            }
        ),
        "compiler": _string,
        "without": listing(_without),
        "shared_work": mapping(_identifier, _shared_work),
        "none": _string,
    },
)
_variant = record(
    {
        "id": _name,
        "file": _path,
        "backend": _string,
        "target": _target,
        "runtime_abi": _runtime_abi,
    },
    {
        "priority": integer(-(2**31)),  # written by earlier versions, not read
        "flags": listing(_string),
        "memory": mapping(_identifier, _memory),
        "memory_unknown": mapping(_identifier, _memory_unknown),
        "kernels": _kernels,
        "statistics": mapping(_string, anything),
    },
)
_file = record(
    {
        "path": _path,
        "role": _string,
        "media_type": _string,
        "size": integer(0),
        "sha256": _digest,
    },
    {"chunks": record({"size": integer(1), "sha256": listing(_digest, least=1)})},
)
_symbol = record(
    {"min": integer(0)},
    {
        "max": nullable(integer(0)),
        "multiple_of": integer(1),
        "optimum": integer(0),
        "policy": text(
            r"dynamic|error|pad|bucket|(route|callback):[A-Za-z_][A-Za-z0-9_]*",
            "a policy such as bucket or route:other",
        ),
        "where": _string,
    },
)
_coverage = record(
    {name: integer(0) for name in ("ops", "captured", "folded", "graph_ops")},
    {"graph_breaks": integer(0)},  # written by earlier versions, always 0
)
_source = record({}, {"kind": _string, "file": _string, "coverage": _coverage})
_parity = record(
    {
        "entry": _identifier,
        "target": _string,
        "framework": _string,
        "outputs": listing(record({"name": _string, "error": number})),
    }
)
_blocks = record(
    {
        name: integer(0)
        for name in ("blocks", "kinds", "compared", "compared_kinds", "operations")
    },
    {name: integer(0) for name in ("repeated", "repeated_operations")},
)
_self_check = record(
    {
        "entry": _identifier,
        "target": _string,
        "checked": listing(mapping(_identifier, _size)),
        "unchecked": listing(
            record({"sizes": mapping(_identifier, _size), "why": _string})
        ),
        "error_below": number,
    },
    {
        "ulp_below": number,
        "rounding_ulp_below": number,
        "by": one_of("machine", "emulator", "evaluator"),
        "blocks": _blocks,
        "kernels": record(
            {name: integer(0) for name in ("launches", "programs", "evaluated")}
        ),
    },
)
_data = {"sha256": _digest, "samples": integer(0)}
_quantization = record(
    {
        "recipe": _string,
        "layers": listing(
            record({"layer": _string, "precision": _string}, {"where": _string})
        ),
        "calibration": anything,
        "quality": anything,
    }
)
_calibration = record({"method": _string, **_data}, {"percentile": number})
_quality = record(
    {"metric": _string, "lost": number, **_data},
    {
        **{"asked": number, "weights": _digest, "layers": _digest},
        **{"entries": listing(_string), "unmeasured": listing(_string)},
    },
)


def _measured_quantization(value: Any) -> None:
    """Check that a quantisation record's measured facts are complete or absent."""
    _quantization(value)
    for name, facts in (("calibration", _calibration), ("quality", _quality)):
        if value[name] != {}:
            with within(f".{name}"):
                facts(value[name])


_boundary = record(
    {
        "place": _string,
        "operation": _string,
        "reason": _string,
        **{
            name: integer(0)
            for name in ("calls", "bytes_in", "bytes_out", "synchronizations")
        },
    }
)
_hybrid = record(
    {
        "function": _string,
        "graph_breaks": integer(0),
        "boundaries": listing(_boundary),
        "regions": listing(record({"region": _identifier, "entry": _identifier})),
    },
    {"module_sha256": _digest},  # of the package's __init__.py
)
_manifest: Check = record(
    {
        "name": _name,
        "version": text(VERSION, "a version"),
        "channel": one_of("development", "release", "unsigned"),
        "toolchain": record({"iree_compiler": record({"version": _something})}),
        "symbols": mapping(_identifier, _symbol),
        "entry_points": listing(_entry_point, least=1),
        "states": listing(_state),
        "weights": listing(_weights),
        "variants": listing(_variant, least=1),
        "files": listing(_file, least=1),
    },
    {
        "source": _source,
        "numerics": _string,
        "parity": listing(_parity),
        "self_check": listing(_self_check),
        "hybrid": _hybrid,
        "quantization": _measured_quantization,
    },
)


def check(data: Mapping[str, Any]) -> None:
    """Raise `Invalid` unless `data` is a well-formed and consistent manifest."""
    _manifest(data)
    _check_unique(data)
    _check_references(data)
    _check_chunks(data)
    symbols = set(data["symbols"])
    for index, entry in enumerate(data["entry_points"]):
        with within(f".entry_points[{index}]"):
            _check_entry(entry, symbols)
    for index, state in enumerate(data["states"]):
        with within(f".states[{index}]"):
            _check_state(state)


def _check_unique(data: JsonObject) -> None:
    """Raise if two entries, states, variants or files have the same name."""
    keys = {"entry_points": "name", "states": "name", "variants": "id", "files": "path"}
    for table, key in keys.items():
        seen: set[str] = set()
        for row in data[table]:
            # Some file systems do not tell upper from lower case.
            folded = row[key].lower() if table == "files" else row[key]
            if folded in seen:
                with within(f".{table}"):
                    fail(f"each {key} once", row[key])
            seen.add(folded)


def _check_references(data: JsonObject) -> None:
    """Raise if a row names a file, variant or state that does not exist."""
    files = {file["path"] for file in data["files"]}
    for reserved in RESERVED_PATHS:
        if reserved in files:
            with within(".files"):
                fail("no entry for the manifest or its signature", reserved)
    variants = {variant["id"] for variant in data["variants"]}
    states = {state["name"] for state in data["states"]}
    for table in ("variants", "weights"):
        for index, row in enumerate(data[table]):
            _check_known([row["file"]], files, f".{table}[{index}].file")
    for index, row in enumerate(data["weights"]):
        _check_known(
            row.get("required_by", ()), variants, f".weights[{index}].required_by"
        )
    for index, row in enumerate(data["entry_points"]):
        _check_known(row["updates"], states, f".entry_points[{index}].updates")


def _check_chunks(data: JsonObject) -> None:
    """Raise if the number of chunk digests does not fit a file's size."""
    for index, file in enumerate(data["files"]):
        chunks = file.get("chunks")
        if chunks is not None:
            count = -(-file["size"] // chunks["size"])
            if len(chunks["sha256"]) != count:
                with within(f".files[{index}].chunks.sha256"):
                    fail(f"{count} digests", len(chunks["sha256"]))


def _check_known(names: Iterable[str], known: set[str], path: str) -> None:
    """Raise for the first name that is not among the known ones."""
    for name in names:
        if name not in known:
            with within(path):
                fail(f"one of {_names_text(known)}", name)


def _names_text(known: set[str]) -> str:
    """Return the first known names as text for a message."""
    some = sorted(known)[:_LISTED]
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return (", ".join(map(short_text, some)) or "none") + more


def _check_state(state: JsonObject) -> None:
    """Raise if a state's pytree or shapes are invalid."""
    with within(".tree"):
        trees.check(state["tree"], len(state["leaves"]), each_once=True)
    for leaf in state["leaves"]:
        if any(isinstance(dim, str) for dim in leaf["shape"]):
            with within(".leaves"):
                fail("static shapes", leaf["shape"])


def _check_entry(entry: JsonObject, symbols: set[str]) -> None:
    """Raise if an entry's pytrees, symbols or specializations are inconsistent."""
    inputs, outputs = entry["inputs"], entry["outputs"]
    with within(".arguments"):
        trees.check(entry["arguments"], len(inputs), each_once=True)
    with within(".result"):
        trees.check(entry["result"], len(outputs), each_once=False)
    dims = [dim for leaf in inputs for dim in _dims(leaf)]
    computed = [*outputs, *entry.get("intermediates", ())]
    everywhere = dims + [dim for leaf in computed for dim in _dims(leaf)]
    used = {symbol for dim in everywhere for symbol in dim.symbols}
    for guard in entry.get("guards", ()):
        used |= Condition.parse(guard["condition"]).symbols
    for specialization in entry.get("specializations", ()):
        used |= {*specialization["sizes"], *specialization.get("told", ())}
        unsized = set(specialization.get("padded", ())) - set(specialization["sizes"])
        if unsized:
            with within(".specializations"):
                fail("a size for each that is padded", sorted(unsized))
    if not entry.get("has_general_code", True) and not entry.get("specializations"):
        with within(".specializations"):
            fail("code for some sizes, as there is none for all", [])
    _check_known(sorted(used), symbols, " symbol")
    # A call learns the value of a symbol from a dimension that is linear in it alone.
    unbound = used - {symbol for _, symbol in deciding_sizes(dims)}
    if unbound:
        with within(".inputs"):
            fail("dimensions that decide each symbol", sorted(unbound))


def _dims(leaf: JsonObject) -> list[SizeExpression]:
    """Return the symbolic dimensions of an array."""
    return [SizeExpression.parse(dim) for dim in leaf["shape"] if isinstance(dim, str)]


def is_path(value: str) -> bool:
    """Return whether `value` can be the path of a file in a bundle."""
    try:
        _path(value)
    except Invalid:
        return False
    return True
