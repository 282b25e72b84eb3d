"""Checkpoints of safetensors: a file, or a folder of them, with a config.json beside.

What `quantization_config` in there says of the tensors, `METHODS` reads: tensors of a
quantised layer become one `nn.QuantizedWeights`, in the place of the layer's `weight`
and of its shape, [outputs, inputs]. All else stays an array.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aotc.core.array_files import open_arrays
from aotc.core.json_values import JsonObject
from aotc.tracing.source_locations import fail
from aotc.weight_formats import awq, compressed_tensors, gptq
from aotc.weight_formats.tensors import StoredTensors, Tensors

Method = Callable[[StoredTensors, JsonObject], Tensors]

METHODS: dict[str, Method] = {
    "gptq": gptq.decode,
    "awq": awq.decode,
    "compressed-tensors": compressed_tensors.decode,
}
# files that say how tensors are quantised, and what they are of where they do not say
_CONFIGS = {
    "config.json": None,
    "quantize_config.json": "gptq",  # AutoGPTQ's own
    "quant_config.json": "awq",
}


def read_checkpoint(path: Path) -> tuple[Tensors, JsonObject]:
    """Return the tensors of a safetensors checkpoint by name, and its files' metadata.

    Args:
        path: of a file, or of the folder with all of them.

    Raises:
        InputError: a file is missing, or the tensors are quantised in a way that aotc
            does not read.
        ValueError: a file is damaged.
    """
    arrays: StoredTensors = {}
    metadata: dict[str, Any] = {}
    for file in _files_of(path) if path.is_dir() else [path]:
        found = open_arrays(file, "weights")
        twice = arrays.keys() & found.keys()
        if twice:
            raise ValueError(f"two files have a tensor called '{min(twice)}'")
        arrays |= found
        metadata |= found.metadata
    folder = path if path.is_dir() else path.parent
    config = _json_of(folder / "config.json")
    if config:
        metadata["config"] = config
    scheme = _quantization_of(folder)
    if scheme is None:
        return {**arrays}, metadata
    method = str(scheme.get("quant_method"))
    if method not in METHODS:
        fail(
            "unsupported-quantization",
            f"the tensors are quantised by '{method}'; aotc reads {', '.join(METHODS)}",
            "quantise the model with one of these, or convert it to GGUF; without the "
            "config.json beside it a file is its raw arrays",
        )
    return METHODS[method](arrays, scheme), metadata


def _files_of(folder: Path) -> list[Path]:
    """Return the paths of a checkpoint's .safetensors files in a folder.

    Raises:
        InputError: there are none, or one that the index names is missing.
    """
    for index in sorted(folder.glob("*.safetensors.index.json")):
        names = _names_in(index)
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            fail(
                "missing-data",
                f"'{index.name}' names '{missing[0]}', which is not in '{folder}'",
                "put all files of the checkpoint into one folder",
            )
        return [folder / name for name in names]
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        fail("no-such-file", f"there are no .safetensors files in '{folder}'")
    return found


def _names_in(index: Path) -> list[str]:
    """Return the names of the files that a `*.safetensors.index.json` lists.

    Raises:
        ValueError: it lists none, or one of another folder.
    """
    rows = _json_of(index).get("weight_map", {})
    if not isinstance(rows, dict):
        raise ValueError(f"expected an object 'weight_map' in '{index.name}'")
    names = {str(each) for each in rows.values()}
    for name in names:
        if not _is_plain_name(name):
            raise ValueError(
                f"expected files beside '{index.name}' in it; got {name[:60]!r}"
            )
    return sorted(names)


def _is_plain_name(name: str) -> bool:
    """Return whether a text is a file name, and no path into another folder."""
    return name not in ("", ".", "..") and not {"/", "\\", "\0"} & {*name}


def _quantization_of(folder: Path) -> JsonObject | None:
    """Return the quantisation config stored beside a checkpoint; None without one."""
    for name, method in _CONFIGS.items():
        config = _json_of(folder / name)
        scheme = config.get("quantization_config") if method is None else config
        if scheme and not isinstance(scheme, dict):
            raise ValueError(f"expected an object 'quantization_config' in '{name}'")
        if scheme:
            return {"quant_method": method, **scheme}
    return None


def _json_of(file: Path) -> JsonObject:
    """Return the JSON object in a file; an empty one if there is no such file.

    Raises:
        ValueError: it holds none.
    """
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON in '{file.name}'; got {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"expected an object in '{file.name}'")
    return found
