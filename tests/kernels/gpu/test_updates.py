"""Kernels of GPUs that compute many updates, evaluated, also in place."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

from aotc.core.dtypes import to_numpy
from aotc.dialects.types import Tensor
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.gpu.reference import launch
from aotc.kernels.gpu.tying import write_over
from aotc.kernels.gpu.updates import safe_parts
from aotc.kernels.terms import Term
from aotc.kernels.ttir.evaluator import evaluate
from aotc.kernels.ttir.memory import Buffer
from tests.kernels.gpu.building import evaluated

pytestmark = pytest.mark.usefixtures("with_triton")


def _ties(term: Term) -> list[int]:
    """For each result an argument of its part and type that it may be written over."""
    (read, made), ties = safe_parts(term.function), list[int]()
    for result, part in zip(term.results, made, strict=True):
        apt = (
            n
            for n, x in enumerate(term.arguments)
            if read[n] == part >= 0 and x.type == result.type and n not in ties
        )
        ties.append(next(apt, -1))
    return ties


def _run_in_place(kernel: GpuKernel, term: Term, arguments: list[Any]) -> list[Any]:
    ties, awaited = _ties(term), Buffer.of_unknown("a", 1, np.dtype("i1"))
    given = [
        Buffer.of(f"a{n}", x, is_updated=n in ties) for n, x in enumerate(arguments)
    ]
    own = [
        Buffer.of_unknown("r", Tensor.of(x).elements, to_numpy(Tensor.of(x).dtype))
        for x, at in zip(term.results, ties, strict=True)
        if at < 0
    ]
    text = write_over(kernel.text, len(given), ties, 1)
    evaluate(text, [*given, awaited, *own], (kernel.programs, 1, 1))
    rest = iter(own)
    found = [given[at] if at >= 0 else next(rest) for at in ties]
    return [each.elements.view(each.dtype) for each in found]


def test_updates_written_over_what_they_read_are_those_beside_it() -> None:
    found = evaluated(inf, file="updated.py")
    rng, tied = np.random.default_rng(0), 0
    updates = [x for x in found.known.values() if x[0].name == "aotc_updates"]
    assert len(updates) >= 6
    for kernel, term in updates:
        kinds = [Tensor.of(value) for value in term.arguments]
        arguments = [
            rng.random(kind.shape).astype(to_numpy(kind.dtype)) for kind in kinds
        ]
        beside = launch(kernel, term, arguments, [])
        over = _run_in_place(kernel, term, arguments)
        tied += sum(at >= 0 for at in _ties(term))
        for one, other in zip(beside, over, strict=True):
            np.testing.assert_array_equal(one.written_elements(), other)
    assert tied > 20


def test_one_launch_has_updates_of_several_parameters_and_binds_few_tensors() -> None:
    """IREE's drivers of CUDA and HIP load no code that binds more than 16."""
    found = evaluated(inf, file="updated.py")
    terms = [term for _, term in found.known.values()]
    assert max(len(each.results) for each in terms) >= 6
    assert max(len(each.arguments) + len(each.results) for each in terms) <= 16
