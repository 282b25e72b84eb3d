"""Whole networks for a GPU, and their training steps: bundles, inputs, results.

Weights repeat a square of random numbers along their last two axes, so that bundles of
hundreds of megabytes travel as a few.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aotc.artifacts import keys
from aotc.machine.target import Target
from aotc.pipeline import build
from benchmarks.gpu.there.seconds import TRAINED

if TYPE_CHECKING:
    from torch import Tensor

BENCHMARKS = Path(__file__).parents[1]
FOLDER = "networks"
_WHOLE = ("resnet50", "bert", "vit", "gpt2", "llama")
STEPS_OF_TRAINING = tuple(TRAINED + name for name in _WHOLE)
NETWORKS = (*STEPS_OF_TRAINING, *_WHOLE, "gpt2-decode", "llama-decode")
DTYPES = ("f32", "bf16")
BATCH = 8
STEPS = 3  # of training that are compared
_BACK = 64 << 20  # bytes
_SAMPLED = 1 << 13  # elements of a result that are compared
_RANK_OF_PAST = 4  # (batch, heads, past, depth)


class _Network(NamedTuple):
    """A network to build: its model file, inputs and expected results.

    Args:
        source: what is built.
        inputs: of a call, by name.
        expected: samples of the results of its calls, one after the other.
        calls: how many these are.
        batch: its size.
    """

    source: Path
    inputs: dict[str, Tensor]
    expected: list[Any]
    calls: int
    batch: int


def write_networks(
    folder: Path,
    names: Sequence[str],
    dtypes: Sequence[str],
    targets: Sequence[Target],
    batch: int = BATCH,
) -> list[str]:
    """Build networks; write each with inputs and expected results as an archive.

    Args:
        folder: in which the archives and the sources of the networks are written.
        names: of networks in `benchmarks/models_zoo`; `train:NAME` is a step of one.
        dtypes: of their weights: f32, bf16; training steps are in f32 alone.
        targets: that they are compiled for.
        batch: its size.

    Returns:
        the name of each.
    """
    sys.path.insert(0, str(BENCHMARKS))
    zoo, archives = folder / "models_zoo", folder / FOLDER
    shutil.copytree(BENCHMARKS / zoo.name, zoo, dirs_exist_ok=True)
    archives.mkdir()
    rows = [*_wanted(names, dtypes)]
    for name, dtype in rows:
        print(f"{name} {dtype}", file=sys.stderr, flush=True)
        title = f"{name.replace(':', '-')}-{dtype}"
        with tempfile.TemporaryDirectory() as scratch:
            made = Path(scratch) / title
            made.mkdir()
            _write(made, name, dtype, batch, targets)
            _pack(made, archives / f"{title}.tar.xz")
    return [name for name, _ in rows]


def _wanted(names: Sequence[str], dtypes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, dtype) of all networks; training steps are in f32 only."""
    for name, dtype in product(names, dtypes):
        if dtype == "f32" or not _is_step(name):
            yield name, dtype


def _is_step(name: str) -> bool:
    """Return whether a name is that of a training step."""
    return name.startswith(TRAINED)


def _pack(folder: Path, archive: Path) -> None:
    """Write a folder as a tar.xz archive."""
    # what repeats lies further apart than presets look back
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": _BACK}]
    with (
        lzma.open(archive, "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w|") as opened,
    ):
        opened.add(folder, ".")


def _write(
    folder: Path, name: str, dtype: str, batch: int, targets: Sequence[Target]
) -> None:
    """Build one network; write its bundle, inputs and expected samples into a
    folder.
    """
    title = f"{name.replace(':', '-')}-{dtype}"
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        key = Path(scratch) / "run.key"
        signer = keys.write_key_pair(key)
        (folder / "networks.pub").write_bytes(signer.public_pem)
        prepare = _training if _is_step(name) else _inference
        found = prepare(Path(scratch), name, dtype, batch)
        report = build(
            found.source,
            output=folder,
            name=title,
            targets=tuple(targets),
            signing_key=key,
            self_check="off",
        )
    np.savez(
        folder / "arrays.npz",
        **{f"in_{k}": _bits(x) for k, x in found.inputs.items()},
        **{f"out_{n}": x for n, x in enumerate(found.expected)},
    )
    row = {
        "name": name,
        "dtype": dtype,
        "batch": found.batch,
        "bundle": report.bundle.name,
        "calls": found.calls,
        "inputs": {
            k: str(x.dtype).removeprefix("torch.") for k, x in found.inputs.items()
        },
    }
    (folder / "row.json").write_text(json.dumps(row), encoding="utf-8")


def _inference(scratch: Path, name: str, dtype: str, batch: int) -> _Network:
    """Prepare a network's call and PyTorch's results."""
    import models_zoo
    import torch
    from models_zoo.repeated import repeat_weights

    source = models_zoo.MODELS[name].source
    batch = batch if source is None else 1
    module, inputs = models_zoo.module(name), models_zoo.inputs(name, batch)
    repeat_weights(module)
    inputs = {k: _repeated_input(x) for k, x in inputs.items()}
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    inputs = {k: _cast(x, kind) for k, x in inputs.items()}
    with torch.no_grad():
        module = module.to(kind)
        wide = {k: _cast(x, torch.float32) for k, x in inputs.items()}
        found = module.float()(**wide)
        expected = [sample(x.numpy()) for x in _leaves(found)]
        module = module.to(kind)
    write = _program if source is None else _source
    return _Network(write(scratch, name, module, inputs), inputs, expected, 1, batch)


def _training(scratch: Path, name: str, dtype: str, batch: int) -> _Network:
    """Prepare a few training steps and PyTorch's losses."""
    import models_zoo
    from models_zoo import training

    assert dtype == "f32"
    own = name.removeprefix(TRAINED)
    module = training.module(own, is_repeated=True)
    inputs = models_zoo.inputs(own, batch)
    inputs = {k: _repeated_input(x) for k, x in inputs.items()}
    inputs["labels"] = training.labels(own, batch)
    step = training.torch_step(own, module)
    expected = [sample(step(**inputs).numpy()) for _ in range(STEPS)]
    model = scratch / "model.py"
    text = training.source(own, batch, is_repeated=True)
    model.write_text(text, encoding="utf-8")
    return _Network(model, inputs, expected, STEPS, batch)


def _program(folder: Path, name: str, module: Any, inputs: Any) -> Path:
    """Write PyTorch's exported program of a module; return its path."""
    import torch

    file = folder / f"{name}.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (), kwargs=inputs), file)
    return file


def _source(folder: Path, name: str, module: Any, inputs: Any) -> Path:
    """Write the model file of a decoder, with its weights and past; return its path."""
    import models_zoo

    model = models_zoo.MODELS[name].source
    assert model is not None
    for file in (model, "past.py"):
        shutil.copy(BENCHMARKS / "decoders" / file, folder)
    weights = {name: x.numpy() for name, x in module.state_dict().items()}
    np.savez(folder / "weights.npz", **weights)
    np.savez(folder / "inputs.npz", **{k: x.numpy() for k, x in inputs.items()})
    return folder / model


def _repeated_input(x: Any) -> Any:
    """Return a batch that repeats its first member; a past repeats its squares."""
    from models_zoo.repeated import repeated

    if x.ndim == _RANK_OF_PAST and x.shape[0] == 1:
        return repeated(x.reshape(-1, x.shape[-1])).reshape(x.shape)
    return x[:1].repeat(x.shape[0], *[1] * (x.ndim - 1))


def sample(x: Any) -> Any:
    """Return elements of an array at even distances."""
    return x.reshape(-1)[:: max(1, x.size // _SAMPLED)]


def _cast(x: Any, dtype: Any) -> Any:
    """Cast a tensor of floats to a dtype."""
    return x.to(dtype) if x.is_floating_point() else x


def _bits(x: Any) -> Any:
    """Return a tensor as an array; bf16 as its 16-bit patterns."""
    import torch

    return (x.view(torch.int16) if x.dtype == torch.bfloat16 else x).numpy()


def _leaves(found: Any) -> list[Any]:
    """Return the results of a module as a list."""
    if isinstance(found, dict):
        found = tuple(found.values())
    return [*found] if isinstance(found, (tuple, list)) else [found]
