"""The public names of `aotc.fft`."""

from __future__ import annotations

from aotc.complexes.pairs import (
    Complex,
    absolute,
    angle,
    as_complex,
    conj,
    exp,
    polar,
)
from aotc.fft.short_time import istft, stft
from aotc.fft.transforms import (
    dct,
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    idct,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from aotc.tracing.calls import guard

__all__ = [
    "Complex",
    "absolute",
    "angle",
    "as_complex",
    "conj",
    "dct",
    "exp",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "idct",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "istft",
    "polar",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "stft",
]

guard(globals(), __all__)
