"""Reads and writes at positions that come with the call, at sizes that do as well."""

import aotc
from aotc import grad
from aotc import numpy as np

n, m = aotc.Dim("n", min=1), aotc.Dim("m", min=0)


@aotc.entry(x=aotc.Spec((n, 3)), ids=aotc.Spec((m,), "i32"), rows=aotc.Spec((m, 3)))
def rows(x, ids, rows):
    return {
        "taken": x[ids],
        "filled": np.take(x, ids, 0, mode="fill"),
        "wrapped": np.take(x, ids, 0, mode="wrap"),
        "nearest": np.take(x, ids, 0, mode="clip"),
        "along": np.take_along_axis(rows, ids[:, None], 1),
        "along, filled": np.take_along_axis(rows, ids[:, None], 1, mode="fill"),
        "along, wrapped": np.take_along_axis(rows, ids[:, None], 1, mode="wrap"),
        "put along": np.put_along_axis(rows, ids[:, None], 5.0, 1),
        "put along, clipped": np.put_along_axis(
            rows, ids[:, None], 5.0, 1, mode="clip"
        ),
        "set": x.at[ids].set(rows),
        "clipped": x.at[ids].set(rows, mode="clip"),
        "added": x.at[ids].add(rows),
        "multiplied": x.at[ids].multiply(rows),
        "largest": x.at[ids, 1:].max(rows[:, 1:]),
        "column": x.at[:, 1].set(7.0),
        "x": x,
    }


@aotc.entry(x=aotc.Spec((n, 3)), ids=aotc.Spec((m,), "i32"), rows=aotc.Spec((m, 3)))
def gradients(x, ids, rows):
    def total(x, rows):
        changed = x.at[ids].set(rows).at[ids].max(rows * rows)
        return (changed[ids] * rows + x.at[ids].multiply(rows)[ids]).sum()

    return grad(total, (0, 1))(x, rows)


@aotc.entry(
    x=aotc.Spec((n, 3)), ids=aotc.Spec((m,), "i64"), bytes=aotc.Spec((m,), "u8")
)
def other_widths(x, ids, bytes):
    modes = ("raise", "clip", "fill", "wrap")
    return {
        "read": [np.take(x, ids, 0, mode=mode) for mode in modes],
        "read by bytes": [np.take(x, bytes, 0, mode=mode) for mode in modes],
        "dropped": x.at[ids].add(1.0),
        "clipped": x.at[bytes].set(2.0, mode="clip"),
    }


@aotc.entry(x=aotc.Spec((n, 4)), at=aotc.Spec((2,), "i64"))
def windows(x, at):
    part = np.dynamic_slice(x, at, (x.shape[0], 2))
    return part, np.dynamic_update_slice(x, part * 2, at[::-1]), x
