"""Quantise five trained examples by each recipe: what they lose, take, and how fast.

    pip install -e '.[compiler]'
    python benchmarks/precision.py FOLDER [--models resnet unet vit bert gpt]
    python benchmarks/precision.py FOLDER --times --write

The first command trains each example with its compiled step, as its `train.py` does,
and quantises it; what FOLDER has is not made again. 128 samples calibrate, 2,048
others are measured on (256 images of the U-Net): how often the answer is another one
than that of floats, the divergence of the probabilities (KL, nats), and the bytes of
all parameters over those of floats. Rows with `+` add methods to a recipe.

`--times` builds the rows without methods for those of three levels of x86-64 that this
machine runs, and measures calls of a batch with one thread, in rounds in which all of a
model take turns: the least processor time of each, which other work on the machine
disturbs little. `--write` puts the table into docs/precision.md.

`Q4_K, at best` has the bytes of `int4-g32`: 4 bits for each weight of the decoder, with
a scale and a minimum for each 32, as GGUF's type. They are the ones of least square
error that 30 ranges and five rounds of least squares find, and are not rounded to six
bits as the type's own are: so no file of that type is nearer to the weights.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import aotc
from aotc import importers
from aotc.dialects import context
from aotc.machine import processor
from aotc.machine.target import Target, cpu_level
from aotc.mlir import ir
from aotc.pipeline import build
from aotc.programs.files import write_parameters, write_program
from aotc.programs.program import Program
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.data import Data
from aotc.quantization.measuring import Yardstick, run
from aotc.quantization.metrics import LossMetric
from aotc.quantization.models import freeze_states
from aotc.quantization.quantizer import quantize

Array = np.ndarray[Any, Any]

ROOT = Path(__file__).parents[1]
EXAMPLES, PAGE = ROOT / "examples", ROOT / "docs" / "precision.md"
MARKS = "<!-- written by benchmarks/precision.py -->", "<!-- end of precisions -->"
SAMPLES, HELD_OUT = 128, 2048
LEVELS = "x86_64-v3", "x86_64-v4", "x86_64-v4-dot"
QUALITY = 0.005  # that the recipe `mixed` is to hold
CALLS, WARM, ROUNDS = 20, 3, 3
ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("f32", ()),
    ("f16", ()),
    ("bf16", ()),
    ("int8", ()),
    ("int8", ("smoothquant", "gptq", "bias-correction")),
    ("int8-dynamic", ()),
    ("int8-weights", ()),
    ("int4-g32", ()),
    ("int4-g32", ("awq", "gptq", "bias-correction")),
    ("mixed", ()),
)
BOUND = "Q4_K, at best"  # of decoders
HEAD = (
    "| model | recipe | bytes | answers that differ | KL | v3, ms | v4, ms "
    "| v4-dot, ms |\n|---|---|--:|--:|--:|--:|--:|--:|"
)


@dataclass(frozen=True)
class Example:
    """An example model to quantise and its data.

    Args:
        kind: what it is one of.
        batch: samples of a call that is timed.
        inputs: gives so many that it was not trained on, and more to calibrate with.
    """

    kind: str
    batch: int
    inputs: Callable[[Any, int], Array]


def _digits(module: Any, count: int) -> Array:
    """Return digit images with training noise; the test images calibrate nothing."""
    rng = np.random.default_rng(1_000_000)
    clean = module.DATA["train_x"], np.load(EXAMPLES / "digits" / "test_x.npy")
    counts = SAMPLES, count
    chosen = [
        x[rng.integers(0, len(x), n)] / 16 for x, n in zip(clean, counts, strict=True)
    ]
    images = np.concatenate(chosen)
    return (images + rng.normal(0, 0.1, images.shape)).astype("f4")


def _pictures(module: Any, count: int) -> Array:
    """Return images of the example."""
    found: Array = module.batch(1_000_000, SAMPLES + count // 8)["images"]
    return found


def _text(module: Any, count: int) -> Array:
    """Return token sequences of the example."""
    size = module.BATCH
    seeds = range(1_000_000, 1_000_000 + (SAMPLES + count) // size)
    return np.concatenate([module.batch(seed)["tokens"] for seed in seeds])


MODELS = {
    "resnet": Example("classification", 32, _digits),
    "unet": Example("segmentation", 8, _pictures),
    "vit": Example("vision transformer", 32, _digits),
    "bert": Example("encoder", 32, _text),
    "gpt": Example("decoder", 16, _text),
}


def main() -> None:
    """Prepare models in a folder, or measure and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of what was trained and built")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--times", action="store_true", help="measure calls")
    parser.add_argument("--write", action="store_true", help="put it into docs/")
    asked = parser.parse_args()
    for name in asked.models:
        _prepare(name, asked.folder / name)
    if asked.times:
        for name in asked.models:
            _measure_times(asked.folder / name)
    table = "\n".join([HEAD, *(x for n in asked.models for x in _lines(n, asked))])
    print(table)
    if asked.write:
        head, _, rest = PAGE.read_text().partition(MARKS[0])
        _, _, tail = rest.partition(MARKS[1])
        PAGE.write_text(f"{head}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{tail}")


def _titles() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the title of each row, the recipe and its methods."""
    for recipe, methods in ROWS:
        quality = f" ≤ {QUALITY:.1%}" if recipe == "mixed" else ""
        yield "+".join((recipe, *methods)) + quality, recipe, methods


def _lines(name: str, asked: argparse.Namespace) -> Iterator[str]:
    """Yield the table rows of a model."""
    folder = asked.folder / name
    results, times = (_read(folder / f"{x}.json") for x in ("results", "times"))
    titles = [title for title, _, _ in _titles()]
    for title in [x for x in (*titles, BOUND) if x in results]:
        found = results[title]
        kl = "" if found["kl"] is None else f"{found['kl']:.1e}"
        ms = (times.get(f"{title}/{level}") for level in LEVELS)
        cells = " | ".join("" if x is None else f"{x:.2f}" for x in ms)
        yield (
            f"| {name} | {title} | {found['bytes']:.0%} | {found['lost']:.2%} | {kl} "
            f"| {cells} |"
        )


def _read(file: Path) -> dict[str, Any]:
    """Read a JSON file; empty if it does not exist."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


# ---- preparing ----------------------------------------------------------------------


def _prepare(name: str, folder: Path) -> None:
    """Train and quantise a model, except for what its folder has already."""
    folder.mkdir(parents=True, exist_ok=True)
    source, states = EXAMPLES / name, folder / "states.safetensors"
    module = load_module(source / "train.py")
    if not states.exists():
        asked = {"targets": [Target.parse(cpu_level())], "self_check": "off"}
        report = build(source / "model.py", output=folder / "trainer", **asked)
        model = aotc.load(report.bundle)
        module.train(model)
        model.save_state(states)
    inputs = MODELS[name].inputs(module, HELD_OUT)
    np.save(folder / "batch.npy", inputs[-MODELS[name].batch :])
    results = _read(folder / "results.json")
    titles = {title for title, _, _ in _titles()}
    if titles | ({BOUND} if name == "gpt" else set()) <= results.keys():
        return
    floats = _yardstick(_trained(source, states), inputs)
    for title, recipe, methods in _titles():
        if title in results:
            continue
        tell(f"{name}: {title}")
        program = _trained(source, states)
        program, results[title] = _quantized(program, floats, inputs, recipe, methods)
        file = folder / f"{title}.mlir"
        with context(), ir.Location.unknown():
            write_parameters(program.parameters, file.with_suffix(".irpa"))
            write_program(program, file, file.with_suffix(".irpa"))
        (folder / "results.json").write_text(json.dumps(results, indent=1))
    if name == "gpt" and BOUND not in results:
        results[BOUND] = _bound(_trained(source, states), floats)
        (folder / "results.json").write_text(json.dumps(results, indent=1))


def tell(text: str) -> None:
    """Print progress, with the processor time so far."""
    print(f"{time.process_time():6.0f} s  {text}", file=sys.stderr, flush=True)


def _trained(source: Path, states: Path) -> Program:
    """Return an example's program with trained weights."""
    program = importers.load(source / "model.py", ("predict",))
    freeze_states(program, states)
    program.stage = "graph"
    return program


def _yardstick(program: Program, inputs: Array) -> Yardstick:
    """Return the float model's results on held-out data, as the measure of others."""
    (port,) = program.entries[0].ports("input")
    held_out = Data({port.name: inputs[SAMPLES:]}, "data")
    return Yardstick.of(program, held_out, LossMetric())


def _quantized(
    program: Program,
    floats: Yardstick,
    inputs: Array,
    recipe: str,
    methods: tuple[str, ...],
) -> tuple[Program, dict[str, Any]]:
    """Quantise a trained model by a recipe; return it and its losses and size."""
    if recipe == "f32":
        return program, {"bytes": 1.0, "lost": 0.0, "kl": 0.0}
    (port,) = program.entries[0].ports("input")
    calibration = Data({port.name: inputs[:SAMPLES]}, "data")
    is_mixed = recipe == "mixed"  # whose layers are chosen on held-out data
    choice = QuantizationOptions(
        recipe, quality=QUALITY if is_mixed else None, methods=methods
    )
    with context(), ir.Location.unknown():
        data = calibration, floats.data if is_mixed else calibration
        found = quantize(program, choice, *data, tell=tell)
        report, lost = found.report, measured(found.program, floats)
    found.program.stage = "graph"
    share = report.bytes_after / report.bytes_before
    return found.program, {"bytes": share, **lost}


def measured(program: Program, floats: Yardstick) -> dict[str, float | None]:
    """Return how often a program's answers differ from the float model's, and the
    divergence.
    """
    results = run(program, floats.calls)
    kl = None  # of what gives classes, and no probabilities
    if floats.name == "top1":
        kl = replace(floats, metric=LossMetric("kl")).compare(program, results).lost
    return {"lost": floats.compare(program, results).lost, "kl": kl}


def load_module(path: Path) -> Any:
    """Import a Python file as a module."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_train", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- weights of 4 bits with minima --------------------------------------------------


def _bound(floats: Program, yardstick: Yardstick) -> dict[str, Any]:
    """Replace weights by the nearest 4-bit ones with minima; return the losses."""
    arrays = {name: np.asarray(x) for name, x in floats.parameters.items()}
    before = sum(x.nbytes for x in arrays.values())
    summed = {name: _summed(name, x) for name, x in arrays.items()}
    after = before
    for name, axes in summed.items():
        if axes:
            after -= arrays[name].size * (4 - 4.5 / 8)
            floats.parameters[name] = _fit(arrays[name], axes)
    return {"bytes": after / before, **measured(floats, yardstick)}


def _summed(name: str, weight: Array) -> int:
    """Return the size that a product by a weight contracts; 0 if it is in no product.

    -1 where these are the last axis, of the table of tokens.
    """
    part = name.split(".")
    if part[-1] == "tokens":
        return -1
    if part[-1] in ("query", "key", "value") or part[-2:] in (
        ["up", "kernel"],
        ["down", "kernel"],
    ):
        return len(weight)
    return weight[..., 0].size if part[-1] == "output" and weight.ndim > 1 else 0


def _fit(weight: Array, summed: int) -> Array:
    """Return the nearest 4-bit weight with a scale and minimum per 32 terms."""
    rows = weight if summed == -1 else weight.reshape(summed, -1).T
    found = nearest_with_minima(rows.reshape(-1, 32)).reshape(rows.shape)
    return found if summed == -1 else found.T.reshape(weight.shape)


def nearest_with_minima(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return rows rounded to 16 levels, with a scale and minimum for each row."""
    low, high = (f(rows, axis=1, keepdims=True) for f in (np.min, np.max))
    best, least = rows, np.full((len(rows), 1), np.inf)
    for share in np.linspace(0.6, 1.1, 30):
        middle, half = (low + high) / 2, (high - low) / 2 * share
        scale, offset = 2 * half / 15, middle - half
        for _ in range(5):
            safe = np.where(scale == 0, 1, scale)
            q = np.clip(np.round((rows - offset) / safe), 0, 15)
            spread, mean = q - q.mean(1, keepdims=True), rows.mean(1, keepdims=True)
            square = np.square(spread).sum(1, keepdims=True)
            scale = (spread * rows).sum(1, keepdims=True) / np.where(square, square, 1)
            offset = mean - scale * q.mean(1, keepdims=True)
            found = q * scale + offset
            error = np.square(found - rows).sum(1, keepdims=True)
            best = np.where(error < least, found, best)
            least = np.minimum(error, least)
    return best.astype(rows.dtype)


# ---- times --------------------------------------------------------------------------


def _measure_times(folder: Path) -> None:
    """Time calls of a folder's models and write the times beside the results."""
    batch, found = np.load(folder / "batch.npy"), dict[str, list[float]]()
    titles = [title for title, _, methods in _titles() if not methods]
    levels = _levels()
    bundles = {title: _build(folder, title, levels) for title in titles}
    for _ in range(ROUNDS):
        for title, bundle in bundles.items():
            for level in levels:
                times = found.setdefault(f"{title}/{level}", [])
                times += _times_of_calls(bundle, level, batch)
    least = {key: min(times) for key, times in found.items()}
    (folder / "times.json").write_text(json.dumps(least, indent=1))


def _levels() -> list[str]:
    """Return the CPU levels that this machine runs."""
    here = set(processor.cpu_features())
    return [x for x in LEVELS if here >= {*Target.parse(x).cpu_features_required}]


def _build(folder: Path, title: str, levels: Sequence[str]) -> Path:
    """Build the bundle of a row, unless it is there; return its path."""
    output = folder / "built" / title
    if not (found := [*output.glob("*.aotc")]):
        report = build(
            folder / f"{title}.mlir",
            output=output,
            name="m",
            targets=[Target.parse(level) for level in levels],
            self_check="off",
            sign=False,
        )
        assert report.bundle is not None
        found.append(report.bundle)
    return found[0]


def _times_of_calls(bundle: Path, level: str, batch: Array) -> list[float]:
    """Return the processor time of calls in ms, after warm-up."""
    model = aotc.load(bundle, threads=1, target=level, allow_unsigned=True)
    (entry,) = model.entries.values()
    times = []
    for _ in range(WARM + CALLS):
        start = time.process_time()
        entry(batch)
        times.append(1e3 * (time.process_time() - start))
    return times[WARM:]


if __name__ == "__main__":
    main()
