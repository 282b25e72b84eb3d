"""Whole networks for a GPU: bundles, inputs and what PyTorch computes of them.

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
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts import keys
from aotc.machine.target import Target
from aotc.pipeline import build

BENCHMARKS = Path(__file__).parents[1]
ARCHIVE = "networks.tar.xz"
NETWORKS = ("bert", "resnet50", "vit", "gpt2", "llama", "gpt2-decode", "llama-decode")
DTYPES = ("f32", "bf16")
BATCH = 8
_SIDE = 64  # of the square that weights repeat
_BACK = 64 << 20  # bytes
_SAMPLED = 1 << 13  # elements of a result that are compared
_RANK_OF_PAST = 4  # (batch, heads, past, depth)
_FEW = 1 << 16  # elements of weights that are what they are


def write_networks(
    folder: Path,
    names: Sequence[str],
    dtypes: Sequence[str],
    targets: Sequence[Target],
    batch: int = BATCH,
) -> None:
    """Build networks and write them, with inputs and results, as an archive.

    Args:
        folder: in which the archive and the sources of the networks are written.
        names: of networks in `benchmarks/models_zoo`.
        dtypes: of their weights: f32, bf16.
        targets: that they are compiled for.
        batch: its size.
    """
    sys.path.insert(0, str(BENCHMARKS))
    zoo = folder / "models_zoo"
    shutil.copytree(BENCHMARKS / zoo.name, zoo, dirs_exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        made, key = Path(scratch) / "networks", Path(scratch) / "run.key"
        made.mkdir()
        signer = keys.write_key_pair(key)
        (made / "networks.pub").write_bytes(signer.public_pem)
        rows = []
        for name, dtype in product(names, dtypes):
            print(f"{name} {dtype}", file=sys.stderr, flush=True)
            rows.append(_write(made, name, dtype, batch, targets, key))
        text = json.dumps({"rows": rows}, indent=1)
        (made / "networks.json").write_text(text, encoding="utf-8")
        # what repeats lies further apart than presets look back
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": _BACK}]
        with (
            lzma.open(folder / ARCHIVE, "wb", filters=filters) as packed,
            tarfile.open(fileobj=packed, mode="w|") as archive,
        ):
            archive.add(made, ".")


def _write(
    folder: Path,
    name: str,
    dtype: str,
    batch: int,
    targets: Sequence[Target],
    key: Path,
) -> dict[str, Any]:
    """Build one network; return what the list says of it.

    A step of a decoder, which keeps its past, is built from its source, of one row.
    """
    import models_zoo
    import torch

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
    title = f"{name}-{dtype}-{batch}"
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write = _program if source is None else _source
        report = build(
            write(Path(scratch), title, module, inputs),
            output=folder,
            name=title,
            targets=tuple(targets),
            signing_key=key,
            self_check="off",
        )
    np.savez(
        folder / f"{title}.npz",
        **{f"in_{k}": _bits(x) for k, x in inputs.items()},
        **{f"out_{n}": x for n, x in enumerate(expected)},
    )
    return {
        "name": name,
        "dtype": dtype,
        "batch": batch,
        "bundle": report.bundle.name,
        "arrays": f"{title}.npz",
        "inputs": {k: str(x.dtype).removeprefix("torch.") for k, x in inputs.items()},
    }


def _program(folder: Path, title: str, module: Any, inputs: Any) -> Path:
    """Write PyTorch's graph of a module."""
    import torch

    file = folder / f"{title}.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (), kwargs=inputs), file)
    return file


def _source(folder: Path, title: str, module: Any, inputs: Any) -> Path:
    """Write the source of a decoder, with its weights and the past beside it."""
    for name in (models_source(title), "past.py"):
        shutil.copy(BENCHMARKS / "decoders" / name, folder)
    weights = {name: x.numpy() for name, x in module.state_dict().items()}
    np.savez(folder / "weights.npz", **weights)
    np.savez(folder / "inputs.npz", **{k: x.numpy() for k, x in inputs.items()})
    return folder / models_source(title)


def models_source(title: str) -> str:
    """Return the name of the file in `benchmarks/decoders` that a network is."""
    import models_zoo

    found = models_zoo.MODELS[title.rsplit("-", 2)[0]].source
    assert found is not None
    return found


def repeat_weights(module: Any) -> None:
    """Make the large weights of a module repeat a square of their numbers."""
    import torch

    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim >= 2 and weight.numel() >= _FEW:
                weight.copy_(_repeated(weight))


def _repeated(x: Any) -> Any:
    """Return a tensor that repeats a square of another along its first two axes."""
    square = x[:_SIDE, :_SIDE].clone()
    repeats = [-(-n // _SIDE) for n in x.shape[:2]]
    whole = square.repeat(*repeats, *[1] * (x.ndim - 2))
    return whole[: x.shape[0], : x.shape[1]]


def _repeated_input(x: Any) -> Any:
    """Return a batch that repeats its first member; a past repeats its squares."""
    if x.ndim == _RANK_OF_PAST and x.shape[0] == 1:
        return _repeated(x.reshape(-1, x.shape[-1])).reshape(x.shape)
    return x[:1].repeat(x.shape[0], *[1] * (x.ndim - 1))


def sample(x: Any) -> Any:
    """Return some elements of an array, at even distances."""
    return x.reshape(-1)[:: max(1, x.size // _SAMPLED)]


def _cast(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if x.is_floating_point() else x


def _bits(x: Any) -> Any:
    """Return an array of a tensor; one of bf16 as its bits."""
    import torch

    return (x.view(torch.int16) if x.dtype == torch.bfloat16 else x).numpy()


def _leaves(found: Any) -> list[Any]:
    if isinstance(found, dict):
        found = tuple(found.values())
    return [*found] if isinstance(found, (tuple, list)) else [found]
