"""Arrays whose elements tell where they come from."""

import numpy as np


def numbered(shape: int | tuple[int, ...], dtype: str = "f4") -> np.ndarray:
    """An array whose elements are all different."""
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)
