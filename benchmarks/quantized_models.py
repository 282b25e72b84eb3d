"""Time models that ONNX Runtime has quantised, by aotc and by ONNX Runtime.

    pip install -e '.[compiler,onnx]' torch onnx onnxscript onnxruntime
    python benchmarks/quantized_models.py [--targets TARGET...] [--threads N...]

Networks for images of 224×224 (ResNet-18 and 50, MobileNetV2, EfficientNet-B0, three
layers of ViT-B/16; U8S8, static, a scale for each feature) and three layers of a
transformer encoder of BERT's size (128 tokens; static and dynamic), with random
weights. Each system runs in processes of its own, in turns. Beside the times stand the
largest difference from the file evaluated node by node, relative to its largest value,
and the bytes of the weights over those of the file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_IMAGE = (1, 3, 224, 224)
SHAPES = {
    "resnet18": _IMAGE,
    "resnet50": _IMAGE,
    "mobilenet": _IMAGE,
    "efficientnet": _IMAGE,
    "vit": _IMAGE,
    "encoder": (1, 128, 768),
}
MODELS = (
    "resnet18-static",
    "resnet50-static",
    "mobilenet-static",
    "efficientnet-static",
    "vit-static",
    "encoder-dynamic",
    "encoder-static",
)
CALLS, WARM = 30, 3
HEAD = (
    "| model | target | threads | aotc, ms | onnxruntime, ms | aotc / onnxruntime "
    "| differs by | weights |\n|---|---|--:|--:|--:|--:|--:|--:|"
)


def main() -> None:
    """Print a row for each model, number of threads and target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", nargs="+", default=["x86_64-v4-dot"])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--call", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.call:
        print(json.dumps(_measure(*asked.call[:2], int(asked.call[2]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        kinds = {name.rpartition("-")[0] for name in asked.models}
        files = dict(_quantized(Path(folder), [x for x in SHAPES if x in kinds]))
        print(HEAD)
        for name in asked.models:
            for target in asked.targets:
                bundle = _build(files[name], target, Path(folder))
                for threads in asked.threads:
                    _print_row(name, target, threads, files[name], bundle, asked.rounds)


def _print_row(
    name: str, target: str, threads: int, file: Path, bundle: Path, rounds: int
) -> None:
    found: dict[str, list[float]] = {"aotc": [], "onnxruntime": []}
    outputs: dict[str, np.ndarray] = {}
    subjects = {"aotc": bundle, "onnxruntime": file}
    for _ in range(rounds):
        for system, path in subjects.items():
            told = _run(system, path, threads)
            found[system] += told["ms"]
            outputs[system] = np.array(told["output"])
    exact = np.array(_run("node by node", file, threads)["output"])
    mine, theirs = (statistics.median(times) for times in found.values())
    error = np.abs(outputs["aotc"] - exact).max() / np.abs(exact).max()
    weights = (bundle / "weights.irpa").stat().st_size / file.stat().st_size
    print(
        f"| {name} | {target} | {threads} | {mine:.2f} | {theirs:.2f} "
        f"| {mine / theirs:.2f} | {error:.1e} | {weights:.3f} |",
        flush=True,
    )


def _run(system: str, path: Path, threads: int) -> dict[str, Any]:
    """Return what a process of its own says of some calls."""
    command = [sys.executable, __file__, "--call", system, str(path), str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _measure(system: str, path: str, threads: int) -> dict[str, Any]:
    kind = next(kind for kind in SHAPES if kind in Path(path).name)
    x = np.random.default_rng(7).standard_normal(SHAPES[kind]).astype("f4")
    call = _caller(system, path, threads)
    output = np.asarray(call(x))
    times = []
    for number in range(WARM + (CALLS if system != "node by node" else 0)):
        start = time.perf_counter()
        call(x)
        if number >= WARM:
            times.append(1e3 * (time.perf_counter() - start))
    return {"ms": times, "output": output.tolist()}


def _caller(system: str, path: str, threads: int) -> Callable[[np.ndarray], Any]:
    if system == "aotc":
        import aotc

        entry = aotc.load(path, threads=threads).entries["main"]
        return lambda x: entry(x)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if system == "node by node":
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(path, options, providers=providers)
    return lambda x: session.run(None, {"x": x})[0]


def _build(file: Path, target: str, folder: Path) -> Path:
    from aotc.pipeline import build
    from aotc.target import Target

    asked = {"targets": [Target.parse(target)], "self_check": "off", "force": True}
    report = build(file, output=folder / target, name=file.stem, **asked)
    assert report.bundle is not None
    return report.bundle


# ---- models -------------------------------------------------------------------------


def _quantized(folder: Path, kinds: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Write the models, and yield the file of each."""
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    for kind in kinds:
        plain, prepared = folder / f"{kind}.onnx", folder / f"{kind}-prepared.onnx"
        _export(kind, plain)
        quant_pre_process(str(plain), str(prepared))
        static, dynamic = (
            folder / f"{kind}-{how}.onnx" for how in ("static", "dynamic")
        )
        quantize_static(
            str(prepared),
            str(static),
            _Samples(SHAPES[kind]),
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        yield static.stem, static
        if kind == "encoder":
            quantize_dynamic(str(prepared), str(dynamic), weight_type=QuantType.QInt8)
            yield dynamic.stem, dynamic


class _Samples:
    """The data that ranges of activations are measured on, as the quantiser reads."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        self._rest = [rng.standard_normal(shape).astype("f4") for _ in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next inputs; None after the last."""
        return {"x": self._rest.pop()} if self._rest else None


def _export(kind: str, file: Path) -> None:
    import onnx
    import torch
    from models_zoo import module
    from models_zoo.convolutional import resnet18
    from models_zoo.transformers import Vit

    torch.manual_seed(0)
    made = {
        "resnet18": resnet18,
        "resnet50": lambda: module("resnet50"),
        "mobilenet": lambda: module("mobilenet_v2"),
        "efficientnet": lambda: module("efficientnet_b0"),
        "vit": lambda: Vit(layers=3),
        "encoder": _encoder,
    }
    model = made[kind]().eval()
    example = (torch.randn(SHAPES[kind]),)
    torch.onnx.export(model, example, str(file), dynamo=True, input_names=["x"])
    onnx.save(onnx.load(str(file)), str(file), save_as_external_data=False)


def _encoder() -> Any:
    """Three layers of the size of those of BERT-base."""
    from torch import nn

    settings = {"dropout": 0.0, "activation": "gelu", "batch_first": True}
    layers = [nn.TransformerEncoderLayer(768, 12, 3072, **settings) for _ in range(3)]
    return nn.Sequential(*layers)


if __name__ == "__main__":
    main()
