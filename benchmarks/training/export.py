"""Write one training step in the forms that the systems read.

    python -m training.export MODEL FOLDER

`model.py`, which aotc builds, with what a build is to be told (`build.json`); the
initial parameters (`params.npz`) and frozen weights (`weights.npz`), by names with
dots; a batch (`inputs.npz`); and names (`model.json`). Needs aotc and its compiler.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np

from aotc.core.pytree import flatten, leaf_names

from .models import MODELS


def main() -> None:
    """Export the model that the command line names."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    model, source = MODELS[name], folder / "model.py"
    source.write_text(model.source(), encoding="utf-8")
    known = runpy.run_path(str(source))
    write_tree(folder / "params.npz", known[model.state].tree["params"])
    if model.weights:
        write_tree(folder / "weights.npz", known["weights"].tree)
    batch = model.batch(np.random.default_rng(0))
    np.savez(folder / "inputs.npz", **batch)
    entries = ["--entry", model.entry, "--entry", "settled"]
    (folder / "build.json").write_text(json.dumps(entries))
    facts = {"name": name, "entry": model.entry}
    (folder / "model.json").write_text(json.dumps(facts))


def write_tree(file: Path, tree: object) -> None:
    """Write the leaves of a tree by their names."""
    leaves, structure = flatten(tree)
    named = zip(leaf_names(structure), leaves, strict=True)
    np.savez(file, **{name: np.asarray(leaf) for name, leaf in named})


if __name__ == "__main__":
    main()
