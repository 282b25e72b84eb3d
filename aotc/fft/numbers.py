"""The complex numbers that transforms take and give."""

from aotc.complexes.pairs import (
    Complex,
    absolute,
    angle,
    as_complex,
    conj,
    exp,
    polar,
)

__all__ = ["Complex", "absolute", "angle", "as_complex", "conj", "exp", "polar"]
