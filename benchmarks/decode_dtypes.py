"""Time a step of a decoder whose weights and activations are of several dtypes.

    python benchmarks/decode_dtypes.py [--size 348M] [--target TARGET] [--rounds 8]

Builds the step of `decoders/sized.py` with weights of each dtype; activations and its
cache are of the same. Processor time of one thread, the least of some calls, which are
made in turns, so that a busy machine disturbs it little; and the bytes of weights that
it reads a second.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from build_memory import ITEM, SIZES, write_model

import aotc
from aotc.machine.target import Target
from aotc.pipeline import build

CALLS = 2  # one after the other, of each round
POSITION = 127


def main() -> None:
    """Print a row for each dtype."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", default="348M", choices=SIZES)
    parser.add_argument("--target", default="x86_64-v4-dot", type=Target.parse)
    parser.add_argument("--rounds", type=int, default=8)
    asked = parser.parse_args()
    size, best = SIZES[asked.size], dict.fromkeys(ITEM, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        models = {
            dtype: _built(size, dtype, Path(folder) / dtype, asked.target)
            for dtype in ITEM
        }
        given = {"tokens": np.zeros((1, 1), "i4"), "position": np.array(POSITION, "i4")}
        for _ in range(asked.rounds):
            for dtype, model in models.items():
                for _ in range(CALLS):
                    start = time.process_time()
                    model.entries["step"](**given)
                    spent = time.process_time() - start
                    best[dtype] = min(best[dtype], spent)
    read = sum(int(np.prod(shape)) for name, shape in size.tensors() if name != "words")
    print("| dtype | ms | GB/s | f32 / it |\n|---|--:|--:|--:|")
    for dtype, least in best.items():
        rate = read * ITEM[dtype] / least / 1e9
        print(
            f"| {dtype} | {1e3 * least:.2f} | {rate:.1f} | {best['f32'] / least:.2f} |"
        )


def _built(size: object, dtype: str, folder: Path, target: Target) -> aotc.Model:
    """Build a decoder with weights of a dtype; return the loaded model."""
    folder.mkdir()
    write_model(size, dtype, folder / "model.py")
    report = build(
        folder / "model.py",
        output=folder / "out",
        targets=[target],
        entries=["step"],
        self_check="off",
        sign=False,
    )
    return aotc.load(report.bundle, allow_unsigned=True, threads=1)


if __name__ == "__main__":
    main()
