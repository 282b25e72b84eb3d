"""Linear algebra on `Array`s, under the names of `numpy.linalg` and `scipy.linalg`.

The last two axes are a matrix of known size in f32 or f64, those before them a stack,
whose sizes may be symbolic. Factorizations are differentiated by their own rules, never
through the algorithm.

Traces keep the dtype, all others take integers as f32. Norms, traces and products take
f16 and bf16 as well; the rest refuses these (`dtype-mismatch`), and all refuse matrices
that are not square where they must be (`shape-mismatch`). What a singular matrix makes
impossible is Inf or NaN in the result, not an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.linalg.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.linalg.namespace")
