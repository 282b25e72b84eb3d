"""Write one model in the forms that the systems read.

    python -m inference.export MODEL BATCH FOLDER [--onnx]

`module.pt` (PyTorch), `program.pt2` (torch.export), `inputs.npz`, and what PyTorch
computes from them, `expected.npz`; `model.onnx` if asked for. A network that keeps its
past between calls is written for aotc: `model.py`, with its weights, `weights.npz`.
What is there already, written from the same sources by the same PyTorch, is left as it
is.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from pathlib import Path

import models_zoo
import numpy as np
import torch

OPSET = 20
DECODERS = Path(__file__).parents[1] / "decoders"


def main() -> None:
    """Export what the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--onnx", action="store_true")
    options = parser.parse_args()
    stamp, onnx = (options.folder / name for name in ("source.txt", "model.onnx"))
    source = source_digest()
    if not stamp.exists() or stamp.read_text() != source:
        options.folder.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        onnx.unlink(missing_ok=True)
        export(options.model, options.batch, options.folder)
        stamp.write_text(source)
    if options.onnx and not onnx.exists():
        export_onnx(options.model, options.batch, onnx)


def source_digest() -> str:
    """A digest of the networks' sources, this file and PyTorch's version."""
    digest = hashlib.sha256(torch.__version__.encode())
    for file in (
        Path(__file__),
        *sorted(Path(models_zoo.__file__).parent.glob("*.py")),
        *sorted(DECODERS.glob("*.py")),
    ):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def export(name: str, batch: int, folder: Path) -> None:
    """Write PyTorch's forms, the inputs and the outputs."""
    module, inputs = models_zoo.module(name), models_zoo.inputs(name, batch)
    with torch.no_grad():
        results = module(**inputs)
        torch.save(module, folder / "module.pt")
        program = torch.export.export(module, (), inputs)
        torch.export.save(program, folder / "program.pt2")
    source = models_zoo.MODELS[name].source
    if source is not None:
        shutil.copy(DECODERS / source, folder / "model.py")
        shutil.copy(DECODERS / "past.py", folder)
        weights = module.state_dict().items()
        np.savez(folder / "weights.npz", **{k: v.numpy() for k, v in weights})
    results = results if isinstance(results, tuple) else (results,)
    np.savez(folder / "inputs.npz", **{k: v.numpy() for k, v in inputs.items()})
    np.savez(folder / "expected.npz", *(each.numpy() for each in results))


def export_onnx(name: str, batch: int, file: Path) -> None:
    """Write the ONNX form, weights in a file beside it."""
    inputs = models_zoo.inputs(name, batch)
    with torch.no_grad():
        torch.onnx.export(
            models_zoo.module(name),
            kwargs=inputs,
            f=file,
            input_names=list(inputs),
            opset_version=OPSET,
            dynamo=True,
            external_data=True,
            verbose=False,
        )


if __name__ == "__main__":
    main()
