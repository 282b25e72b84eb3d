"""Weights of four bits are read two to a byte, and are what they were."""

from __future__ import annotations

import numpy as np
import pytest

from aotc.errors import CompileError
from aotc.kernels.gpu.compiling import has_triton
from aotc.kernels.gpu.machines import MACHINES
from aotc.kernels.gpu.worker import compile_source
from aotc.machine.target import Target

from .building import evaluated, kernels_by_name
from .comparing import kernels_of, left, require_equal, sizes_of, traced

pytestmark = pytest.mark.usefixtures("with_triton")

FILE = "nibbles.py"
# the family of the kernel, and ops that are left to IREE
ENTRIES = {
    "signed": ("contraction", 0),
    "thin": ("rows", 0),
    "half": ("contraction", 1),
    "turned": ("contraction", 0),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_products_read_nibbles_as_they_are_packed(name: str) -> None:
    found, (family, rest) = left(kernels_of(FILE), name), ENTRIES[name]
    assert (found[family], found.total() - 1) == (1, rest), found
    for size in sizes_of(FILE, name):
        require_equal(FILE, name, size)


def test_packed_weights_have_half_the_bytes_and_others_stay() -> None:
    def sizes(parameters: dict[str, np.ndarray]) -> list[int]:
        bytes_ = (x.nbytes for x in parameters.values() if x.dtype.itemsize == 1)
        return sorted(bytes_)

    before = sizes(
        {k: np.asarray(x) for k, x in traced(FILE).program.parameters.items()}
    )
    after = sizes(
        {k: np.asarray(x) for k, x in kernels_of(FILE).program.parameters.items()}
    )
    assert after == [size // 2 for size in before]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"arith.shrsi"', '"arith.shli"'),
        ("predicate = 1 : i64", "predicate = 0 : i64"),
        ('"arith.remsi"', '"arith.divsi"'),
    ],
)
def test_nibbles_of_another_place_are_found(before: str, after: str) -> None:
    """Shifted the other way, the other half, and bytes of other neighbours."""
    kernels = evaluated(np.inf, {before: after}, FILE)
    with pytest.raises((AssertionError, CompileError)):
        require_equal(FILE, "signed", 19, kernels)


@pytest.mark.slow
@pytest.mark.skipif(not has_triton(), reason="needs aotc[gpu]")
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a", "rocm:gfx942"])
def test_no_kernel_of_weights_of_integers_spills(target: str) -> None:
    machine = MACHINES[
        (Target.parse(target).sm or Target.parse(target).gfx).rstrip("a")
    ]
    for kernel in kernels_by_name(FILE, target).values():
        made = compile_source(
            kernel.source, machine.arch, "strict", machine.shared_bytes
        )
        assert made.spilled == 0
