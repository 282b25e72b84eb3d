"""torch.compile with weights frozen into the code; needs a C++ compiler."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch._inductor.config as inductor

from ..systems import has_symbols
from .eager import call_of, read


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that calls the torch.compile'd module.

    A model of symbolic sizes is compiled for all sizes.
    """
    inductor.freezing = True
    if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        inductor.cpp.simdlen = 256
    dynamic = has_symbols(artifact.parent)
    return call_of(torch.compile(read(artifact, threads), dynamic=dynamic), inputs)
