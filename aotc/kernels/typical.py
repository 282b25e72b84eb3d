"""The sizes for which kernels are cut up, where only a call decides them.

One schedule serves all calls. It is made for what most calls have, where the program
says that (`optimum`), and else for a typical size of the kind that its contract allows.
"""

from __future__ import annotations

from aotc.dialects.types import Size, bounds, optimum

# Where a schedule that leaves nothing over for one is as good for many, it is for one.
IMAGES = 1  # of a convolution, or matrices whose columns are reduced
PRODUCT_ROWS = 128  # small tiles, which a call of few rows needs, are there besides
PRODUCT_TERMS = 64
ATTENDED = 128  # queries, and positions
ROWS = 32  # of a norm or a softmax: a call may well have more than the least
SORTED = 1 << 12  # elements of a row


def typical_size(size: Size, wanted: int) -> int:
    """Return a static size for planning: the usual one, else `wanted` in its bounds."""
    if (usual := optimum(size)) is not None:
        return max(1, usual)
    least, most = bounds(size)
    return int(min(max(least, wanted), most))
