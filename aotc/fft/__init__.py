"""Discrete Fourier transforms: the functions of `numpy.fft`, and `torch.stft`.

Complex numbers are a `Complex`, a pair of real arrays; real arrays are taken as well.
Results are f32, or f64 for f64. The size along a transformed axis is fixed; other axes
may be symbolic. Sizes with small factors are the fast ones; a large prime costs as much
as four times the next power of two.

`n` (or `s`) cuts the input off, or pads it with zeros, to that size. The inverse
divides by it; with `norm="forward"` the transform does, with "ortho" each of both by
its square root. An empty axis raises `bad-shape`, another norm `bad-norm`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.fft.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.fft.namespace")
