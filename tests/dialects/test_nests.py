"""Nests and views of ops hold what the ops compute, on the samples of every op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aotc.dialects import OPS, context
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import GraphOp, as_tuple, view_of_result
from aotc.dialects.movement.views import View
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Tensor
from aotc.kernels.reference import evaluate
from aotc.kernels.term_builder import term_of

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


def test_nests_and_cascades_compute_what_their_ops_do() -> None:
    """As the terms of functions that are an op alone, of symbolic sizes too."""
    met = set()
    for case in all_cases():
        if case.cls.cascade is None and not _has_rule(case.op, "nests"):
            continue
        module = new_module()
        case.build(module)
        function = functions_of(module)[str(case)]
        with context(), known_contracts(contracts_of(function)):
            term = term_of(function)
        assert term is not None, str(case)
        for sizes in case.size_choices():
            arrays, attributes = case.arrays(sizes), case.attributes(sizes)
            symbols = [sizes[name] for name in case.symbols]
            found = evaluate(term, case.inputs(sizes), symbols)
            with np.errstate(all="ignore"):
                wanted = as_tuple(case.cls.ref(*arrays, **attributes))
            for mine, theirs in zip(found, wanted, strict=True):
                case.assert_equal(mine, np.asarray(theirs).astype(mine.dtype))
        met.add(case.op)
    assert met >= {"dot_general", "conv_general", "max_pool", "sum_pool", "reduce_sum"}
    assert met >= {"argsort", "concatenate", "softmax", "normalize", "attention"}


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
