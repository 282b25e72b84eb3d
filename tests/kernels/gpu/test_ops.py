"""The GPU kernels of ops by themselves compute what the ops do, in all their dtypes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import as_tuple
from aotc.kernels.gpu.emitter import NoTermKernel
from tests.dialects.cases import Case, all_cases
from tests.dialects.conftest import new_module

from .launches import kernel_of, launched

MATRICES = {"dot_general", "conv_general"}
ROWS = {"softmax", "log_softmax", "normalize", "max_pool", "sum_pool"}
ROWS |= {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"}
MOVES = {"transpose", "broadcast", "slice", "reverse", "pad", "windows", "concatenate"}
OTHERS = {"add", "divide", "tanh", "gelu", "erf", "sin", "expm1", "log1p", "round_even"}
OTHERS |= {"compare", "select", "cast", "bitcast", "shift_right", "clamp", "lgamma"}


def computed(cases: Iterable[Case]) -> set[str]:
    """Return the ops of which there are kernels, which compute what they do."""
    met = set()
    for case in cases:
        module = new_module()
        case.build(module)
        function = functions_of(module)[str(case)]
        *ops, _ = function.entry_block.operations
        if not all(len(op.results) for op in ops):  # effects alone
            continue
        kernel = kernel_of(function)
        if isinstance(kernel, NoTermKernel):
            continue
        for sizes in case.size_choices():
            inputs, attributes = case.inputs(sizes), case.attributes(sizes)
            symbols = [sizes[name] for name in case.symbols]
            found = launched(function, inputs, symbols)
            with np.errstate(all="ignore"):
                wanted = as_tuple(case.cls.ref(*case.arrays(sizes), **attributes))
            for mine, theirs in zip(found, wanted, strict=True):
                case.assert_equal(mine, np.asarray(theirs).astype(mine.dtype))
        met.add(case.op)
    return met


def test_kernels_of_ops_compute_what_the_ops_do() -> None:
    """On some samples of every op, of symbolic sizes too."""
    known = [*all_cases()]
    some = [case for case in known if case.op in MATRICES | ROWS]
    met = computed([*some[::6], *known[::24]])
    assert met >= MATRICES


@pytest.mark.slow
def test_kernels_of_ops_compute_what_the_ops_do_in_all_dtypes() -> None:
    met = computed(all_cases())
    assert met >= MATRICES | ROWS | MOVES | OTHERS
