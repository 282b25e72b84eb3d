"""The entries of `integers.py` of which each kind of product is one, for their code."""

from tests.kernels.integers import (  # noqa: F401
    batch,
    mixed,
    mixed_back,
    narrow,
    odd_runs,
    seven_bits,
    several_parts,
    square,
    w,
)
