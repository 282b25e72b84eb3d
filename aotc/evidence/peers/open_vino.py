"""OpenVINO on the CPU, with its hint for latency, and no narrower floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import openvino

from aotc.core import dtypes
from aotc.evidence.messages import ANY
from aotc.evidence.peers.engine import Array, PeerInput


class OpenVino:
    """An OpenVINO inference request of a compiled model; its outputs are not copied."""

    version: str = openvino.__version__.partition("-")[0]
    path = ANY
    compiles = 0

    def __init__(self, file: Path, threads: int) -> None:
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",  # by default bf16 where it is faster
            "NUM_STREAMS": 1,
        }
        compiled = openvino.Core().compile_model(file, "CPU", settings)
        self._request = compiled.create_infer_request()
        self.inputs = tuple(map(_port, compiled.inputs))
        self.outputs = tuple(map(_name, compiled.outputs))

    def prepare(self, arrays: Sequence[Array]) -> dict[int, Array]:
        """Return the arrays in a dict by input index."""
        return dict(enumerate(arrays))

    def call(self, prepared: Mapping[int, Array]) -> list[Array]:
        """Run on arrays by input number; the next call overwrites the outputs."""
        found = self._request.infer(prepared, share_inputs=True, share_outputs=True)
        return [found[place] for place in range(len(self.outputs))]


def _port(port: openvino.ConstOutput) -> PeerInput:
    """Return an OpenVINO input as a `PeerInput`."""
    sizes = (None if size.is_dynamic else size.get_length() for size in _sizes(port))
    dtype = dtypes.canonical_dtype(port.element_type.to_dtype())
    return PeerInput(_name(port), dtype, tuple(sizes))


def _sizes(port: openvino.ConstOutput) -> Sequence[openvino.Dimension]:
    """Return the dimensions of an OpenVINO input or output."""
    return list(port.partial_shape)


def _name(port: openvino.ConstOutput) -> str:
    """Return the name of an OpenVINO input or output; empty without one."""
    return str(port.any_name) if port.names else ""
