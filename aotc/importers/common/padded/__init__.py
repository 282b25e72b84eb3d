"""Values whose sizes depend on values: padded to the most that they can be.

    idx = torch.nonzero(mask)     # [u0]: how many, only the running model knows
    y = expert(x[idx])            # [u0, features]

Arrays have the shapes that their types say, so such a value is an array of the largest
size, a `Padded`, whose first elements along the axis are the value's own and whose
others mean nothing. How many there are is a symbol of `sizes.py`: a `Dim` like those of
the contracts, with what it is when the model runs and the most that it can be.

What an op makes of such values is decided by a rule, a function of this package; the
table of an importer says which rule an op of its source has. An op without one is
refused, so that padding is never taken for elements.

What padding holds has no derivative, and no derivative of anything else depends on it:

- where padding begins, it is made a copy of the first element (`from_first`), so that
  what is computed of it is as finite as the value itself;
- the derivative of a result with respect to its padding is taken to be zero, not
  multiplied by it, wherever it could reach something that is not padded
  (`mask_padding_gradient`);
- an operand without a padded axis of the result is broadcast along it first, so that
  the sum that is its derivative takes elements only; where a function itself sums, or
  its derivative does, padding is first made what is harmless there (`fill_padding`).
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
