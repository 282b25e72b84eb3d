"""Quantise trained examples by each recipe, and print what they lose and take.

    pip install -e '.[compiler]'
    python benchmarks/precision.py [--models digits mlp vit gpt bert]

Each example is trained first, with its compiled step, as its `train.py` does. 128
samples calibrate, others are measured on: how often the answer is another one than that
of floats (top-1), the divergence of the probabilities (KL, nats), and the bytes of all
parameters over those of floats. Rows with `+` add methods to a recipe.
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
    asked = parser.parse_args()
    print(HEAD, flush=True)
    for name in asked.models:
        with tempfile.TemporaryDirectory() as folder:
            path, inputs = _trained(MODELS[name], Path(folder))
            for recipe, methods in ROWS:
                print(_row(name, path, inputs, recipe, methods), flush=True)


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
