"""Ops that are faster as compositions of ops, each with a kernel of its own.

One kernel of an attention goes through all keys of a row one block after the other,
and a step of a decoder has few rows: most of a chip is idle. The scores of a row, and
the parts of the sums by them, can be computed by as many programs as there are keys.
"""

from __future__ import annotations

from aotc.core.dtypes import bits
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.types import Tensor
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.matrices import START
from aotc.kernels.planning.reductions import reduced_axes
from aotc.kernels.typical import typical_size

# Measured on an H200: a step of 64 keys, in nanoseconds, of a kernel with few programs.
_STEP = {"f32": 4400.0, "f16": 1500.0, "bf16": 1500.0}
_KEYS = 64
_USUAL = 1024  # keys, where no contract says how many
_DEPTH = 128  # of a query and a value
_MOST_ROWS = 16  # that heads which share keys have, of queries
_LAUNCH = 2500.0  # nanoseconds of a kernel of few elements
_LAUNCHES = 4  # scores, their softmax, and the sums by it in parts
_PASSES = 4  # in which scores are written or read
_WIDE = 4  # bytes of a score
_GAIN = 0.7  # of the time of one kernel, at most


def is_better_composed(op: GraphOp, machine: Gpu) -> bool:
    """Return whether an op is faster decomposed than as one GPU kernel.

    Such ops are norms along other axes than the last, and attention of few queries by
    many keys, whose logarithms of sums nothing reads. (`causal` hides all but few
    keys.)
    """
    if isinstance(op, Attention):
        is_plain = not op.causal and not [*op.logsum.uses]
        return is_plain and _is_long(op, machine)
    if not isinstance(op, Normalize):
        return False
    axes, rank = reduced_axes(op), Tensor.of(op.x).rank
    return axes != tuple(range(rank - len(axes), rank))


def _is_long(op: Attention, machine: Gpu) -> bool:
    """Return whether an attention of few rows is faster as several kernels."""
    query = Tensor.of(op.query)
    count, positions, shared, _ = Tensor.of(op.key).shape
    heads = typical_size(shared, 1)
    batch, positions = typical_size(count, 1) * heads, typical_size(positions, _USUAL)
    rows = typical_size(query.shape[1], _MOST_ROWS + 1)
    rows *= typical_size(query.shape[2], heads) // max(heads, 1)
    is_few = 0 < batch < machine.multiprocessors and 0 < rows <= _MOST_ROWS
    if not is_few or query.dtype not in _STEP:
        return False
    whole = START + -(-positions // _KEYS) * _STEP[query.dtype]
    depths = query.shape[3] + Tensor.of(op.value).shape[3]
    read = batch * positions * typical_size(depths, _DEPTH)
    moved = read * bits(query.dtype) // 8 + _PASSES * batch * rows * positions * _WIDE
    return _LAUNCHES * _LAUNCH + moved / machine.bandwidth < _GAIN * whole
