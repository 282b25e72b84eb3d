"""Products by operands of few bits, which kernels make f32 as they load them.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np

# dtype of the second operand, rows, depth, features, and how it becomes f32
PRODUCTS = {
    "scaled": ("i8", 5, 64, 48, "scale"),
    "scaled_rest": ("i8", 33, 37, 100, "scale"),
    "one_row": ("i8", 1, 300, 72, "scale"),
    "narrow": ("i8", 40, 40, 13, "scale"),
    "shifted": ("u8", 17, 48, 50, "shift"),
    "by_number": ("u8", 16, 40, 24, "number"),
    "halves": ("bf16", 12, 40, 64, "scale"),
    "any_rows": ("i8", "rows", 64, 40, "scale"),
    "by_rows": ("i8", 9, 32, 40, "rows"),  # a scale of each term: no prologue has it
}


def _product(name, how):
    def product(x, q, scale):
        w = q.astype("f32")
        if how == "number":
            w = (w - 3.0) * 0.25 * scale[0]
        if how == "shift":
            w = (w - scale * 7.0) * scale
        if how == "scale":
            w = w * scale
        if how == "rows":
            w = w * scale[: q.shape[0], None]
        return np.maximum(x @ w, -5.0)

    product.__name__ = name
    return product


for _name, (_dtype, _rows, _depth, _features, _how) in PRODUCTS.items():
    globals()[_name] = aotc.entry(
        x=aotc.Spec((_rows, _depth), "f32"),
        q=aotc.Spec((_depth, _features), _dtype),
        scale=aotc.Spec((_features,), "f32"),
    )(_product(_name, _how))


@aotc.entry(q=aotc.Spec((40, 40), "i8"), scale=aotc.Spec((40,), "f32"))
def of_both(q, scale):
    """Both operands are made of the same bytes, each for itself."""
    w = q.astype("f32")
    return w @ (w * scale)
