"""Fourier transforms. Complex numbers are pairs in the last axis, as in ONNX."""

from __future__ import annotations

import numpy

from aotc import fft
from aotc import numpy as np
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.values import Known, only_number
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail


def _complex(x: Array) -> fft.Complex:
    """Return complex numbers from a last axis of size 1 (real) or 2."""
    # side by side, as IREE 3.13 cannot compile `flip` of every other element
    parts = np.moveaxis(x, -1, 0)
    two = x.shape[-1] == 2
    return fft.Complex(parts[0], parts[1] if two else np.zeros_like(parts[0]))


def _pairs(z: fft.Complex) -> Array:
    """Return complex numbers as real arrays with a last axis of size 2."""
    return np.stack([z.real, z.imag], -1)


def dft(
    x: Array,
    length: Known | None = None,
    place: Known | None = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
    opset: int,
) -> Array:
    """Return the discrete Fourier transform along an axis."""
    usual = 1 if opset < 20 else -2
    given = axis if place is None else int(only_number(place))
    along = (usual if given is None else given) % x.ndim
    count = None if length is None else int(only_number(length))
    if onesided and inverse:
        return np.expand_dims(fft.irfft(_complex(x), count, along), -1)
    if onesided:
        return _pairs(fft.rfft(x[..., 0], count, along))
    transform = fft.ifft if inverse else fft.fft
    return _pairs(transform(_complex(x), count, along))


def stft(
    signal: Array,
    frame_step: Known,
    window: Array | None = None,
    frame_length: Known | None = None,
    *,
    onesided: int = 1,
) -> Array:
    """Return the short-time Fourier transform: batch, frames, frequencies, 2."""
    step = int(only_number(frame_step))
    width = _fixed_length(window, frame_length)
    length = signal.shape[1].__index__()
    count = 1 + (length - width) // step
    at = numpy.arange(count)[:, None] * step + numpy.arange(width)
    frames = np.take(signal, at.astype("i4"), 1)
    if window is not None:
        frames = np.multiply(frames, np.reshape(window, (-1, 1)))
    if onesided and signal.shape[-1] == 1:
        return _pairs(fft.rfft(frames[..., 0], None, 2))
    found = _pairs(fft.fft(_complex(frames), None, 2))
    return found[:, :, : width // 2 + 1] if onesided else found


def _fixed_length(window: Array | None, frame_length: Known | None) -> int:
    """Return the static frame length: the given one, or that of the window."""
    if frame_length is not None:
        return int(only_number(frame_length))
    if window is None:
        fail("bad-node", "expected an STFT with a window or a frame_length")
    return window.shape[0].__index__()


def mel_weight_matrix(
    bins: Known,
    length: Known,
    rate: Known,
    low: Known,
    high: Known,
    *,
    output_datatype: int = 1,
) -> Array:
    """Return the matrix of mel filters that maps spectra to mel bands."""
    count, points = int(only_number(bins)), int(only_number(length))
    ends = [2595 * numpy.log10(1 + only_number(end) / 700) for end in (low, high)]
    mels = ends[0] + numpy.arange(count + 2) * (ends[1] - ends[0]) / (count + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = ((points + 1) * hertz // int(only_number(rate))).astype(int)
    matrix = numpy.zeros((points // 2 + 1, count))
    for i, (first, middle, last) in enumerate(
        zip(edges[:-2], edges[1:-1], edges[2:], strict=True)
    ):
        rise, fall = max(middle - first, 1), max(last - middle, 1)
        for j in range(first, middle):
            matrix[j, i] = (j - first) / rise
        matrix[middle, i] = 1
        for j in range(middle + 1, last):
            matrix[j, i] = (last - j) / fall
    return np.astype(lift(matrix.astype("f4")), element(output_datatype).dtype)


TABLE: dict[str, Imports] = {
    "DFT": dft,
    "MelWeightMatrix": mel_weight_matrix,
    "STFT": stft,
}
