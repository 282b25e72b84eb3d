"""Files of weights whose tensors are quantised, as `Weights.load` reads them.

Importing this package provides its readers to `aotc.tracing.archives`; they are
imported when a file of theirs is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.tracing.archives import FOLDER, provide_readers
from aotc.tracing.entry import Weights

if TYPE_CHECKING:
    from aotc.weight_formats.tensors import Tensors

__all__ = ["Weights"]


def _read_gguf(file: Path) -> tuple[Tensors, Mapping[str, object]]:
    """Return the tensors and the metadata of a GGUF file; imports its reader first."""
    from aotc.weight_formats.gguf import read_gguf

    return read_gguf(file)


def _read_checkpoint(path: Path) -> tuple[Tensors, Mapping[str, object]]:
    """Return the tensors and the metadata of a safetensors checkpoint (file or
    folder).
    """
    from aotc.weight_formats.checkpoints import read_checkpoint

    return read_checkpoint(path)


provide_readers(
    {".gguf": _read_gguf, ".safetensors": _read_checkpoint, FOLDER: _read_checkpoint}
)
