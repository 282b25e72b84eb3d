"""Positions in order: rows of many lengths and dtypes, and a few of their elements.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import control

# rows, their length, and how many positions of each are wanted
SIZES = [(1, 1, 1), (3, 1, 1), (2, 2, 1), (2, 2, 2), (5, 9, 2), (4, 17, 8), (2, 33, 33)]
SIZES += [(1, 131, 130), (3, 200, 64), (1, 1000, 1000), (40, 5, 3)]
DTYPES = ["f16", "bf16", "f32", "f64", "i8", "u8", "i16", "i32", "u32", "i64", "u64"]


def _sorted(shape, count, dtype="f32"):
    def entry(x):
        return tuple(
            np.top_k(x, count, largest=largest)[1] for largest in (False, True)
        )

    entry.__name__ = "_".join([dtype, *map(str, (*shape, count))])
    return aotc.entry(x=aotc.Spec(shape, dtype))(entry)


for _rows, _size, _count in SIZES:
    _entry = _sorted((_rows, _size), _count)
    globals()[_entry.__name__] = _entry
for _dtype in DTYPES:
    _entry = _sorted((3, 50), 20, _dtype)
    globals()[_entry.__name__] = _entry

_rows = aotc.Dim("rows", min=0)
_size = aotc.Dim("size", min=0, max=3000)


@aotc.entry(x=aotc.Spec((_rows, _size), "f32"))
def any_rows(x):
    """All of a row, however long it is."""
    return np.argsort(x), np.sort(x)


@aotc.entry(x=aotc.Spec((_rows, aotc.Dim("longer", min=7), 1), "f32"))
def some_of_any(x):
    """Take some elements of an array that is read by something else as well."""
    x = x[..., 0] * 2.0
    values, positions = np.top_k(x, 7)
    return values, positions, np.exp(x)


@aotc.entry(x=aotc.Spec((4, 3, 40), "f32"))
def in_a_loop(x):
    """The sum of the five largest of each row of each step."""

    def step(total, row):
        return total + np.sum(np.top_k(row, 5).values), np.argsort(row)

    return control.scan(step, np.zeros(()), x)
