"""Differences from peers that were examined and stay, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from benchmarks.parity.agreement import LIMITS, Compared


@dataclass(frozen=True)
class Accepted:
    """An accepted difference from a peer: patterns of names and settings, and a
    limit.
    """

    names: str
    peers: str
    reason: str
    limit: float = np.inf
    settings: str = ""
    parts: str = ""

    def covers(self, compared: Compared) -> bool:
        """Return whether this accepted difference covers a result."""
        patterns = (
            (self.names, compared.name), (self.peers, compared.peer),
            (self.parts, compared.part),
        )  # fmt: skip
        return (
            all(not pattern or re.fullmatch(pattern, x) for pattern, x in patterns)
            and re.search(self.settings, compared.setting) is not None
            and compared.difference <= self.limit
        )


ACCEPTED = [
    # ---- one peer is less exact, and another one agrees
    Accepted("(numpy.)?exp2", "jax", "computed as exp(x ln 2), so not exact at 60", 32),
    Accepted("numpy.(sinh|cosh)", "jax", "exp(x - ln 2) at 60", 32),
    Accepted("numpy.(arc|a)tanh", "jax", "loses digits near 0", 64),
    Accepted("(numpy.)?sqrt", "torch", "not correctly rounded as IEEE 754 asks", 1),
    Accepted(
        "numpy.(true_)?divide", "jax", "XLA multiplies by the inverse of a broadcast", 1
    ),
    Accepted("erfc", "jax", "squares x in f32 before exp", 64),
    Accepted("(special.)?erfinv", "jax", "a polynomial of fewer digits", 32),
    Accepted("lgamma|special.(gammaln|betaln)", "jax", "fewer digits", 32),
    Accepted("polygamma|special.(digamma|psi)", "jax", "fewer digits", 16),
    Accepted(
        "special.(digamma|psi)", "scipy|torch", "loses digits close to poles", 512
    ),
    Accepted("special.polygamma", "torch", "f64 trigamma to 9 digits", 2e6),
    Accepted("special.log_ndtr", "jax", "a logarithm of almost 1 above 0", 256),
    Accepted("special.ndtr", "torch|jax", "1 + erf cancels below 0", 128),
    Accepted("remainder", "jax", "XLA flushes denormals", settings="^2_f32"),
    # ---- ours is less exact
    Accepted("special.log_ndtr", "scipy", "log1p of a rounded ndtr at 3, in f32", 5),
    # ---- a peer's own meaning
    Accepted("(numpy.)?sign", "torch", "the sign of NaN is 0", settings="edge|12"),
    Accepted("(special.)?erfinv", "scipy", "loses the sign of -0.0"),
    Accepted(
        "lgamma|special.gammaln", "scipy", "-inf at -inf, where C has inf"
    ),
    Accepted(
        "polygamma|special.(digamma|psi)", "scipy|torch",
        "digamma has infinities at both zeros; here as in JAX NaN at every pole",
        settings="edge|12",
    ),
    Accepted(
        "power", "jax",
        "an integer power reads 6 bits of the exponent, of negative ones too",
        settings="edge_[iu]",
    ),
    Accepted(
        "dynamic_update_slice", "jax",
        "clamps a u8 start against 298 in u8, where that is 42", settings="^3_f32",
    ),
    Accepted("attention", "jax", "NaN for rows that see nothing; here zeros"),
    Accepted(
        "numpy.(remainder|mod|divmod)", "numpy",
        "a remainder of zero has the sign of x2; here as in JAX that of x1",
        settings=r"\[144\]",
    ),
    Accepted(
        "numpy.(floor_divide|divmod)", "jax",
        "other signs of zero quotients; here as in NumPy",
    ),
    Accepted(
        "numpy.float_power", "numpy", "computes in f64", settings=r"^\(float32\[144"
    ),
    Accepted(
        "numpy.(nan)?(quantile|percentile)", "jax",
        "another element where a place is half-way; here as in NumPy",
        settings="nearest|midpoint|higher|lower",
    ),
    Accepted(
        "numpy.(nan)?(quantile|percentile)", "jax",
        "the slope by q where the place is an element: one of two",
        parts="grad|jvp",
    ),
]  # fmt: skip


def reason(compared: Compared) -> str | None:
    """Return "" if a result agrees, the accepted difference's reason, or None."""
    if compared.difference <= LIMITS[compared.kind]:
        return ""
    return next((each.reason for each in ACCEPTED if each.covers(compared)), None)
