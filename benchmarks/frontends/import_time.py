"""Times of PyTorch's export and aotc's import of real networks.

    python benchmarks/frontends/import_time.py [NAME …] [--repeat N]

BERT-base and ResNet-50 with random weights, and batch and length that vary. `export` is
torch.export's share, `import` all that aotc adds until the graph dialect has the model.
The figures are medians, after one run that is not counted.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
import warnings
from pathlib import Path

import torch
import transformers as hf
from torch.export import Dim

from aotc.importers.torch.exporting import export_program
from aotc.importers.torch.network import network_of

BATCH = Dim("batch", max=64)


def bert():
    """Return BERT-base in PyTorch: 12 layers, 110 million parameters."""
    words = torch.ones(2, 128, dtype=torch.int64)
    varying = {0: BATCH, 1: Dim("length", min=2, max=512)}
    inputs = {"input_ids": words, "attention_mask": words}
    return hf.BertModel(hf.BertConfig()), inputs, dict.fromkeys(inputs, varying)


def resnet():
    """Return ResNet-50 in PyTorch: 26 million parameters."""
    module = hf.ResNetForImageClassification(hf.ResNetConfig())
    inputs = {"pixel_values": torch.randn(2, 3, 224, 224)}
    return module, inputs, {"pixel_values": {0: BATCH}}


MODELS = (bert, resnet)


def times(module, inputs, shapes) -> tuple[float, float]:
    """Return the seconds of torch's export and of aotc's import."""
    start = time.perf_counter()
    program = export_program(module, (), inputs, shapes)
    between = time.perf_counter()
    network_of(program).program("main")
    return between - start, time.perf_counter() - between


def cpu() -> str:
    """Return the CPU's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return f"{names[0] if names else platform.processor()}, {len(names)} cores"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(f"torch {torch.__version__}, {cpu()}\n")
    print("| model | export, s | import, s | total, s |\n|---|--:|--:|--:|")
    for model in MODELS:
        if options.names and model.__name__ not in options.names:
            continue
        module, inputs, shapes = model()
        runs = [times(module.eval(), inputs, shapes) for _ in range(options.repeat + 1)]
        export, own = map(statistics.median, zip(*runs[1:], strict=True))
        name = model.__doc__.partition(":")[0]
        print(f"| {name} | {export:.1f} | {own:.1f} | {export + own:.1f} |", flush=True)


if __name__ == "__main__":
    main()
