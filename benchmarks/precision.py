"""Quantise trained examples by each recipe, and print what they lose and take.

    pip install -e '.[compiler]'
    python benchmarks/precision.py [--models digits mlp vit gpt bert]

Each example is trained first, with its compiled step, as its `train.py` does. 128
samples calibrate, others are measured on: how often the answer is another one than that
of floats (top-1), the divergence of the probabilities (KL, nats), and the bytes of all
parameters over those of floats. Rows with `+` add methods to a recipe.

`Q4_K, at best` has the bytes of `int4-g32`: 4 bits for each weight of the decoder, with
a scale and a minimum for each 32, as GGUF's type. They are the ones of least square
error that 30 ranges and five rounds of least squares find, and are not rounded to six
bits as the type's own are: so no file of that type is nearer to the weights.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import aotc
from aotc import importers
from aotc.dialects import context
from aotc.mlir import ir
from aotc.pipeline import build
from aotc.pytree import flatten
from aotc.quantization.calibration import Choice
from aotc.quantization.data import Data
from aotc.quantization.measuring import Yardstick
from aotc.quantization.metrics import Metric
from aotc.quantization.quantizer import quantize

EXAMPLES = Path(__file__).parents[1] / "examples"
SAMPLES = 128
ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
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
HEAD = "| model | recipe | bytes | top-1 lost | KL |\n|---|---|--:|--:|--:|"

# What a trained example is quantised as: its network, by its weights alone.
MODEL = """
import importlib.util
import numpy
import aotc
from aotc.pytree import flatten

def read(path):
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

example = read({example!r})
leaves, tree = flatten(example.init({arguments}))
stored = numpy.load({weights!r})
weights = aotc.Weights(tree.unflatten([stored[str(n)] for n in range(len(leaves))]))

@aotc.entry(x=aotc.Spec(("batch", *{shape}), {dtype!r}))
def predict(weights, x):
    return example.network(weights, x)
"""


@dataclass(frozen=True)
class Example:
    """An example to quantise.

    Args:
        name: of its folder.
        entry: that trains it.
        state: that it trains.
        train: trains the model, given that and the module `train.py`.
        inputs: what it takes, and is not trained on.
        arguments: of `init`, as text.
    """

    name: str
    entry: str
    state: str
    train: Callable[[Any, Any], Any]
    inputs: Callable[[Any], np.ndarray[Any, Any]]
    arguments: str = ""


def _digits(module: Any) -> np.ndarray[Any, Any]:
    folder = EXAMPLES / "digits"
    train = np.load(folder / "digits.npz")["train_x"][-SAMPLES:]
    return np.concatenate([train, np.load(folder / "test_x.npy")]).astype("f")


def _text(module: Any) -> np.ndarray[Any, Any]:
    seeds = range(10_000, 10_000 + 3 * SAMPLES // 16)
    return np.concatenate([module.batch(seed)["tokens"] for seed in seeds])


MODELS = {
    each.name: each
    for each in (
        Example("digits", "", "", lambda model, module: None, _digits),
        Example(
            "mlp",
            "train_mlp",
            "mlp",
            lambda model, module: module.train(model, "mlp"),
            lambda module: module.scaled(_digits(module)),
            "(example.INPUTS, *example.HIDDEN, example.CLASSES)",
        ),
        Example(
            "vit",
            "train_step",
            "state",
            lambda model, module: module.train(model),
            lambda module: _digits(module),
        ),
        Example(
            "gpt",
            "train_step",
            "state",
            lambda model, module: module.train(model),
            _text,
        ),
        Example(
            "bert",
            "train_step",
            "state",
            lambda model, module: module.train(model),
            _text,
        ),
    )
}


def main() -> None:
    """Print the rows of each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--only", default="", help="what names of recipes begin with")
    asked = parser.parse_args()
    print(HEAD, flush=True)
    for name in asked.models:
        with tempfile.TemporaryDirectory() as folder:
            path, inputs = _trained(MODELS[name], Path(folder))
            for recipe, methods in ROWS:
                if recipe.startswith(asked.only):
                    print(_row(name, path, inputs, recipe, methods), flush=True)
            if name == "gpt":
                print(_row_of_minima(name, path, inputs), flush=True)


def _row(
    name: str,
    path: Path,
    inputs: np.ndarray[Any, Any],
    recipe: str,
    methods: tuple[str, ...],
) -> str:
    """What a model loses by a recipe."""
    calibration, held_out = (
        Data({"x": part}, "data") for part in (inputs[:SAMPLES], inputs[SAMPLES:])
    )
    program = importers.load(path, ("predict",))
    quality = 0.005 if recipe == "mixed" else None
    choice = Choice(recipe, quality=quality, metric=Metric("top1"), methods=methods)
    with context(), ir.Location.unknown():
        found = quantize(program, choice, calibration, held_out)
        yardstick = Yardstick.of(program, held_out, Metric("kl"))
        divergence = yardstick.measure(found.program).lost
    report, lost = found.report, found.recipe.quality["lost"]
    share = report.bytes_after / report.bytes_before
    title = "+".join((recipe, *methods)) + (f" ≤ {quality:.1%}" if quality else "")
    return f"| {name} | {title} | {share:.0%} | {lost:.2%} | {divergence:.1e} |"


def _row_of_minima(name: str, path: Path, inputs: np.ndarray[Any, Any]) -> str:
    """What a decoder loses by weights of 4 bits with minima, see the top."""
    weights = path.with_name("weights.npz")
    leaves, tree = flatten(_module(EXAMPLES / name / "model.py").init())
    stored = np.load(weights)
    params = tree.unflatten([stored[str(n)] for n in range(len(leaves))])
    before, after = sum(x.nbytes for x in stored.values()), 0.0

    def fit(w: np.ndarray[Any, Any], summed: int) -> np.ndarray[Any, Any]:
        """A weight whose last axis is summed up, or the first ones."""
        nonlocal after
        after -= w.size * (4 - 4.5 / 8)
        rows = w if summed == -1 else w.reshape(summed, -1).T
        found = nearest_with_minima(rows.reshape(-1, 32)).reshape(rows.shape)
        return found if summed == -1 else found.T.reshape(w.shape)

    params["tokens"] = fit(params["tokens"], -1)
    for block in params["blocks"]:
        for part in ("query", "key", "value", "output"):
            kernel = block["attention"][part]
            width = kernel.shape[0] if part != "output" else kernel[..., 0].size
            block["attention"][part] = fit(kernel, width)
        for part in ("up", "down"):
            kernel = block[part]["kernel"]
            block[part]["kernel"] = fit(kernel, len(kernel))
    fitted = path.with_name("fitted.npz")
    np.savez(fitted, **{str(n): x for n, x in enumerate(flatten(params)[0])})
    other = path.with_name("fitted.py")
    other.write_text(path.read_text().replace(str(weights), str(fitted)))
    held_out = Data({"x": inputs[SAMPLES:]}, "data")
    with context(), ir.Location.unknown():
        program, changed = (importers.load(x, ("predict",)) for x in (path, other))
        lost, divergence = (
            Yardstick.of(program, held_out, Metric(metric)).measure(changed).lost
            for metric in ("top1", "kl")
        )
    share = (before + after) / before
    return f"| {name} | {BOUND} | {share:.0%} | {lost:.2%} | {divergence:.1e} |"


def nearest_with_minima(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows as the nearest of 16 levels are, with a scale and a minimum of each row."""
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


def _trained(example: Example, folder: Path) -> tuple[Path, np.ndarray[Any, Any]]:
    """The model of a trained example, and its inputs."""
    source = EXAMPLES / example.name
    module = _module(source / "train.py")
    inputs = example.inputs(module)
    if not example.entry:  # its weights are there
        return source / "model.py", inputs
    report = build(source / "model.py", output=folder, self_check="off")
    model = aotc.load(report.bundle)
    example.train(model, module)
    state = model.read_state(example.state)
    leaves, _ = flatten(state["params"])
    weights = folder / "weights.npz"
    np.savez(weights, **{str(n): np.asarray(leaf) for n, leaf in enumerate(leaves)})
    path = folder / "trained.py"
    text = MODEL.format(
        example=str(source / "model.py"),
        arguments=example.arguments,
        weights=str(weights),
        shape=inputs.shape[1:],
        dtype=aotc.dtypes.canonical(inputs.dtype),
    )
    path.write_text(text)
    return path, inputs


def _module(path: Path) -> Any:
    """A file of Python as a module."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_train", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
