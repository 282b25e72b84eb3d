"""Imports go one way: the order of the pipeline, read from the sources."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent

# A module may import from its own layer and from those listed for it.
LEAVES = {
    "errors", "exit_status", "options", "target", "device", "gpus", "dtypes", "pytree",
    "json_values", "printing", "system_errors", "writing",
}  # fmt: skip
EDGE = LEAVES | {"artifacts"}
MODEL = EDGE | {"mlir", "dialects"}
PROGRAM = MODEL | {"program"}
ALLOWED = {
    "errors": set(),
    "exit_status": set(),
    "options": LEAVES,
    "target": LEAVES,
    "device": LEAVES,
    "gpus": LEAVES,
    "dtypes": LEAVES,
    "pytree": LEAVES,
    "json_values": LEAVES,
    "printing": LEAVES,
    "system_errors": LEAVES,
    "writing": LEAVES,
    "artifacts": EDGE,
    "runtime": EDGE,
    "training": EDGE | {"runtime"},
    "mlir": LEAVES,
    "dialects": MODEL,
    "program": MODEL,
    "program_files": PROGRAM,
    # numpy, nn, … are the frontend's vocabulary, so they are of its layer
    "frontends": PROGRAM
    | {"numpy", "nn", "random", "optim", "transforms", "control"}
    | {"linalg", "special", "fft", "debug", "program_files"},
    "numpy": MODEL | {"frontends"},
    "nn": MODEL | {"frontends", "numpy", "random", "special", "control"},
    "random": MODEL | {"frontends", "numpy"},
    "fft": MODEL | {"frontends", "numpy"},
    "optim": MODEL | {"frontends", "numpy"},
    "special": MODEL | {"frontends", "numpy"},
    "linalg": MODEL | {"frontends", "numpy", "control"},
    "solvers": MODEL | {"frontends", "numpy", "linalg", "control", "transforms"},
    "debug": MODEL | {"frontends"},
    "collectives": MODEL | {"frontends", "numpy"},
    "transforms": MODEL | {"frontends", "numpy"},
    "control": MODEL | {"frontends", "numpy"},
    "cases": PROGRAM | {"frontends", "passes"},
    "passes": PROGRAM,
    "reference": MODEL | {"passes"},
    "nonfinite": PROGRAM | {"frontends", "passes", "reference"},
    "cache": EDGE,
    "backend": PROGRAM | {"passes", "worker", "cache"},
    "worker": set(),
    "certificate": PROGRAM | {"frontends", "passes", "reference", "backend", "checks"},
    "checks": PROGRAM
    | {"frontends", "passes", "reference", "backend", "artifacts", "runtime", "cache"}
    | {"worker"},
    "parity": PROGRAM | {"frontends", "checks"},
    "budget": PROGRAM | {"passes", "backend"},
    "provenance": PROGRAM | {"backend"},
    "packager": PROGRAM
    | {"backend", "artifacts", "provenance", "certificate", "parity", "checks"}
    | {"program_files"},
    "bundle_output": PROGRAM | {"frontends", "artifacts"},
    "build_report": PROGRAM
    | {"passes", "backend", "budget", "certificate", "checks", "parity"},
    "pipeline": PROGRAM
    | {"frontends", "passes", "backend", "packager", "artifacts", "certificate"}
    | {"budget", "parity", "checks", "cache", "program_files", "bundle_output"}
    | {"build_report"},
    "explain": PROGRAM | {"frontends", "passes", "backend", "pipeline"},
    "cli": EDGE
    | {"cache", "runtime", "training", "pipeline", "explain", "parity", "nonfinite"}
    | {"dialects"},
}


def _layer(module: str) -> str:
    return module.split(".")[1] if module.count(".") else "aotc"


def _modules():
    for folder, prefix in (
        ("aotc", "aotc"),
        *((d, f"aotc.{d}") for d in ("dialects", "passes", "cli", "artifacts")),
    ):
        for file in sorted((ROOT / folder).glob("**/*.py")):
            relative = file.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join((prefix, *relative)).removesuffix(".__init__"), file


def _imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "aotc":
                yield from (f"aotc.{name.name}" for name in node.names)
            else:
                yield node.module


def test_no_import_points_back():
    wrong = []
    for module, file in _modules():
        layer = _layer(module)
        if layer == "aotc":
            continue
        for name in _imported(ast.parse(file.read_text(encoding="utf-8"))):
            if not name.startswith("aotc.") or name == "aotc.__version__":
                continue
            target = _layer(name)
            if target != layer and target not in ALLOWED[layer]:
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_the_bindings_are_imported_in_one_place():
    users = [
        module
        for module, file in _modules()
        for name in _imported(ast.parse(file.read_text(encoding="utf-8")))
        if name.split(".")[0] in ("torch_mlir", "mlir")
    ]
    assert users == []  # aotc.mlir imports them by name, and nothing else does
