"""OpenVINO on the CPU, with its hint for latency, computing in f32.

    python -m inference.runners.open_vino MODEL.onnx MODEL.xml

converts a model to OpenVINO's own form, without making the weights f16.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that runs a compiled model's request; results are not
    copied.
    """
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    compiled = openvino.Core().compile_model(artifact, "CPU", settings)
    request = compiled.create_infer_request()

    def call() -> list[np.ndarray]:
        results = request.infer(inputs, share_inputs=True, share_outputs=True)
        return [results[port] for port in compiled.outputs]

    return call


if __name__ == "__main__":
    model = openvino.convert_model(sys.argv[1])
    openvino.save_model(model, sys.argv[2], compress_to_fp16=False)
