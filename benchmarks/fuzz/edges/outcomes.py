"""Outcomes of a call, ours and a peer's, and whether they are the same.

A float is the same within a few units in the last place, of each element where all are
moderate, and of the largest where sums may cancel. NaN is the same as NaN only, an
infinity as itself. Results of the peer are taken in the dtype of ours, which may be
another one of the same kind: integers stay in their dtype, floats without one are f32.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.complexes import Complex
from aotc.core.dtypes import FLOATS
from aotc.errors import AotcError
from aotc.tracing.array import Array

from .values import NUMPY_DTYPES, dtypes_finfo

# Units in the last place.
TOLERANCE = 512
# What tells of an argument that a peer does not have.
LACKING = (
    "unexpected keyword argument", "invalid keyword", "positional argument",
    "not recognized as a keyword", "Device not understood", "takes from",
    "takes at most",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The result arrays of a call, or its error."""

    leaves: tuple[Any, ...] | None = None
    refusal: str = ""
    code: str = ""

    @property
    def told(self) -> str:
        """The outcome as one line."""
        if self.leaves is None:
            return f"raises {self.refusal}"
        return " and ".join(_shown(leaf) for leaf in self.leaves) or "nothing"


def _shown(x: Any) -> str:
    """Return an array's dtype, shape and elements as text."""
    text = np.array2string(x, threshold=12, edgeitems=3, max_line_width=10_000)
    return f"{x.dtype}{list(x.shape)} {' '.join(text.split())}"


def ours(function: Callable[..., Any], args: Any, kwargs: Any) -> Outcome:
    """Call a function of aotc; return its outcome."""
    try:
        return Outcome(tuple(leaves(function(*args, **kwargs))))
    except AotcError as error:
        return Outcome(refusal=error.message, code=error.code)
    except Exception as error:  # told as a difference
        return Outcome(refusal=f"{type(error).__name__}: {error}", code="crash")


def theirs(function: Callable[..., Any], args: Any, kwargs: Any) -> Outcome:
    """Call a function of a peer; return its outcome."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Outcome(tuple(leaves(function(*args, **kwargs))))
    except Exception as error:  # each library has its own
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, (TypeError, ValueError)) and any(
            lacking in text for lacking in LACKING
        ):
            return Outcome(refusal=text, code="lacking")
        return Outcome(refusal=text)


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of a result; a complex pair is one."""
    if isinstance(tree, Complex):
        real, imag = (np.asarray(as_numpy(part)) for part in tree)
        wide = np.result_type(real.dtype, np.complex64)
        whole = np.empty(real.shape, wide)
        whole.real, whole.imag = real, imag
        return [whole]
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [np.asarray(as_numpy(tree))]


def as_numpy(x: Any) -> Any:
    """Return an array of any library as a NumPy array."""
    return np.asarray(x._data) if isinstance(x, Array) else x


# ---- the same or not ----------------------------------------------------------------


def verdict(
    our: Outcome, their: Outcome, dtypes: frozenset[str], signed: bool = True
) -> str:
    """Return one of: same, refused (by both), differs, stricter, looser, crash.

    Args:
        our: what aotc gives.
        their: what the peer gives.
        dtypes: of the arguments.
        signed: whether zeros have a sign.
    """
    if our.code == "crash":
        return "crash"
    if our.leaves is None:
        return "refused" if their.leaves is None else "stricter"
    if their.leaves is None:
        return "looser"
    if len(our.leaves) != len(their.leaves):
        return "differs"
    pairs = zip(our.leaves, their.leaves, strict=True)
    same = all(is_same(*pair, dtypes, signed) for pair in pairs)
    return "same" if same else "differs"


def is_same(x: Any, y: Any, dtypes: frozenset[str], signed: bool) -> bool:
    """Return whether two results agree within the rounding of these dtypes."""
    if x.shape != y.shape or _kind(x) != _kind(y):
        return False
    if x.dtype != y.dtype and str(x.dtype) not in dtypes | STANDARD:
        return False
    if x.dtype.kind == "c":
        parts = (x.real, y.real), (x.imag, y.imag)
        scale = np.where(np.isfinite(y), abs(y), 0.0)
        scale = scale if signed else np.max(scale, initial=0.0)
        return all(_is_near(*pair, dtypes, signed, scale) for pair in parts)
    if _kind(x) != "f":
        with np.errstate(all="ignore"):
            return bool(np.array_equal(x, y.astype(x.dtype)))
    scale = 0.0 if signed else np.max(np.where(np.isfinite(y), abs(y), 0), initial=0.0)
    return _is_near(x, y, dtypes, signed, scale)


STANDARD = frozenset({"float32", "int32", "complex64", "complex128"})


def _kind(x: Any) -> str:
    """Return the kind of an array's dtype, with bf16 as float and unsigned as
    integer.
    """
    kind = "f" if x.dtype == NUMPY_DTYPES["bf16"] else x.dtype.kind
    return "i" if kind == "u" else str(kind)


def _info(dtype: Any) -> Any:
    """Return the limits of a float dtype, bf16 too."""
    return np.finfo(dtype) if dtype.kind in "fc" else dtypes_finfo(dtype)


def _is_near(x: Any, y: Any, dtypes: frozenset[str], signed: bool, scale: Any) -> bool:
    """Return a mask of elements that agree within the coarsest dtype's rounding."""
    floats = [NUMPY_DTYPES[name] for name in FLOATS]
    given = [dtype for dtype in floats if str(dtype) in dtypes]
    coarser = max(map(_info, (x.dtype, y.dtype, *given)), key=lambda info: info.eps)
    with np.errstate(all="ignore"):
        x, y = x.astype("f8"), y.astype(x.dtype).astype("f8")
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        finite = np.isfinite(x) & np.isfinite(y)
        if not np.all(same | finite):
            return False
        if signed and np.any((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))):
            return False
        largest = np.max(np.where(finite, abs(y), 0), initial=0.0)
        least = min(largest, 1.0) if largest < 1e6 else float(coarser.smallest_normal)
        size = np.maximum(np.maximum(abs(y), scale), least)
        return bool(
            np.all(same | (abs(x - y) <= TOLERANCE * float(coarser.eps) * size))
        )
