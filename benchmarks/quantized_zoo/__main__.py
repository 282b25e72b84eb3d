"""Compare quantised models of five kinds with their own runtimes.

    pip install -e '.[compiler,onnx,torch]' onnxruntime onnxscript nncf torchao gguf
    cd benchmarks && python -m quantized_zoo [--models KIND...] [--target TARGET]

A row for each model: the framework that quantised it, the largest difference from its
own runtime over the largest number that this gives, on inputs that nothing was
calibrated with, how often the largest element of a row is the same one, the bytes of
weights over those of the file, and of how many weights the build warns, because each
call dequantises them (why, on standard error). Exits with 1 where a difference is
beyond its bound (`MOST_OF_BYTES`, `MOST_OF_FLOATS`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import aotc
from aotc.errors import AotcError
from aotc.machine.target import Target, cpu_level
from aotc.pipeline import build

from .networks import NETWORKS
from .quantizers import quantize

MODELS = (
    ("residual", "QDQ u8s8"),
    ("residual", "QOperator u8s8"),
    ("mobile", "QDQ u8u8"),
    ("gated", "NNCF"),
    ("residual", "PT2E"),
    ("pyramid", "QDQ u8s8"),
    ("pyramid", "QOperator u8s8"),
    ("scales", "NNCF"),
    ("scales", "PT2E"),
    ("encoder", "dynamic"),
    ("encoder", "QDQ s8s8"),
    ("encoder", "NNCF"),
    ("encoder", "torchao int8 dynamic"),
    ("decoder", "dynamic"),
    ("decoder", "MatMulNBits"),
    ("decoder", "torchao int8 weights"),
    ("decoder", "GGUF Q4_0"),
    ("decoder", "GGUF Q8_0"),
    ("separable", "QDQ u8s8"),
    ("listener", "dynamic"),
    ("listener", "NNCF"),
)
INPUTS = range(100, 116)  # seeds
# of the largest number: what a step of bytes that rounding decides may carry on to, and
# what is left where nothing is rounded to bytes
MOST_OF_BYTES, MOST_OF_FLOATS = 0.05, 1e-4
OF_FLOATS = ("MatMulNBits", "torchao int8 weights", "GGUF Q4_0", "GGUF Q8_0")
HEAD = (
    "| kind | network | quantised by | largest difference | same largest "
    "| bytes | dequantised |\n|---|---|---|--:|--:|--:|--:|"
)


@dataclass(frozen=True)
class Comparison:
    """The agreement of a built quantised model with its own runtime.

    Args:
        difference: the largest one, over the largest number.
        same: the share of rows whose largest element is the same.
        bytes: of weights, over those of the file.
        warned: of weights that each call dequantises, and why.
        most: what the difference may be.
    """

    difference: float
    same: float
    bytes: float
    warned: tuple[str, ...]
    most: float


def compare(name: str, how: str, target: Target, folder: Path) -> Comparison:
    """Quantise a network, build it, and compare it with its own runtime."""
    network = NETWORKS[name]
    file, run = quantize(network, how, folder)
    asked = {"targets": [target], "self_check": "off", "sign": False}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = build(file, output=folder / "built", name="m", **asked)
    assert report.bundle is not None
    (entry,) = aotc.load(report.bundle, allow_unsigned=True).entries.values()
    differences, same, largest = [], [], []
    for seed in INPUTS:
        x = network.input(seed)
        wanted, found = run(x), np.asarray(entry(x))
        differences.append(np.abs(found - wanted).max())
        largest.append(np.abs(wanted).max())
        same.append((found.argmax(-1) == wanted.argmax(-1)).mean())
    source = file.with_name("x.gguf") if file.suffix == ".py" else file
    stored = (report.bundle / "weights.irpa").stat().st_size
    return Comparison(
        difference=max(differences) / max(largest),
        same=float(np.mean(same)),
        bytes=stored / source.stat().st_size,
        warned=tuple(x for x in map(_text, told) if "dequantises a weight" in x),
        most=MOST_OF_FLOATS if how in OF_FLOATS else MOST_OF_BYTES,
    )


def _text(warning: warnings.WarningMessage) -> str:
    """Return a warning's message."""
    return str(warning.message)


def main() -> int:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="*", default=[], help="kinds or networks")
    parser.add_argument("--target", default=cpu_level(), help="this machine's level")
    asked, failed = parser.parse_args(), 0
    print(HEAD)
    for name, how in MODELS:
        kind = NETWORKS[name].kind
        if asked.models and not {name, kind} & {*asked.models}:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = compare(name, how, Target.parse(asked.target), Path(folder))
            except AotcError as error:
                failed += 1
                print(f"| {kind} | {name} | {how} | {error.code}: {error} |")
                continue
        failed += found.difference > found.most
        print(
            f"| {kind} | {name} | {how} | {found.difference:.1e} "
            f"| {100 * found.same:.1f} % | {found.bytes:.2f} | {len(found.warned)} |",
            flush=True,
        )
        for text in found.warned:
            print(f"{name}, {how}: {text}", file=sys.stderr)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
