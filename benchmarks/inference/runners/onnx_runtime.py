"""ONNX Runtime on its CPU provider, with its usual optimisations: all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that runs a session of the .onnx file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        artifact, options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, inputs)
