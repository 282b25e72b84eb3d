"""Faults in attention, of many queries and of few."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.attention import _AttentionKernel as AttentionKernel
from aotc.kernels.cpu.attention import decoder, gradient, scores
from aotc.kernels.cpu.vectors import add, index
from aotc.mlir import Value

from ..planting import Fault
from .ways import by, given


def _seen_by_first_vector(right: Any) -> Any:
    """Return a faulty `is_seen` that asks for the first vector of keys only."""

    def is_seen(self: Any, block: Any) -> Value:
        first = replace(self.tile, keys=min(self.tile.keys, self._lanes))
        return right(replace(self, tile=first), block)

    return is_seen


def _whole_blocks_only(right: Any) -> Any:
    """Return a faulty `write_block` that skips partial blocks."""

    def write_block(self: Any, block: Any) -> None:
        if block.count == self.tile.keys:
            right(self, block)

    return write_block


def _strictly(right: Any) -> Any:
    """Return a faulty comparison: > for >=."""
    return lambda predicate, x, y: right(
        "sgt" if predicate == "sge" else predicate, x, y
    )


def _one_less(block: Any, *_: Any) -> Any:
    """Return the block with one key less seen."""
    seen = block.seen
    return replace(block, seen=seen - 1 if isinstance(seen, int) else add(seen, -1))


FAULTS = [
    Fault(
        "a block is skipped by the first vector of its mask",
        "decoder", "decoder", decoder._Decoder, "_is_seen", _seen_by_first_vector,
    ),
    Fault(
        "positions after the last whole block are left out",
        "decoder", "decoder", decoder._Decoder, "_write_block", _whole_blocks_only,
    ),
    Fault(
        "all heads read the values of the first",
        "decoder", "decoder", decoder, "queries_of",
        by(lambda queries, *_: replace(queries, value=index(0))),
    ),
    Fault(
        "a row of all batches has the mask of the first",
        "decoder", "decoder", decoder, "queries_of",
        by(lambda queries, *_: replace(queries, bias=index(0))),
    ),
    Fault(
        "sums are not scaled to a later, higher score",
        "attention", "attention", scores, "rescale_factors",
        lambda right: lambda before, after: [
            vectors.splat(1.0, x.type.shape[0]) for x in after
        ],
    ),
    Fault(
        "a block of which a query sees nothing makes NaN",
        "attention", "attention", scores, "finite",
        lambda right: lambda highest: highest,
    ),
    Fault(
        "the last key of a block is left out of the sums",
        "attention", "attention", AttentionKernel, "block", by(_one_less),
    ),
    Fault(
        "a query does not see its own position",
        "attention", "causal", scores, "int_compare", _strictly,
    ),
    Fault(
        "queries of the second vector have the bias of the first",
        "attention", "attention", scores.ScoreWriter, "_bias_at",
        given(lambda self, block, place: (self, block, (place[0], 0))),
    ),
    Fault(
        "the last key of a block gets no gradient, and gives none",
        "attention_gradient", "attention_gradient", gradient._GradientKernel, "block",
        by(_one_less),
    ),
    Fault(
        "all heads have the cotangents of the first",
        "attention_gradient", "attention_gradient", gradient, "queries_of",
        by(lambda queries, *_: replace(queries, result=index(0))),
    ),
]  # fmt: skip
