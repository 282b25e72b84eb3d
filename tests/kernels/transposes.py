"""Transposes: squares, runs and short axes, with what vectors leave over.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import control, nn

# shapes, and the order of their axes in the result
MOVES = {
    "squares": ((48, 64), (1, 0)),
    "squares_with_rests": ((3, 77, 53), (0, 2, 1)),
    "less_than_a_square": ((40, 9, 10), (0, 2, 1)),
    "many_squares": ((2, 2050, 39), (0, 2, 1)),
    "axis_between": ((29, 6, 35), (2, 1, 0)),
    "axes_around": ((3, 29, 6, 35, 2, 5), (2, 3, 0, 1, 4, 5)),
    "runs": ((5, 12, 3, 64), (0, 2, 1, 3)),
    "runs_with_rests": ((4, 31, 7, 13), (2, 1, 0, 3)),
    "long_runs": ((3, 5, 301, 7), (1, 0, 2, 3)),
    "last_of_2": ((3, 2, 1111), (0, 2, 1)),
    "last_of_3": ((2, 3, 53, 37), (0, 2, 3, 1)),
    "last_of_4": ((4, 999), (1, 0)),
    "first_of_2": ((2, 1111, 2), (0, 2, 1)),
    "first_of_3": ((2, 53, 37, 3), (0, 3, 1, 2)),
    "first_of_4": ((999, 4), (1, 0)),
    "last_of_3_blocks": ((1, 3, 20001), (0, 2, 1)),
    "first_of_3_blocks": ((20001, 3), (1, 0)),
    "axes_of_1": ((1, 60, 1, 50, 1), (4, 3, 2, 0, 1)),
}
LEFT = {
    "narrow": ((100, 5, 6), (0, 2, 1)),
    "narrow_apart": ((3, 50, 60), (2, 1, 0)),
    "small": ((30, 30), (1, 0)),
    "none": ((40, 0, 30), (2, 1, 0)),
    "nothing_moves": ((1, 60, 50), (1, 0, 2)),
}


def _move(name, shape, order, dtype="f32"):
    def entry(x):
        return np.transpose(x, order)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, dtype))(entry)


for _name, (_shape, _order) in (MOVES | LEFT).items():
    globals()[_name] = _move(_name, _shape, _order)
for _name in ("squares_with_rests", "runs_with_rests", "last_of_3", "first_of_3"):
    globals()[f"{_name}_i32"] = _move(f"{_name}_i32", *MOVES[_name], "i32")

_rows = aotc.Dim("rows", min=0)


@aotc.entry(x=aotc.Spec((_rows, 20, 70), "f32"))
def any_squares(x):
    return np.transpose(x, (0, 2, 1))


@aotc.entry(x=aotc.Spec((_rows, 20, 70), "f32"))
def any_squares_between(x):
    return np.transpose(x, (2, 0, 1))


@aotc.entry(x=aotc.Spec((_rows, 1, 300), "f32"))
def any_but_nothing_moves(x):
    return np.transpose(x, (1, 0, 2))


@aotc.entry(x=aotc.Spec((_rows, 12, 64), "f32"))
def any_runs(x):
    return np.transpose(x, (1, 0, 2))


@aotc.entry(x=aotc.Spec((_rows, 3, 13, 29), "f32"))
def any_images(x):
    return np.transpose(x, (0, 2, 3, 1))


@aotc.entry(x=aotc.Spec((_rows, 1000), "f32"))
def any_last(x):
    """Transpose an array whose last axis a call decides about."""
    return x.T


@aotc.entry(x=aotc.Spec((40, 50), "f32"), w=aotc.Spec((50, 60), "f32"))
def between_products(x, w):
    """Transpose what a kernel has made, for a caller and for another kernel."""
    y = np.tanh(x @ w)
    moved = np.reshape(np.transpose(np.reshape(y, (40, 4, 15)), (1, 2, 0)), (60, 40))
    return moved, nn.softmax(moved, -1)


@aotc.entry(x=aotc.Spec((64, 48), "f32"))
def in_a_loop(x):
    def step(total, number):
        return nn.softmax(total.T @ total, -1)[:, :48] + number, total.T

    return control.scan(step, x[:48], np.arange(3).astype("f32"))


@aotc.entry(x=aotc.Spec((64, 48), "f32"))
def slope(x):
    return aotc.grad(lambda x: np.sum(np.sin(x.T @ x) * (x.T @ x)))(x)


@aotc.entry(x=aotc.Spec((60, 50), "f32"))
def around_elementwise_ops(x):
    """Transpose beside ops that IREE computes with it."""
    return np.sin(np.cos(x).T), np.exp(x.T)
