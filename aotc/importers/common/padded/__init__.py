"""Values whose sizes depend on values: padded to the most that they can be.

    idx = torch.nonzero(mask)     # [u0]: how many, only the running model knows
    y = expert(x[idx])            # [u0, features]

Arrays have the shapes that their types say, so such a value is an array of the largest
size, a `Padded`, whose first elements along the axis are the value's own and whose
others mean nothing. How many there are is a symbol of `sizes.py`: a `SymbolicDim` like
those of the contracts, with what it is when the model runs and the most that it can be.

What a function makes of such values, its ops do, each by the `pad` rule by which
entries are padded to buckets too (`op_rules.py`). A rule of its own, here or in the
package of an importer, has what these do not say: what makes such sizes (`sources.py`),
masks and known positions (`indexing.py`), parts that sizes end (`cutting.py`), and that
a call has elements to choose from (`reductions.py`). What has neither is refused, so
that padding is never taken for elements.

What padding holds has no derivative, and no derivative of anything else depends on it:

- where padding begins, it is made a copy of the first element (`from_first`), so that
  what is computed of it is as finite as the value itself;
- the derivative of a result with respect to its padding is taken to be zero, not
  multiplied by it, wherever it could reach something that is not padded
  (`mask_padding_gradient`): where an operand lacks a padded axis of the result, and
  where elements meet along one.
"""

from __future__ import annotations

from aotc.importers.common.padded.sizes import (
    bound_of,
    count_of,
    data_dependent_sizes,
    has_data_dependent,
    is_data_dependent,
)
from aotc.importers.common.padded.values import Equality, Padded, is_involved

__all__ = [
    "Equality",
    "Padded",
    "bound_of",
    "count_of",
    "data_dependent_sizes",
    "has_data_dependent",
    "is_data_dependent",
    "is_involved",
]
