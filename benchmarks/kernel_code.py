"""Compare the code of kernels that two versions of aotc write.

    python benchmarks/kernel_code.py write FOLDER MODEL... [--targets TARGET...]
    python benchmarks/kernel_code.py compare OLD NEW

`write` builds each model as far as its kernels are written, which compiles nothing, and
puts each kernel's IR into a file. Weights are no part of it. `compare` says which are
not the same, and exits 1 if any are. A refactoring of kernels runs `write` before and
after.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from aotc.dialects.functions.function_table import name_of
from aotc.kernels.lowered import KERNEL
from aotc.machine.target import Target
from aotc.mlir import Module
from aotc.pipeline import build
from aotc.programs.files import read_program

TARGETS = ("x86_64-v3", "x86_64-v4", "aarch64", "riscv64-v")


def main() -> None:
    """Write the kernels of a model, or compare two folders of kernels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing = verbs.add_parser("write", help="write the code of kernels of models")
    writing.add_argument("folder", type=Path)
    writing.add_argument("models", nargs="+", type=Path)
    writing.add_argument("--targets", nargs="+", default=TARGETS)
    comparing = verbs.add_parser("compare", help="say which kernels differ")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    asked = parser.parse_args()
    if asked.verb == "write":
        for model in asked.models:
            write_kernels(asked.folder, model, asked.targets)
    else:
        sys.exit(compare(asked.old, asked.new))


def write_kernels(folder: Path, model: Path, targets: list[str]) -> None:
    """Write the kernels of a model for some targets into a folder."""
    name = "-".join(model.with_suffix("").parts[-2:])
    with tempfile.TemporaryDirectory() as dumped:
        parsed = [Target.parse(target) for target in targets]
        build(model, targets=parsed, dump=Path(dumped), stop_after="linalg")
        for path in sorted(Path(dumped).rglob("linalg.mlir")):
            place = folder / name / path.parent.name
            place.mkdir(parents=True, exist_ok=True)
            for kernel, text in kernels_in(read_program(path).module):
                (place / f"{kernel}.mlir").write_text(text)


def kernels_in(module: Module) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each kernel of a lowered module, without lines."""
    for op in module.body.operations:
        if KERNEL in op.attributes:
            yield name_of(op), op.get_asm(enable_debug_info=False)


def compare(old: Path, new: Path) -> int:
    """Print the kernels that differ between two folders; return 1 if any do."""
    files = [
        {path.relative_to(folder) for path in folder.rglob("*.mlir")}
        for folder in (old, new)
    ]
    differing = [
        path
        for path in sorted(files[0] & files[1])
        if (old / path).read_text() != (new / path).read_text()
    ]
    for path in differing:
        texts = [(folder / path).read_text().splitlines() for folder in (old, new)]
        lines = [*unified_diff(*texts, lineterm="", n=0)]
        print(f"{path}: {len(lines)} lines differ, such as {lines[3:5]}")
    for path in sorted(files[0] ^ files[1]):
        print(f"{path}: only in {old if path in files[0] else new}")
    same = len(files[0] & files[1]) - len(differing)
    print(f"{same} kernels are the same, {len(differing)} differ")
    return int(bool(differing) or files[0] != files[1])


if __name__ == "__main__":
    main()
