"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import fft
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import Value, array, as_pair


def fourier(op: Op, x: Value) -> Value:
    """Return the Fourier transform of x along the last axes; inverse ones are
    scaled.
    """
    lengths = op.ints("fft_length")
    axes = tuple(range(-len(lengths), 0))
    kind = op.word("fft_type")
    if kind == "RFFT":
        return fft.rfftn(array(x), lengths, axes)
    if kind == "IRFFT":
        return fft.irfftn(as_pair(x), lengths, axes)
    transform = fft.fftn if kind == "FFT" else fft.ifftn
    return transform(as_pair(x), lengths, axes)


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.fft": fourier,
}
