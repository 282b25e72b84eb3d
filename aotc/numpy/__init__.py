"""NumPy's functions on `Array`s: the language that models are written in.

Names, argument orders and results are NumPy's. The differences, all of them on purpose:

- Arrays of different dtypes do not mix; convert one with `astype`. Python numbers take
  the dtype of the array that they meet, or f32, i32 or bool among themselves.
- Integer results of `argmax`, `arange` and the like are i32, and sums keep their dtype.
- Indices that the model computes are clipped to the nearest element.
- Sizes may be symbolic; what only a value could decide is an error at once.

What functions of one kind have in common:

- Functions of two arrays broadcast them. Those that keep the kind of their numbers
  (`abs`, `square`, `add`, `maximum`, `floor`, …) keep the dtype; those of real numbers
  (`exp`, `sqrt`, `sin`, `divide`, `mean`, …) take integers and bools as f32 and keep
  the dtype of floats. Comparisons, `isnan` and its kin and the `logical_` functions
  give bools; the latter take every element but 0 for true, NaN included.
- Reductions take `axis`: None for all axes, an int or a tuple; `keepdims` leaves them
  in place with size 1. Sums and products of bools are i32. Of no elements, a sum is 0,
  a product 1, `any` false, `all` true, `mean` and `var` are NaN, and what chooses an
  element (`max`, `argmax`, `median`, …) raises `empty-reduction`. Where only some calls
  have none (the least number of a size is that of its `aotc.Dim`), `max`, `min`,
  `argmax` and `argmin` raise it too, and quantiles are NaN in such calls. NaN among the
  elements makes the number NaN, but for the functions with `nan` in their names.
- Errors: `dtype-mismatch` (also for arrays of two dtypes), `shape-mismatch` (sizes that
  are not provably what they must be), `bad-axis`, `bad-index`, and `symbolic-size`
  where a size must be known.

Broadcasting is explicit below this module: it inserts the ops that repeat elements.
The functions are defined by family in this folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotc.core.deferring import lazy_attributes
from aotc.numpy.constants import *  # noqa: F403
from aotc.tracing.operators import provide_loader

if TYPE_CHECKING:
    from aotc.numpy.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.numpy.namespace")


def _functions_of_arrays() -> dict[str, Any]:
    """Return the functions behind the operators and methods of `Array`, by name."""
    from aotc.numpy.updating import At

    return {name: __getattr__(name) for name in __getattr__("__all__")} | {"at": At}


provide_loader(_functions_of_arrays)
