"""What the reference adds up along any axes is rounded once."""

import numpy as np
import pytest

from aotc.dialects import OPS
from aotc.dialects.reference.wide_sums import wide_sum

_ROWS = 300_000
_x = np.full((_ROWS, 3), 0.1, np.float32)
_exact = np.float32(np.float64(np.float32(0.1)) * _ROWS)


def test_numpy_adds_along_outer_axes_in_series():
    """Or else this file says nothing."""
    assert not np.allclose(_x.sum(0), _exact, rtol=1e-4)


@pytest.mark.parametrize(
    "total",
    [
        lambda x: wide_sum(x, 0),
        lambda x: wide_sum(x, (0,), keepdims=True)[0],
        lambda x: OPS["reduce_sum"].ref(x, axes=(0,)),
        lambda x: (
            OPS["normalize"].ref(x, axes=(0,), epsilon=1.0, centered=True)[1]
            * np.float32(_ROWS)
        ),
        lambda x: 0.1 / OPS["softmax"].ref(x, axis=0)[0],
        lambda x: 0.1 * np.exp(-OPS["log_softmax"].ref(x, axis=0)[0]),
        lambda x: OPS["sum_pool"].ref(
            x[None], window=(_ROWS,), strides=(1,), padding=(0, 0), dilation=(1,)
        )[0, 0],
    ],
    ids=["axis", "axes", "sum", "norm", "softmax", "log softmax", "pooling"],
)
def test_sums_along_outer_axes_are_rounded_once(total):
    assert np.allclose(total(_x), _exact, rtol=4e-6)


def test_sums_of_integers_and_halves_keep_their_dtypes():
    assert OPS["reduce_sum"].ref(np.full(50, 3, np.int8), axes=(0,)).dtype == np.int8
    halves = np.full(50, 3, np.float16)
    assert OPS["reduce_sum"].ref(halves, axes=(0,)).dtype == np.float32
