"""`manifest.json`: what a bundle holds and what a device must offer to run it.

The laws: `Manifest.read(m.to_bytes()) == m` for every manifest, and
`Manifest.read(b).to_bytes() == b` for all bytes that are accepted. So the file has one
spelling, and `sha256(manifest.json)` identifies the bundle.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aotc.artifacts import schema, strict_json
from aotc.artifacts.chunks import Chunks
from aotc.artifacts.fields import Invalid, short_text
from aotc.core.json_values import JsonObject
from aotc.errors import VerificationError

FILE = "manifest.json"
SIGNATURE_FILE = "signature.json"
_SCHEMA = "aotc.manifest"
_MAJOR = "1"
# Names that `requires_features` may hold: a reader must know all of them.
_FEATURES = frozenset({"guards", "policies", "devices"})
_FILE_FIELDS = frozenset({"path", "role", "media_type", "size", "sha256"})
_LISTED = 20  # names in a message


@dataclass(frozen=True)
class Leaf:
    """A declared array: an input, an output or part of a state, with dtype and shape.

    Of images that a build has given a layout, `layout` has it: `nhwc`. `where` is the
    line of the model that declares it, as far as the bundle says so.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    layout: str = ""
    where: str = ""

    def __str__(self) -> str:
        kind = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        return f"{kind} {self.layout}" if self.layout else kind


@dataclass(frozen=True)
class Symbol:
    """The contract of a symbolic dimension.

    `policy` says what becomes of sizes without code of their own: `dynamic`, they have
    the code for any; `error`; `pad` and `bucket`, to sizes that have code; `route:f`,
    another entry computes them, and `callback:f`, a function of the caller's. `where`
    is the line of the model that declares it, if it has one of its own, and `optimum`
    the size that most calls have, as far as the model says so.
    """

    min: int
    max: int | None
    multiple_of: int
    policy: str = "dynamic"
    where: str = ""
    optimum: int | None = None


@dataclass(frozen=True)
class Guard:
    """A condition on the sizes of a call, its error message, and the model's line."""

    condition: str
    message: str
    where: str


@dataclass(frozen=True)
class Code:
    """An exported function that computes calls of an entry: of any sizes, or of certain
    ones.

    Args:
        export: the function that it is.
        sizes: of the calls, by name of the symbol; others may have any size.
        padded: names of those sizes that calls are padded to.
        told: names of the symbols whose sizes such a function is told, in order.
    """

    export: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    padded: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the sizes as text: `batch 8, length up to 128`, or `any sizes`."""
        rows = self.sizes.items()
        parts = (f"{k} {'up to ' if k in self.padded else ''}{n}" for k, n in rows)
        return ", ".join(parts) or "any sizes"

    def computes(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the code computes calls of these sizes."""
        return all(
            sizes[name] <= size if name in self.padded else sizes[name] == size
            for name, size in self.sizes.items()
        )


def best_code(codes: Iterable[Code], sizes: Mapping[str, int]) -> Code | None:
    """Return the code that pads a call least, then the most specialized; None if none
    computes it.

    Args:
        codes: of an entry.
        sizes: of the call, by name of the symbol.
    """
    fitting = (each for each in codes if each.computes(sizes))
    return min(fitting, key=_rank, default=None)


def _rank(code: Code) -> tuple[int, int]:
    """Return the sort key of a code: its padded elements, then how few sizes are
    fixed.
    """
    return math.prod(code.sizes[name] for name in code.padded), -len(code.sizes)


@dataclass(frozen=True)
class DeviceAxis:
    """The devices that compute a call together, each in a process or a thread.

    `axis` is what the model calls them, and `count` how many there are.
    """

    axis: str
    count: int


@dataclass(frozen=True)
class EntryPoint:
    """An exported function of the model, with its inputs, outputs, states and guards.

    `intermediates` are the largest tensors in between, where sizes have no limit, and
    `devices` those that compute a call together, if it takes several.
    """

    name: str
    kind: str
    inputs: tuple[Leaf, ...]
    arguments: Any
    outputs: tuple[Leaf, ...]
    result: Any
    reads: tuple[str, ...]
    updates: tuple[str, ...]
    guards: tuple[Guard, ...] = ()
    intermediates: tuple[Leaf, ...] = ()
    specializations: tuple[Code, ...] = ()
    has_general_code: bool = True
    devices: DeviceAxis | None = None

    @property
    def codes(self) -> tuple[Code, ...]:
        """The codes that compute calls, the general one first if there is one."""
        general = (Code(self.name),) if self.has_general_code else ()
        return general + self.specializations

    @property
    def exports(self) -> tuple[str, ...]:
        """Names of the exported functions that compute calls, in the order of
        `codes`.
        """
        return tuple(each.export for each in self.codes)

    def largest_with_code(self, symbol: str) -> int | None:
        """Return the largest size of a symbol that has code; None for no limit."""
        sizes = [each.sizes.get(symbol) for each in self.codes]
        known = [size for size in sizes if size is not None]
        return max(known) if len(known) == len(sizes) else None

    def route_for(
        self, sizes: Mapping[str, int], symbols: Mapping[str, Symbol]
    ) -> str | None:
        """Return the route of calls without code, `route:f` or `callback:f`; None if
        there is none.

        Only if each size that has no code says so; the first one decides.
        """
        missed = [name for name in sizes if not self.has_code_of(name, sizes[name])]
        policies = [symbols[name].policy for name in missed]
        elsewhere = all(
            policy.startswith(("route:", "callback:")) for policy in policies
        )
        return policies[0] if policies and elsewhere else None

    def has_code_of(self, symbol: str, size: int) -> bool:
        """Return whether any code accepts a size of one symbol, for some sizes of the
        others.
        """
        return any(self._accepts_size(code, symbol, size) for code in self.codes)

    @staticmethod
    def _accepts_size(code: Code, name: str, size: int) -> bool:
        """Return whether `code` accepts a size of one symbol, for some sizes of the
        others.
        """
        known = code.sizes.get(name, size)
        return size <= known if name in code.padded else size == known

    def code_for(self, sizes: Mapping[str, int]) -> Code | None:
        """Return the best code for calls of these sizes; None if there is none.

        Args:
            sizes: of all its symbols, by name.
        """
        return best_code(self.codes, sizes)


@dataclass(frozen=True)
class ManifestState:
    """A named state that the module keeps between calls, and how to read and write
    it.
    """

    name: str
    read: str
    write: str
    leaves: tuple[Leaf, ...]
    tree: Any


@dataclass(frozen=True)
class ManifestWeights:
    """A file of parameters and the variants that need it (none named: all)."""

    file: str
    format: str
    scope: str
    required_by: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A compiled module; `selection` finds the best one for a device.

    `memory` is by the function that computes calls; of those that are not in it,
    `memory_unknown` says why. `kernels` and `dispatches` are None in bundles that do
    not tell of them.
    """

    id: str
    file: str
    backend: str
    target: Mapping[str, Any]
    flags: tuple[str, ...]
    runtime_abi: Mapping[str, Any]
    memory: Mapping[str, Any]
    kernels: Mapping[str, Any] | None = None
    dispatches: int | None = None
    memory_unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class File:
    """A file of the bundle, with its expected size and digest.

    `chunks` has the digests of its parts, if it is large.
    """

    path: str
    role: str
    media_type: str
    size: int
    sha256: str
    chunks: Chunks | None = None


@dataclass(frozen=True)
class Manifest:
    """A validated manifest: what a bundle contains and what it needs.

    Args:
        data: the JSON object. Fields that this version does not know are kept.

    Raises:
        VerificationError: `manifest-version`, `manifest-feature`, `manifest-invalid`.
    """

    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_version(self.data)
        _check_features(self.data)
        try:
            schema.check(self.data)
        except Invalid as error:
            raise _manifest_error(str(error)) from None

    @classmethod
    def read(cls, data: bytes) -> Manifest:
        """Parse and validate the bytes of a manifest file.

        Raises:
            VerificationError: the bytes are not a manifest in canonical form.
        """
        try:
            manifest = cls(strict_json.parse(data))
        except ValueError as error:
            raise _manifest_error(f"{FILE} {error}") from None
        if manifest.to_bytes() != data:
            raise _manifest_error(f"{FILE} is not in canonical form")
        return manifest

    def to_bytes(self) -> bytes:
        """Return the bytes of the manifest file, in canonical form."""
        return strict_json.dump(self.data)

    @property
    def identity(self) -> str:
        """The SHA-256 of the manifest file, which identifies the bundle."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the model."""
        return str(self.data["name"])

    @property
    def version(self) -> str:
        """The version of the model."""
        return str(self.data["version"])

    @property
    def channel(self) -> str:
        """The channel: `development`, `release` or `unsigned`."""
        return str(self.data["channel"])

    @property
    def compiler_version(self) -> str:
        """The version of the IREE compiler that made the variants."""
        return str(self.data["toolchain"]["iree_compiler"]["version"])

    @cached_property
    def symbols(self) -> dict[str, Symbol]:
        """The contracts of the symbolic dimensions, by name."""
        return {
            name: Symbol(
                s["min"],
                s.get("max"),
                s.get("multiple_of", 1),
                s.get("policy", "dynamic"),
                s.get("where", ""),
                s.get("optimum"),
            )
            for name, s in self.data["symbols"].items()
        }

    @cached_property
    def entry_points(self) -> dict[str, EntryPoint]:
        """The entry points by name."""
        return {e["name"]: read_entry_point(e) for e in self.data["entry_points"]}

    @property
    def devices(self) -> DeviceAxis | None:
        """The device axis of entries that run on several devices; None without any."""
        found = (each.devices for each in self.entry_points.values() if each.devices)
        return next(found, None)

    @cached_property
    def states(self) -> dict[str, ManifestState]:
        """The states by name."""
        return {
            s["name"]: ManifestState(
                s["name"], s["read"], s["write"], _leaves(s["leaves"]), s["tree"]
            )
            for s in self.data["states"]
        }

    @cached_property
    def weights(self) -> tuple[ManifestWeights, ...]:
        """The files of parameters."""
        return tuple(
            ManifestWeights(
                w["file"], w["format"], w["scope"], tuple(w.get("required_by", ()))
            )
            for w in self.data["weights"]
        )

    @cached_property
    def variants(self) -> dict[str, Variant]:
        """The compiled modules, by id."""
        return {v["id"]: _variant(v) for v in self.data["variants"]}

    @cached_property
    def files(self) -> dict[str, File]:
        """Every file of the bundle but the manifest and its signature, by path."""
        return {row["path"]: _file(row) for row in self.data["files"]}


def _file(row: JsonObject) -> File:
    """Return a row of the manifest's files as a `File`."""
    facts = {name: value for name, value in row.items() if name in _FILE_FIELDS}
    return File(**facts, chunks=Chunks.of_json(row.get("chunks")))


def _leaves(items: list[dict[str, Any]]) -> tuple[Leaf, ...]:
    """Return JSON rows of arrays as leaves."""
    return tuple(
        Leaf(
            i["name"],
            i["dtype"],
            tuple(i["shape"]),
            i.get("layout", ""),
            i.get("where", ""),
        )
        for i in items
    )


def read_entry_point(entry: JsonObject) -> EntryPoint:
    """Return an `EntryPoint` from its JSON object in a validated manifest."""
    return EntryPoint(
        name=entry["name"],
        kind=entry["kind"],
        inputs=_leaves(entry["inputs"]),
        arguments=entry["arguments"],
        outputs=_leaves(entry["outputs"]),
        result=entry["result"],
        reads=tuple(entry["reads"]),
        updates=tuple(entry["updates"]),
        intermediates=_leaves(entry.get("intermediates", [])),
        guards=tuple(
            Guard(g["condition"], g["message"], g.get("where", ""))
            for g in entry.get("guards", ())
        ),
        specializations=tuple(
            Code(
                s["export"],
                s["sizes"],
                tuple(s.get("padded", ())),
                tuple(s.get("told", ())),
            )
            for s in entry.get("specializations", ())
        ),
        has_general_code=entry.get("has_general_code", True),
        devices=DeviceAxis(**entry["devices"]) if "devices" in entry else None,
    )


def _variant(variant: JsonObject) -> Variant:
    """Return a JSON row of a compiled module as a `Variant`."""
    return Variant(
        id=variant["id"],
        file=variant["file"],
        backend=variant["backend"],
        target=variant["target"],
        flags=tuple(variant.get("flags", ())),
        runtime_abi=variant["runtime_abi"],
        memory=variant.get("memory", {}),
        kernels=variant.get("kernels"),
        dispatches=variant.get("statistics", {}).get("dispatches"),
        memory_unknown=variant.get("memory_unknown", {}),
    )


def _check_version(data: object) -> None:
    """Raise unless the manifest's schema and major version are supported."""
    schema_id = data.get("schema") if isinstance(data, Mapping) else None
    schema_id = schema_id if isinstance(schema_id, str) else repr(schema_id)
    name, _, major = schema_id.partition("/")
    if name != _SCHEMA:
        raise _manifest_error(
            f"$.schema: expected {_SCHEMA}/{_MAJOR}, got {short_text(repr(schema_id))}"
        )
    if major != _MAJOR:
        raise VerificationError(
            "manifest-version",
            f"expected manifest schema {_SCHEMA}/{_MAJOR}, got {short_text(schema_id)}",
            where=FILE,
            hint="update aotc on this machine, or rebuild the bundle",
        )


def _check_features(data: Mapping[str, object]) -> None:
    """Raise if the manifest requires a feature that this version does not know."""
    features = data.get("requires_features")
    if not isinstance(features, list):
        raise _manifest_error("$.requires_features: expected a list")
    if not all(isinstance(name, str) for name in features):
        raise _manifest_error("$.requires_features: expected a list of names")
    unknown = [short_text(name) for name in features if name not in _FEATURES]
    if unknown:
        raise VerificationError(
            "manifest-feature",
            f"this aotc does not know what the bundle requires: "
            f"{', '.join(unknown[:_LISTED])}",
            where=FILE,
            hint="update aotc on this machine",
        )


def _manifest_error(message: str) -> VerificationError:
    """Return the error for an invalid manifest."""
    return VerificationError("manifest-invalid", message, where=FILE)
