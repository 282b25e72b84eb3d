"""Kernels that read through views, gradients of convolutions, and scatters."""

from __future__ import annotations

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.graph import GraphOp
from aotc.errors import CompileError

from .building import evaluated
from .comparing import kernels_of, left, require_equal, sizes_of, traced
from .convolved import GRADIENTS

pytestmark = pytest.mark.usefixtures("with_triton")

BF16 = dtypes.to_numpy("bf16")
# how many launches of kernels a call has, and ops that are left to IREE
MOVED = {
    "transposed": (1, 0),
    "transposed_between": (1, 0),
    "transposed_in_whole_tiles": (1, 0),
    "turned": (2, 2),
    "transposed_twice": (1, 2),
    "concatenated": (1, 0),
    "gated": (1, 0),
    "gated_by_gelu": (1, 0),
    "rotated": (1, 3),
    "reversed_integers": (1, 0),
    "masked": (1, 1),
    "looked_up": (1, 0),
    "stepped": (1, 3),  # one of them has both updates
}
# entries whose tables are as large as calls say, or not
SCATTERED = ("embedded", "added", "counted", "added_inside")


# ---- what moves elements ------------------------------------------------------------


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_is_one_kernel_and_right(name: str) -> None:
    kernels = kernels_of("moved.py")
    found = left(kernels, name)
    own, rest = MOVED[name]
    assert (found["movement"], found.total() - own) == (own, rest), found
    for size in sizes_of("moved.py", name):
        require_equal("moved.py", name, size)


@pytest.mark.parametrize("name", ["transposed", "concatenated", "rotated", "gated"])
def test_masks_and_strides_that_are_wrong_are_found(name: str) -> None:
    """Masks let one too many in, and other ops are written than were meant."""
    wrong = {
        "masks": ("predicate = 2 : i64", "predicate = 3 : i64"),
        "remainders": ('"arith.remsi"', '"arith.divsi"'),
        "sums": ('"arith.addf"', '"arith.subf"'),
    }
    whole = kernels_of("moved.py")
    region = next(
        callee_of(op)
        for op in functions_of(whole.program.module)[name].entry_block.operations
        if not isinstance(op, GraphOp) and op.operation.name == "func.call"
    )
    text = whole.known[region][0].text
    tried = 0
    for before, after in wrong.values():
        if before in text:
            kernels = evaluated(np.inf, {before: after}, "moved.py")
            with pytest.raises((AssertionError, CompileError)):
                require_equal("moved.py", name, 19, kernels)
            tried += 1
    assert tried


# ---- gradients of convolutions ------------------------------------------------------


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_convolutions_read_windows_where_they_lie(name: str) -> None:
    found = left(kernels_of("convolved.py"), name)
    assert not found["windows"]
    if GRADIENTS[name][0] != "f32":
        assert not found["reverse"]
    for size in (
        (3, 9) if "n" in GRADIENTS[name][1] or "h" in GRADIENTS[name][1] else (1,)
    ):
        require_equal("convolved.py", name, size)


# ---- scatters -----------------------------------------------------------------------


@pytest.mark.parametrize("name", SCATTERED)
def test_scatters_that_add_are_one_kernel_and_right(name: str) -> None:
    """Indices are 0 to 8, so that each is there several times."""
    assert left(kernels_of("scattered.py"), name)["scatter"] == 1
    for size in sizes_of("scattered.py", name):
        require_equal("scattered.py", name, size)


def test_scatters_add_in_order_and_nothing_that_goes_elsewhere() -> None:
    """Also what is behind the end of the table, or before it, and no number."""
    kernels = kernels_of("scattered.py")
    at = np.array([3, 39, 3, 3, 40, -41, 2**40, 7], "i8")
    rng, x = np.random.default_rng(0), np.zeros((40, 3), "f4")
    u = (rng.normal(size=(8, 3)) * 10.0 ** rng.integers(-6, 6, (8, 3))).astype("f4")
    u[7, 1] = np.nan
    given = [x.astype(BF16), at, u.astype(BF16)]
    (found,), _ = kernels.call("added", given)
    (wanted,) = reference.evaluate(traced("scattered.py").module, "added", given)
    np.testing.assert_array_equal(found.astype("f4"), wanted.astype("f4"))
    assert np.isnan(found.astype("f4")).sum() == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"arith.minsi"', '"arith.maxsi"'),
        ("predicate = 4 : i64", "predicate = 5 : i64"),
        ("predicate = 2 : i64", "predicate = 3 : i64"),
        ('"arith.addf"', '"arith.maximumf"'),
    ],
)
def test_scatters_that_are_wrong_are_found(before: str, after: str) -> None:
    """Another order, an update that is added twice, a row too many, other sums."""
    kernels = evaluated(np.inf, {before: after}, "scattered.py")

    def require_all() -> None:
        for name in SCATTERED:
            require_equal("scattered.py", name, 19, kernels)

    with pytest.raises((AssertionError, CompileError)):
        require_all()
