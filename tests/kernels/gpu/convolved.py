"""Gradients of convolutions, whose kernels read windows where they lie.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import nn

# dtype, image, kernel, strides, padding, dilation
GRADIENTS = {
    "same": ("f32", (2, 10, 9, 8), (3, 3, 8, 16), (1, 1), "SAME", (1, 1)),
    "strided": ("f32", (2, 10, 9, 8), (3, 3, 8, 16), (2, 2), "SAME", (1, 1)),
    "dilated": ("f32", (2, 12, 11, 8), (3, 2, 8, 16), (1, 1), "VALID", (2, 3)),
    "stem": ("f32", (2, 11, 13, 3), (5, 5, 3, 16), (2, 2), "SAME", (1, 1)),
    "lines": ("f32", (3, 40, 8), (5, 8, 16), (3,), "SAME", (1,)),
    "brains": ("bf16", (2, 10, 9, 8), (3, 3, 8, 16), (1, 1), "SAME", (1, 1)),
    "halves": ("f16", (2, 10, 9, 8), (2, 3, 8, 16), (2, 1), "SAME", (1, 1)),
    "images": ("f32", ("n", 7, 6, 8), (3, 3, 8, 16), (1, 1), "SAME", (1, 1)),
    "sizes": ("bf16", (2, "h", "w", 8), (3, 3, 8, 16), (1, 1), "SAME", (1, 1)),
}


def _gradients(name):
    dtype, image, kernel, strides, padding, dilation = GRADIENTS[name]

    def entry(x, k):
        def loss(x, k):
            how = {"strides": strides, "padding": padding, "dilation": dilation}
            y = nn.conv(nn.relu(x), k, **how)
            return np.sum(np.astype(y, "f32") ** 2)

        return aotc.grad(loss, argnums=(0, 1))(x, k)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(image, dtype), k=aotc.Spec(kernel, dtype))(entry)


for _name in GRADIENTS:
    globals()[_name] = _gradients(_name)
