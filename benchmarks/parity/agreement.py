"""Agreement of a result with a peer's: its meaning, and the peers themselves.

Differences are counted in units in the last place (ulps) of the coarser of the two
dtypes. NaN agrees with NaN only, an infinity with itself only. Integers and bools are
equal or not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch

from aotc.complexes import Complex
from aotc.tracing.array import Array

# Many small programs that run once each are not worth optimizing; XLA reads this late.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "highest")

# How many ulps apart two results may be, by what computes them.
LIMITS = {
    "exact": 0,  # moves elements or rounds once, as IEEE 754 says; signs of zeros too
    "chosen": 0,  # the same, but of two equal zeros either may be taken
    "elementwise": 4,  # a function of each element, with the signs of its zeros
    "cancelling": 8,  # the same, of terms that cancel: ulps of 1, or of larger results
    "network": 160,  # layers and losses, which sum many such terms: 2e-5 in f32
    # The others count ulps of the larger of 1 and the largest element of the result:
    "accumulated": 32,  # sums and products, in another order perhaps
    "iterated": 256,  # matrices factored or inverted, and what is made of factors
}
SIGNED = ("exact", "elementwise")


@dataclass(frozen=True)
class Compared:
    """A result of aotc beside a peer's; `theirs` is None if the peer refuses."""

    part: str
    name: str
    setting: str
    peer: str
    kind: str
    ours: Any
    theirs: Any
    refusal: str = ""

    @property
    def difference(self) -> float:
        """The largest difference of all results, in ulps."""
        ours, theirs = leaves(self.ours), leaves(self.theirs)
        if len(ours) != len(theirs):
            return np.inf
        pairs = zip(ours, theirs, strict=True)
        return max((ulps(*pair, self.kind) for pair in pairs), default=0.0)


# ---- differences --------------------------------------------------------------------


def ulps(ours: Any, theirs: Any, kind: str) -> float:
    """Return the largest difference in ulps; infinite for other shapes or dtypes."""
    if theirs is None:  # a result that the peer does not give
        return 0.0
    ours, theirs = as_numpy(ours), as_numpy(theirs)
    if ours.shape != theirs.shape:
        return np.inf
    if ours.dtype.kind == theirs.dtype.kind == "c":
        pairs = (ours.real, theirs.real), (ours.imag, theirs.imag)
        return max(ulps(*pair, kind) for pair in pairs)
    floats = [x.dtype for x in (ours, theirs) if x.dtype.kind not in "biu"]
    if not floats:
        return 0.0 if np.array_equal(ours, theirs) else np.inf
    coarser = max((ml_dtypes.finfo(dtype) for dtype in floats), key=lambda i: i.eps)
    ours, theirs = ours.astype("f8"), theirs.astype("f8")
    if kind in SIGNED and _signs_differ(ours, theirs):
        return np.inf
    return _distance(ours, theirs, coarser, kind)


def _distance(ours: Any, theirs: Any, info: Any, kind: str) -> float:
    """Return the largest difference in ulps of a float dtype, by the kind of
    function.
    """
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if not np.all(same | (np.isfinite(ours) & np.isfinite(theirs))):
        return np.inf
    size = np.where(np.isfinite(theirs), abs(theirs), 0.0)
    if kind in ("cancelling", "network"):
        size = np.maximum(size, 1.0)
    elif kind in ("accumulated", "iterated"):
        size = np.max(size, initial=1.0)
    _, exponent = np.frexp(np.maximum(size, float(info.smallest_normal)))
    unit = np.ldexp(float(info.eps), exponent - 1)
    with np.errstate(invalid="ignore"):
        return float(np.max(np.where(same, 0.0, abs(ours - theirs) / unit), initial=0))


def _signs_differ(ours: Any, theirs: Any) -> bool:
    """Return whether zeros have different signs."""
    zero = (ours == 0) & (theirs == 0)
    return bool(np.any(zero & (np.signbit(ours) != np.signbit(theirs))))


# ---- arrays of all libraries --------------------------------------------------------


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of nested tuples, lists and dicts; a `Complex` is one."""
    if isinstance(tree, Complex):
        return [as_numpy(tree.real) + 1j * as_numpy(tree.imag)]
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def as_numpy(x: Any) -> Any:
    """Return an array of any library as a NumPy array."""
    if isinstance(x, Array):
        return np.asarray(x._data)
    if isinstance(x, torch.Tensor):
        x = x.detach().resolve_conj().resolve_neg()
        if x.dtype == torch.bfloat16:
            return x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return x.numpy()
    return np.asarray(x)


def as_torch(x: Any) -> Any:
    """Return a NumPy array as a tensor."""
    x = np.array(x)
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


GIVEN: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x.copy(),
    "scipy": lambda x: x.copy(),
    "jax": jnp.asarray,
    "torch": as_torch,
}


def given(peer: str, tree: Any) -> Any:
    """Return a tree of arguments with NumPy arrays as the peer's arrays."""
    convert = GIVEN[peer]
    return jax.tree.map(lambda x: convert(x) if isinstance(x, np.ndarray) else x, tree)


# What peers say of dtypes, sizes and options that they lack.
REFUSALS = (
    NotImplementedError, RuntimeError, ValueError, IndexError, TypeError, KeyError
)  # fmt: skip


def asked(peer: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a peer's function; return (result, "") or (None, its error)."""
    try:
        with np.errstate(all="ignore"):
            result = function(*given(peer, args), **given(peer, kwargs))
    except REFUSALS as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return result, ""
