"""Origins of a bundle as JSON files: its bill of materials and its provenance.

Both depend on source and toolchain alone, so equal builds give equal bytes. They
are covered by the bundle's signature like every other file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version as installed_version

from aotc import __version__
from aotc.artifacts.pack import Content, FinishedFile
from aotc.backend import CompiledVariant
from aotc.core.json_values import JsonObject
from aotc.mlir import PACKAGE
from aotc.programs.program import Program

# import name of the bindings → distribution
BINDINGS = {"mlir": "mlir-python-bindings", "torch_mlir": "torch-mlir"}[PACKAGE]
BUILD_TYPE = "urn:aotc:build:1"

Digests = Mapping[str, str]  # SHA-256 in hexadecimal by path in the bundle


def digests(files: Mapping[str, Content]) -> Digests:
    """Return the SHA-256 of each file by path, in sorted order.

    What is not hashed yet is read once.
    """
    return {path: _sha256(content) for path, content in sorted(files.items())}


def tools(variants: Sequence[CompiledVariant]) -> dict[str, str]:
    """Return the versions of the distributions that compiled the modules, by name."""
    return {
        "aotc": __version__,
        "iree-base-compiler": variants[0].compiler["version"],
        BINDINGS: installed_version(BINDINGS),
    }


def sbom(
    variants: Sequence[CompiledVariant], files: Digests, title: tuple[str, str]
) -> bytes:
    """Return the bill of materials as CycloneDX 1.6 JSON: files and tools."""
    name, version = title
    components = [
        {"type": "application", "name": tool, "version": release}
        for tool, release in tools(variants).items()
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "machine-learning-model",
                "name": name,
                "version": version,
            },
            "tools": {"components": components},
        },
        "components": [
            {
                "type": "file",
                "name": path,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
            for path, digest in files.items()
        ],
    }
    return _canonical(document)


def provenance(
    program: Program, variants: Sequence[CompiledVariant], files: Digests
) -> bytes:
    """Return an in-toto statement with SLSA provenance v1 on modules and weights, as
    JSON.

    Its builder is the tool, and it names no person, machine or time: who vouches for
    the build is told by the signature, and equal builds are to be equal.
    """
    source = program.source
    dependencies = [
        {"uri": f"pkg:pypi/{tool}@{release}"}
        for tool, release in tools(variants).items()
    ]
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path, "digest": {"sha256": digest}}
            for path, digest in files.items()
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "source": source["file"],
                    "entries": [entry.name for entry in program.entry_points],
                    **_specializations(program),
                    "targets": [str(variant.target) for variant in variants],
                    "numerics": program.numerics,
                },
                "resolvedDependencies": [
                    {"name": source["file"], "digest": {"sha256": source["sha256"]}},
                    *_tuning(program),
                    *dependencies,
                ],
            },
            "runDetails": {"builder": {"id": f"pkg:pypi/aotc@{__version__}"}},
        },
    }
    return _canonical(document)


def _specializations(program: Program) -> dict[str, object]:
    """Return the sizes that entries are specialized for; empty without any."""
    rows = [
        {
            "entry": entry.name,
            "sizes": dict(special.sizes),
            **({"padded": [*special.padded]} if special.padded else {}),
        }
        for entry in program.entry_points
        for special in program.specializations_of(entry.name).values()
    ]
    return {"specializations": rows} if rows else {}


def _tuning(program: Program) -> list[dict[str, object]]:
    """Return the tuning file as a dependency of the build; empty without one."""
    tuning = program.tuning
    if tuning is None:
        return []
    return [{"name": tuning["file"], "digest": {"sha256": tuning["sha256"]}}]


def _sha256(content: Content) -> str:
    """Return the SHA-256 of bytes or a file."""
    if isinstance(content, FinishedFile):
        return content.sha256
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _canonical(document: JsonObject) -> bytes:
    """Return a document as JSON with sorted keys, in ASCII."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode("ascii")
