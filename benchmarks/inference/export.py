"""Write one model in the forms that the systems read.

    python -m inference.export MODEL BATCH FOLDER [--onnx] [--weights]

`model.json` (its name), `module.pt` (PyTorch), `program.pt2` (torch.export),
`inputs.npz`, and what PyTorch computes from them, `expected.npz`; if asked for,
`model.onnx` and the module's state, `weights.npz`. A model of symbolic sizes is written
for those of the batch, too: `static.pt2`. A network that keeps its past between calls
is written for aotc: `model.py`, with its weights. What is there already, written from
the same sources by the same PyTorch, is left as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import models_zoo
import numpy as np
import torch

OPSET = 20
DECODERS = Path(__file__).parents[1] / "decoders"


def main() -> None:
    """Export the model that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--weights", action="store_true")
    options = parser.parse_args()
    model, folder = models_zoo.MODELS[options.model], options.folder
    stamp, source = folder / "source.txt", source_digest()
    if not stamp.exists() or stamp.read_text() != source:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        export(options.model, options.batch, folder)
        stamp.write_text(source)
    onnx, weights = folder / "model.onnx", folder / "weights.npz"
    if options.onnx and not onnx.exists():
        export_onnx(options.model, options.batch, onnx)
    if (options.weights or model.source is not None) and not weights.exists():
        state = models_zoo.module(options.model).state_dict().items()
        np.savez(weights, **{name: each.numpy() for name, each in state})


def source_digest() -> str:
    """Return a digest of the sources that exports depend on, and PyTorch's version."""
    digest = hashlib.sha256(torch.__version__.encode())
    for file in (
        Path(__file__),
        *sorted(Path(models_zoo.__file__).parent.glob("*.py")),
        *sorted(DECODERS.glob("*.py")),
    ):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def export(name: str, batch: int, folder: Path) -> None:
    """Write PyTorch's forms of a model, its inputs and its expected outputs."""
    model = models_zoo.MODELS[name]
    module, inputs = models_zoo.module(name), models_zoo.inputs(name, batch)
    with torch.no_grad():
        results = module(**inputs)
        torch.save(module, folder / "module.pt")
        save_program(module, folder / "program.pt2", **example(name, batch))
        if model.symbols:
            save_program(module, folder / "static.pt2", kwargs=inputs)
    if model.source is not None:
        shutil.copy(DECODERS / model.source, folder / "model.py")
        shutil.copy(DECODERS / "past.py", folder)
    (folder / "model.json").write_text(json.dumps(name))
    results = results if isinstance(results, tuple) else (results,)
    np.savez(folder / "inputs.npz", **{k: v.numpy() for k, v in inputs.items()})
    np.savez(folder / "expected.npz", *(each.numpy() for each in results))


def example(name: str, batch: int) -> dict[str, object]:
    """Return a model's example arguments, and which of their sizes are symbols.

    PyTorch takes a size of 1 for a constant, so models of symbolic sizes are exported
    with another one.
    """
    symbols = models_zoo.MODELS[name].symbols
    if not symbols:
        return {"kwargs": models_zoo.inputs(name, batch)}
    return {"kwargs": models_zoo.inputs(name, batch + 1), "dynamic_shapes": symbols}


def save_program(module: torch.nn.Module, file: Path, **example: object) -> None:
    """Write PyTorch's exported program of a module."""
    torch.export.save(torch.export.export(module, (), **example), file)


def export_onnx(name: str, batch: int, file: Path) -> None:
    """Write the ONNX form, with the weights in a separate file."""
    arguments = example(name, batch)
    with torch.no_grad():
        torch.onnx.export(
            models_zoo.module(name),
            **arguments,
            f=file,
            input_names=list(arguments["kwargs"]),
            opset_version=OPSET,
            dynamo=True,
            external_data=True,
            verbose=False,
        )


if __name__ == "__main__":
    main()
