"""Kernels for Arm against the reference evaluator, on an emulated processor.

    python -m benchmarks.emulation FOLDER [--target aarch64] [--random N] [MODEL …]

FOLDER holds the Python for Arm, which is made if it is not there (`python`). Models of
all families of kernels (of the tests, examples, and random ones of `shapes` and of
`benchmarks.fuzz.weighted`) are built for the target, and the self-check of the build
compares every entry with the reference, at several sizes, in that Python. A line for
each model; exits with 1 if any does not build, computes something else, or is not
compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aotc.core import options
from aotc.errors import AotcError
from aotc.machine.target import Target
from aotc.pipeline import build
from benchmarks.emulation.python import ARCH, make_python
from benchmarks.emulation.shapes import KINDS, model_source
from benchmarks.frontends.kernel_sizes import write_kernels_of_any_size
from benchmarks.fuzz.weighted import drawn_entries, source_of, used_families

ROOT = Path(__file__).parents[2]
MODELS = (
    *(f"tests/kernels/{name}.py" for name in ("contractions", "changing_products")),
    *(
        f"tests/kernels/{name}.py"
        for name in ("windows", "rows", "symbolic", "normed_images")
    ),
    *(
        f"tests/kernels/{name}.py"
        for name in ("integers", "bytes", "narrow_floats", "sorts")
    ),
    *(f"tests/kernels/{name}.py" for name in ("joined", "groups", "gates")),
    *(
        f"tests/kernels/{name}.py"
        for name in ("concatenations", "chains", "transposes")
    ),
    "tests/kernels/dequantised_weights.py",
    *(f"examples/{name}/model.py" for name in ("digits", "cnn", "resnet", "unet")),
    *(f"examples/{name}/model.py" for name in ("bert", "vit", "gpt", "dit", "moe")),
)
# of QEMU: processors that have no more than a target needs
CPUS = {
    "aarch64": "cortex-a72",
    "aarch64-v8.2": "neoverse-n1",
    "aarch64-v8.6": "max",
}


def wrong_in(model: Path, target: Target, kernels: Counter[str]) -> str:
    """Build and self-check a model under emulation; describe what is wrong, or ""."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            report = build(
                model,
                output=Path(folder),
                targets=[target],
                self_check="auto",
                sign=False,
            )
        except AotcError as error:
            return f"{error.code}: {str(error).splitlines()[0]}"
        assert report.bundle is not None
        kernels.update(used_families(report.bundle))
        missed = [row.entry for row in report.self_checks if not row.checked]
        return f"not compared: {', '.join(missed)}" if missed else ""


def random_models(first: int, count: int, entries: int, folder: Path) -> Iterator[Path]:
    """Write model files with random entries, of one op or several, and yield their
    paths.
    """
    for seed in range(first, first + count):
        sources = {
            "one_op": model_source(seed, -(-entries // KINDS)),
            "several_ops": source_of(drawn_entries(seed, entries)),
        }
        for kind, source in sources.items():
            file = folder / f"{kind}_{seed}.py"
            file.write_text(source, encoding="utf-8")
            yield file


def main() -> int:
    """Build random models and compare them under emulation."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.emulation", description=__doc__
    )
    add = parser.add_argument
    add("folder", type=Path, help="of the Python for Arm")
    add("models", nargs="*", type=Path, help="by default those of all families")
    add("--target", choices=CPUS, default="aarch64")
    add("--random", type=int, default=4, help="random models (4)")
    add("--entries", type=int, default=20, help="of a random model (20)")
    add("--seed", type=int, default=0, help="of the first random one")
    asked, target = parser.parse_intermixed_args(), None
    target = Target.parse(asked.target)
    os.environ["QEMU_CPU"] = CPUS[asked.target]
    warnings.simplefilter("ignore")
    failed, kernels = 0, Counter[str]()

    def compare(model: Path) -> None:
        nonlocal failed
        wrong = wrong_in(model, target, kernels)
        failed += bool(wrong)
        print(
            f"{model.stem if model.stem != 'model' else model.parent.name}: "
            f"{wrong or 'agrees'}",
            flush=True,
        )

    python = make_python(asked.folder)
    with (
        options.override("AOTC_PYTHONS", f"{ARCH}={python}"),
        tempfile.TemporaryDirectory() as scratch,
    ):
        for model in asked.models or [ROOT / name for name in MODELS]:
            compare(model)
        write_kernels_of_any_size()  # for what follows: small operators
        given = asked.seed, asked.random, asked.entries, Path(scratch)
        for model in random_models(*given):
            compare(model)
    print(f"{failed} models failed; kernels: {dict(kernels)}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
