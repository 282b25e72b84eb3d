"""Nests and views of ops hold what the ops compute, on the samples of every op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects import OPS, context
from aotc.dialects.graph import GraphOp, as_tuple, view_of_result
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.types import Tensor
from aotc.dialects.views import View

from .cases import Case, all_cases
from .conftest import new_module


def _has_rule(name: str, rule: str) -> bool:
    own, base = getattr(OPS[name], rule), getattr(GraphOp, rule)
    return getattr(own, "__func__", own) is not base.__func__


def _uses(rule: str) -> Iterator[tuple[Case, Any, list[np.ndarray]]]:
    """Yield each case of the ops with a rule, in some sizes: the op, and its arrays."""
    for case in all_cases():
        if not _has_rule(case.op, rule):
            continue
        for sizes in case.size_choices():
            fixed = case.with_static_sizes(sizes)
            arrays = fixed.arrays({})
            module = new_module()
            trace = fixed.build(module)
            ops = [op.opview for op in trace.block.operations]
            yield fixed, next(op for op in ops if isinstance(op, OPS[case.op])), arrays


def test_nests_compute_what_their_ops_do() -> None:
    met = set()
    for case, op, arrays in _uses("nest"):
        (y,) = as_tuple(case.infer({}))
        nest = type(op).nest(op)
        with context():
            views = nest.views([View.identity(x.shape) for x in arrays])
        if views is None:
            assert 0 in (*y.shape, *nest.sizes) or min(op.padding) < 0, str(case)
            continue
        wide = dtypes.to_numpy(accumulator(y.dtype))
        factors = [v.read(x).astype(wide) for v, x in zip(views, arrays, strict=True)]
        assert all(x.shape == nest.sizes for x in factors)
        with np.errstate(all="ignore"):
            found = nest.evaluate(factors).reshape(y.shape)
            (wanted,) = as_tuple(case.cls.ref(*arrays, **case.attributes({})))
        kind = dtypes.to_numpy(y.dtype)
        case.assert_equal(found.astype(kind), np.asarray(wanted).astype(kind))
        met.add(case.op)
    assert met >= {"dot_general", "conv_general", "max_pool", "sum_pool", "reduce_sum"}


def test_views_hold_what_their_ops_give() -> None:
    met = set()
    for case, op, arrays in _uses("view"):
        with context():
            view = view_of_result(op, View.identity(arrays[0].shape))
        if view is None:
            is_odd = case.op == "pad" or 0 in Tensor.of(op.results[0]).shape
            assert is_odd or case.op == "reshape", str(case)
            continue
        wanted = case.cls.ref(*arrays, **case.attributes({}))
        np.testing.assert_array_equal(view.read(arrays[0]), wanted)
        met.add(case.op)
    moves = {"transpose", "reshape", "broadcast", "slice", "reverse", "pad", "windows"}
    assert met == moves
