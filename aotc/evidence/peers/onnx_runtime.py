"""ONNX Runtime on its CPU provider, with its usual optimisations: all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnxruntime

from aotc.evidence.messages import ANY
from aotc.evidence.peers.engine import Array, PeerInput

_DTYPES = {
    "tensor(bool)": "bool",
    "tensor(float16)": "f16",
    "tensor(bfloat16)": "bf16",
    "tensor(float)": "f32",
    "tensor(double)": "f64",
    **{f"tensor(int{bits})": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"tensor(uint{bits})": f"u{bits}" for bits in (8, 16, 32, 64)},
}


class OnnxRuntime:
    """An ONNX Runtime session of one .onnx file."""

    version: str = onnxruntime.__version__
    path = ANY
    compiles = 0

    def __init__(self, file: Path, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            file, options, providers=["CPUExecutionProvider"]
        )
        self.inputs = tuple(
            PeerInput(each.name, _DTYPES.get(each.type, each.type), _shape(each.shape))
            for each in self._session.get_inputs()
        )
        self.outputs = tuple(each.name for each in self._session.get_outputs())

    def prepare(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Return the arrays in a dict by input name."""
        names = (port.name for port in self.inputs)
        return dict(zip(names, arrays, strict=True))

    def call(self, prepared: Mapping[str, Array]) -> list[Array]:
        """Run the session; return its outputs."""
        outputs: list[Array] = self._session.run(None, prepared)
        return outputs


def _shape(sizes: Sequence[int | str | None]) -> tuple[int | None, ...]:
    """Return sizes, with None for symbolic ones."""
    return tuple(size if isinstance(size, int) else None for size in sizes)
