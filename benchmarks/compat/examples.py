"""A page of which example runs on which shipped device; builds the examples.

    python -m benchmarks.compat.examples [--build [EXAMPLE …]] [--missing] [--write]

`--build` compiles the examples (or those named) for `TARGETS`, one module at a time,
and keeps what their manifests say of compatibility in examples.json, beside this file.
With `--missing` it compiles for those targets alone of which the file says nothing.
From it and from the table of devices `--write` makes docs/examples-on-devices.md, for
which nothing is compiled; without `--write` the page is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc.core import options
from aotc.errors import CompileError
from aotc.machine.target import Target
from aotc.pipeline import build
from benchmarks.compat.examples_page import page
from benchmarks.compat.runtimes import as_lines

ROOT = Path(__file__).parents[2]
FACTS = Path(__file__).with_name("examples.json")
PAGE = ROOT / "docs" / "examples-on-devices.md"
# One for each of the largest families of devices; the page names what others need.
TARGETS = (
    *("x86_64-v3", "x86_64-v2", "aarch64", "riscv64"),
    *("cuda:sm_80", "rocm:gfx942", "vulkan"),
)
_VARIANT_FACTS = ("id", "file", "backend", "target", "runtime_abi", "memory")


def examples() -> list[str]:
    """Return the folders of `examples/` that have a model."""
    return sorted(file.parent.name for file in ROOT.glob("examples/*/model.py"))


def facts() -> list[dict[str, Any]]:
    """Return the rows of examples.json: of each example the manifest, and what
    failed.
    """
    found: list[dict[str, Any]] = json.loads(FACTS.read_text(encoding="utf-8"))["rows"]
    return found


def built(example: str, targets: Sequence[str]) -> dict[str, Any]:
    """Compile an example for all targets that can have it; return a row of
    examples.json.
    """
    chosen = [Target.parse(name) for name in targets]
    refused: dict[str, str] = {}
    while True:
        try:
            data = _manifest(example, chosen)
        except CompileError as error:
            failed = [each for each in chosen if f"'{each}'" in error.message]
            if not failed:
                raise
            refused[str(failed[0])] = f"{error.message} [{error.code}]"
            chosen.remove(failed[0])
        else:
            return {"example": example, "refused": refused, "manifest": reduced(data)}


def _manifest(example: str, targets: Sequence[Target]) -> dict[str, Any]:
    """Build a bundle for these targets, delete it, and return its manifest."""
    model = ROOT / "examples" / example / "model.py"
    one_at_a_time = options.override("AOTC_JOBS", "1")
    with tempfile.TemporaryDirectory() as folder, one_at_a_time:
        report = build(
            model, targets=targets, output=Path(folder), sign=False, self_check="off"
        )
        text = (Path(str(report.bundle)) / "manifest.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def reduced(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid manifest with only those fields that compatibility depends on."""
    nothing = {
        "inputs": [], "outputs": [], "reads": [], "updates": [],
        "arguments": {"dict": {}}, "result": {"tuple": []},
    }  # fmt: skip
    variants = [{key: v[key] for key in _VARIANT_FACTS} for v in manifest["variants"]]
    files = {variant["file"] for variant in variants}
    release = manifest["toolchain"]["iree_compiler"]["version"]
    return {
        **{key: manifest[key] for key in ("schema", "name", "version", "channel")},
        "requires_features": manifest["requires_features"],
        "toolchain": {"iree_compiler": {"version": release}},
        "symbols": {},
        "entry_points": [
            {"name": each["name"], "kind": each["kind"], **nothing}
            for each in manifest["entry_points"]
        ],
        "states": [],
        "weights": [],
        "variants": variants,
        "files": [file for file in manifest["files"] if file["path"] in files],
    }


def missing(example: str) -> list[str]:
    """Return the targets for which examples.json has no result of an example."""
    told = {
        target
        for row in facts()
        if row["example"] == example
        for target in (*row["refused"], *(v["target"]["name"] for v in _variants(row)))
    }
    return [target for target in TARGETS if target not in told]


def _variants(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the variants of the manifest in a row of examples.json."""
    found: list[dict[str, Any]] = row["manifest"]["variants"]
    return found


def joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return two rows of one example merged; the new row wins for targets in both.

    Targets are in the order of `TARGETS`, and what is none of these is left out.
    """
    built = {v["target"]["name"]: v for row in (old, new) for v in _variants(row)}
    refused = {**old["refused"], **new["refused"]}
    for target in new["refused"]:
        built.pop(target, None)
    for variant in _variants(new):
        refused.pop(variant["target"]["name"], None)
    variants = [built[target] for target in TARGETS if target in built]
    files = {
        file["path"]: file for row in (old, new) for file in row["manifest"]["files"]
    }
    return {
        "example": new["example"],
        "refused": {target: refused[target] for target in TARGETS if target in refused},
        "manifest": {
            **new["manifest"],
            "variants": variants,
            "files": [files[path] for path in sorted(v["file"] for v in variants)],
        },
    }


def keep(row: Mapping[str, Any]) -> None:
    """Write a row to examples.json, merged with the row of the same example."""
    rows = {each["example"]: each for each in facts()} if FACTS.exists() else {}
    old = rows.get(row["example"])
    rows[row["example"]] = joined(old, row) if old else dict(row)
    command = "python -m benchmarks.compat.examples --build --write"
    header = {"schema": "aotc.table.examples/1", "command": command}
    FACTS.write_text(as_lines(header, [rows[name] for name in sorted(rows)]))


def current_page() -> str:
    """Return the page's text from examples.json and the compatibility tables."""
    rows = facts()
    known = {row["example"] for row in rows}
    return page(rows, [name for name in examples() if name not in known])


def main(arguments: Iterable[str] | None = None) -> None:
    """Build examples if asked to; print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", nargs="*", metavar="EXAMPLE")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    if chosen.build is not None:
        for example in chosen.build or examples():
            targets = missing(example) if chosen.missing else TARGETS
            if targets:
                keep(built(example, targets))
                print(example, file=sys.stderr, flush=True)
    text = current_page()
    if chosen.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
