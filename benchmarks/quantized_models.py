"""Time models that ONNX Runtime has quantised, by aotc, ONNX Runtime and OpenVINO.

    pip install -e '.[compiler,onnx]' torch onnx onnxscript onnxruntime openvino
    python benchmarks/quantized_models.py [--targets TARGET...] [--threads N...]
    python benchmarks/quantized_models.py --builds

Networks for images of 224×224 (ResNet-18 and -50, ResNeXt-50, SqueezeNet, MobileNetV2,
EfficientNet-b0, three layers of ViT-B/16; U8S8, static, a scale for each feature) and
three layers of a transformer encoder of BERT's size (128 tokens; static and dynamic),
with random weights. Each system runs the same file, in processes of its own, in turns;
a system that refuses it has no time. Cells are medians and 90th percentiles. Beside
them stand the largest difference from the file evaluated node by node, relative to its
largest value, and the bytes of the weights over those of the file. At the end stands
the geometric mean, over the faster of the others.

`--builds` times builds of the quantised files and of those that they were made of, in
processor time, without caches.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
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
    "resnext50": _IMAGE,
    "squeezenet": _IMAGE,
    "mobilenet": _IMAGE,
    "efficientnet": _IMAGE,
    "vit": _IMAGE,
    "encoder": (1, 128, 768),
}
MODELS = (*(f"{kind}-static" for kind in SHAPES), "encoder-dynamic")
PEERS = "onnxruntime", "openvino"
CALLS, WARM = 30, 3
HEAD = (
    "| model | target | threads | aotc, ms | onnxruntime, ms | openvino, ms "
    "| aotc / faster | differs by | weights |\n|---|---|--:|--:|--:|--:|--:|--:|--:|"
)
HEAD_OF_BUILDS = (
    "| model | floats, s of processor time | quantised | quantised / floats |\n"
    "|---|--:|--:|--:|"
)


def main() -> None:
    """Time quantised models against peers, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", nargs="+", default=["x86_64-v4-dot"])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--builds", action="store_true", help="time builds instead")
    parser.add_argument("--call", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--build", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.call:
        print(json.dumps(_measure(*asked.call[:2], int(asked.call[2]))))
        return
    if asked.build:
        _build(Path(asked.build[0]), asked.build[1], Path(asked.build[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        kinds = {name.rpartition("-")[0] for name in asked.models}
        files = dict(_quantized(Path(folder), [x for x in SHAPES if x in kinds]))
        if asked.builds:
            _time_builds(files, asked.models, asked.targets[0], Path(folder))
        else:
            _time_calls(files, asked, Path(folder))


def _time_calls(
    files: dict[str, Path], asked: argparse.Namespace, folder: Path
) -> None:
    """Print the rows of call times, and mean ratios."""
    print(HEAD)
    ratios: dict[tuple[str, int], list[float]] = {}
    for name in asked.models:
        for target in asked.targets:
            bundle = _build(files[name], target, folder)
            for threads in asked.threads:
                ratio = _print_row(
                    name, target, threads, files[name], bundle, asked.rounds
                )
                ratios.setdefault((target, threads), []).append(ratio)
    for (target, threads), found in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, found)))
        print(f"{target}, {threads} threads: {mean:.3f} (geometric mean)")


def _print_row(
    name: str, target: str, threads: int, file: Path, bundle: Path, rounds: int
) -> float:
    """Time a model and print its row; return its time over the faster peer's."""
    subjects = {"aotc": bundle, **dict.fromkeys(PEERS, file)}
    found: dict[str, list[float]] = {system: [] for system in subjects}
    output = np.zeros(0)
    for _ in range(rounds):
        for system, path in subjects.items():
            told = _run(system, path, threads)
            found[system] += told["ms"]
            if system == "aotc":
                output = np.array(told["output"])
    exact = np.array(_run("node by node", file, threads)["output"])
    medians = {x: statistics.median(times or [math.nan]) for x, times in found.items()}
    others = [medians[peer] for peer in PEERS if not math.isnan(medians[peer])]
    ratio = medians["aotc"] / min(others)
    error = np.abs(output - exact).max() / np.abs(exact).max()
    weights = (bundle / "weights.irpa").stat().st_size / file.stat().st_size
    times = " | ".join(map(_cell, found.values()))
    print(
        f"| {name} | {target} | {threads} | {times} | {ratio:.2f} | {error:.1e} "
        f"| {weights:.3f} |",
        flush=True,
    )
    return ratio


def _cell(times: Sequence[float]) -> str:
    """Return median and 90th percentile as text."""
    if not times:
        return "–"
    return f"{statistics.median(times):.2f} / {np.percentile(times, 90):.2f}"


def _time_builds(
    files: dict[str, Path], models: Sequence[str], target: str, folder: Path
) -> None:
    """Print the rows of build times of float and quantised models."""
    print(HEAD_OF_BUILDS)
    for name in models:
        plain = folder / f"{name.rpartition('-')[0]}.onnx"
        floats, quantized = (
            _build_seconds(file, target, folder) for file in (plain, files[name])
        )
        ratio = quantized / floats
        print(f"| {name} | {floats:.1f} | {quantized:.1f} | {ratio:.2f} |", flush=True)


def _build_seconds(file: Path, target: str, folder: Path) -> float:
    """Build in a child process; return its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--build", str(file), target, str(folder)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(system: str, path: Path, threads: int) -> dict[str, Any]:
    """Make calls in a child process; return its times and output."""
    command = [sys.executable, __file__, "--call", system, str(path), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and system in PEERS:
        print(f"{system} refuses {path.name}: {done.stderr[-500:]}", file=sys.stderr)
        return {"ms": []}
    done.check_returncode()
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _measure(system: str, path: str, threads: int) -> dict[str, Any]:
    """Time calls of a model by one system, in this process."""
    kind = next(kind for kind in SHAPES if kind in Path(path).name)
    x = np.random.default_rng(7).standard_normal(SHAPES[kind]).astype("f4")
    call = _caller(system, path, x, threads)
    output = np.asarray(call())
    times = []
    for number in range(WARM + (CALLS if system != "node by node" else 0)):
        start = time.perf_counter()
        call()
        if number >= WARM:
            times.append(1e3 * (time.perf_counter() - start))
    return {"ms": times, "output": output.tolist()}


def _caller(
    system: str, path: str, x: np.ndarray, threads: int
) -> Callable[[], np.ndarray]:
    """Return a function that calls a model by one system and returns its result."""
    if system == "aotc":
        import aotc

        entry = aotc.load(path, threads=threads).entries["main"]
        return lambda: entry(x)
    if system == "openvino":
        from inference.runners import open_vino

        request = open_vino.load(Path(path), {"x": x}, threads)
        return lambda: request()[0]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if system == "node by node":
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(path, options, providers=providers)
    return lambda: session.run(None, {"x": x})[0]


def _build(file: Path, target: str, folder: Path) -> Path:
    """Build a model for a target; return the bundle."""
    from aotc.machine.target import Target
    from aotc.pipeline import build

    asked = {"targets": [Target.parse(target)], "self_check": "off", "force": True}
    report = build(file, output=folder / target, name=file.stem, **asked)
    assert report.bundle is not None
    return report.bundle


# ---- models -------------------------------------------------------------------------


def _quantized(folder: Path, kinds: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Write the quantised models; yield the name and file of each."""
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
    """Calibration data in the form that ONNX Runtime's quantiser reads."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        self._rest = [rng.standard_normal(shape).astype("f4") for _ in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next inputs; None after the last."""
        return {"x": self._rest.pop()} if self._rest else None


def _export(kind: str, file: Path) -> None:
    """Export a float model to ONNX."""
    import onnx
    import torch
    from models_zoo import module
    from models_zoo.convolutional import resnet18, resnext50, squeezenet
    from models_zoo.transformers import Vit

    torch.manual_seed(0)
    made = {
        "resnet18": resnet18,
        "resnet50": lambda: module("resnet50"),
        "resnext50": resnext50,
        "squeezenet": squeezenet,
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
    """Return three encoder layers of BERT-base's size."""
    from torch import nn

    settings = {"dropout": 0.0, "activation": "gelu", "batch_first": True}
    layers = [nn.TransformerEncoderLayer(768, 12, 3072, **settings) for _ in range(3)]
    return nn.Sequential(*layers)


if __name__ == "__main__":
    main()
