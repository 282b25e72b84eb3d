"""Short time Fourier transforms: the functions of `torch.stft`.

PyTorch's rather than SciPy's, because models of sound are written with them. The last
axis is the time; results are …, frequencies, frames. Windows are `aotc.numpy.hanning`
and its like: of n + 1 elements without the last.
"""

from __future__ import annotations

from aotc import numpy as np
from aotc.complexes.pairs import Complex, ComplexLike
from aotc.dialects.types import Size, maximum
from aotc.fft.transforms import fft, ifft, irfft, rfft
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["istft", "stft"]


def stft(
    x: ArrayLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: ArrayLike | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
) -> Complex:
    """Return the Fourier transforms of a signal's windowed frames: its spectrogram.

    Args:
        x: …, time.
        n_fft: the size of a frame.
        hop_length: from frame to frame; n_fft // 4 without it.
        win_length: the size of the window, which stands in the middle of the frame;
            n_fft without it.
        window: a vector of `win_length` weights; ones without it.
        center: whether frame t has time t * hop_length in its middle, for which the
            signal is padded at both ends; at its start otherwise.
        pad_mode: what with, a mode of `aotc.numpy.pad`.
        normalized: whether to divide by sqrt(n_fft).
        onesided: whether to give n_fft // 2 + 1 frequencies; all n_fft otherwise.
    """
    signal = as_float(x)
    if not signal.ndim:
        fail("shape-mismatch", f"expected an axis of time; got {signal.type}")
    hop, weights = _frame(signal.dtype, n_fft, hop_length, win_length, window)
    if center:
        sides = [(0, 0)] * (signal.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        signal = np.pad(signal, sides, mode=pad_mode)
    frames = np.multiply(_split_frames(signal, n_fft, hop), weights)
    norm = "ortho" if normalized else "backward"
    transformed = rfft(frames, norm=norm) if onesided else fft(frames, norm=norm)
    return transformed.map(lambda part: np.swapaxes(part, -1, -2))


def istft(
    z: ComplexLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: ArrayLike | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: Size | None = None,
) -> Array:
    """Return the signals whose `stft` comes nearest to `z`: its inverse.

    Griffin and Lim, "Signal estimation from modified short-time Fourier transform",
    1984. `z` is a Complex …, frequencies, frames, and `length` the size of the signals,
    which reach as far as the frames without it. The rest is that of `stft`.
    """
    frequencies = n_fft // 2 + 1 if onesided else n_fft
    if not isinstance(z, Complex) or z.ndim < 2 or z.shape[-2] != frequencies:
        kind = type(z).__name__
        got = f"{kind} of shape {z.shape}" if isinstance(z, Complex) else kind
        fail(
            "shape-mismatch",
            f"expected z as a Complex of {frequencies} frequencies and frames; got "
            f"{got}",
        )
    hop, weights = _frame(z.dtype, n_fft, hop_length, win_length, window)
    rows = z.map(lambda part: np.swapaxes(part, -1, -2))
    norm = "ortho" if normalized else "backward"
    frames = irfft(rows, n_fft, norm=norm) if onesided else ifft(rows, norm=norm).real
    power = np.broadcast_to(np.square(weights), frames.shape[-2:])
    signal = _overlap_add(np.multiply(frames, weights), hop)
    total = _overlap_add(power, hop)
    covered = total > 1e-11  # what no window sees is unknown, and 0 here
    signal = np.where(covered, np.divide(signal, np.where(covered, total, 1.0)), 0.0)
    return _cut_ends(signal, n_fft // 2 if center else 0, length)


def _frame(
    dtype: str,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: ArrayLike | None,
) -> tuple[int, Array]:
    """Return the hop length, and the window's weight for each element of a frame."""
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if hop < 1 or not 1 <= size <= n_fft:
        fail(
            "bad-window",
            "expected hop_length of 1 or more and win_length from 1 to n_fft; got "
            f"{hop}, {size} and {n_fft}",
        )
    weights = np.ones(size, dtype) if window is None else np.astype(window, dtype)
    if weights.type.shape != (size,):
        fail("shape-mismatch", f"expected window of {size} weights; got {weights.type}")
    before = (n_fft - size) // 2
    return hop, np.pad(weights, (before, n_fft - size - before))


def _split_frames(x: Array, size: int, hop: int) -> Array:
    """Cut the last axis into overlapping frames: [..., frames, size], every `hop`
    elements.
    """
    image = np.reshape(x, (-1, x.shape[-1], 1))
    windows = emit("windows", image, window=(size,), strides=(hop,), dilation=(1,))
    return np.reshape(windows, (*x.shape[:-1], windows.shape[1], size))


def _overlap_add(frames: Array, hop: int) -> Array:
    """Add up frames [..., count, size], each moved by `hop` from the one before it.

    Frames are cut into pieces of `hop` elements: piece i of frame t is added to piece
    t + i of the result.
    """
    *lead, count, size = frames.shape
    pieces = -(-size // hop)
    none = [(0, 0)] * len(lead)
    whole = np.pad(frames, [*none, (0, 0), (0, pieces * hop - size)])
    rows = np.reshape(whole, (*lead, count, pieces, hop))
    moved = [
        np.pad(rows[..., i, :], [*none, (i, pieces - 1 - i), (0, 0)])
        for i in range(pieces)
    ]
    total = moved[0]
    for part in moved[1:]:
        total = np.add(total, part)
    flat = np.reshape(total, (*lead, -1))
    return flat[..., : (count - 1) * hop + size]


def _cut_ends(x: Array, side: int, length: Size | None) -> Array:
    """Remove `side` elements at the start, and at the end as many, or cut or pad with
    zeros to `length`.
    """
    if length is None:
        return x[..., side : x.shape[-1] - side]
    rest = x[..., side:]
    missing = maximum(length - rest.shape[-1], 0)
    filled = np.pad(rest, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    return filled[..., :length]
