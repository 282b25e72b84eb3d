"""How an attention is cut up, and the sizes that this depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aotc.dialects.ops.attention import Attention
from aotc.dialects.types import Tensor
from aotc.kernels.machine import Machine
from aotc.kernels.tile import most_rows, split_evenly

_SCRATCH = 32768 // 4  # f32 elements on the stack that IREE grants a kernel
_MOST_KEYS = 128  # of a block: their scores and the queries fit into the first cache
_LEAST_KEYS = 16  # of a block, unless there are fewer
_QUERIES = 32  # of a workgroup, at most
_MOST_WIDTH = 4  # vectors of weighted sums in registers


@dataclass(frozen=True)
class Sizes:
    """The static sizes of an attention."""

    batch: int
    length: int
    heads: int
    depth: int
    positions: int
    shared: int
    width: int

    @classmethod
    def of(cls, op: Attention) -> Sizes:
        query: Any = Tensor.of(op.query).shape
        value: Any = Tensor.of(op.value).shape
        return cls(*query, *value[1:])


@dataclass(frozen=True)
class Strides:
    """Between elements of the bias that are beside each other along an axis.

    0 where one element serves the whole axis.
    """

    batch: int
    head: int
    query: int
    position: int


def bias_strides(op: Attention) -> Strides:
    """Those of an attention; zeros where it has no bias."""
    kind, sizes = Tensor.of(op.bias), Sizes.of(op)
    if kind.rank == 0:
        return Strides(0, 0, 0, 0)
    found, stride = [], 1
    wanted = (sizes.batch, sizes.heads, sizes.length, sizes.positions)
    own: Any = kind.shape
    for size, want in zip(reversed(own), reversed(wanted), strict=True):
        found.append(stride if size == want else 0)
        stride *= size
    return Strides(*reversed(found))


@dataclass(frozen=True)
class AttentionTile:
    """The schedule of an attention.

    Args:
        lanes: elements of a vector.
        vectors: of queries that one workgroup has.
        rows: keys, at most, of which the scores are in registers.
        keys: of a block.
        width: vectors of weighted sums that are in registers.
        queries: that they are of, at most.
    """

    lanes: int
    vectors: int
    rows: int
    keys: int
    width: int
    queries: int

    @property
    def columns(self) -> int:
        """Queries of a workgroup."""
        return self.lanes * self.vectors

    def to_plain(self) -> dict[str, int]:
        """As the IR holds it."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: Mapping[str, int]) -> AttentionTile:
        """The inverse of `to_plain`."""
        return cls(**plain)


def choose_tile(op: Attention, machine: Machine) -> AttentionTile | None:
    """The tile for an attention on a machine; None if its heads are too deep."""
    sizes, lanes = Sizes.of(op), machine.lanes
    count = _choose_vectors(sizes, lanes)
    most = _most_keys(sizes, count * lanes)
    if most < min(_LEAST_KEYS, sizes.positions):
        return None
    keys = max(split_evenly(sizes.positions, most))
    width = min(_MOST_WIDTH, -(-sizes.width // lanes))
    return AttentionTile(
        lanes=lanes,
        vectors=count,
        rows=most_rows(count, sizes.shared * sizes.depth, machine),
        keys=keys,
        width=width,
        queries=most_rows(width, 1, machine),
    )


def _choose_vectors(sizes: Sizes, lanes: int) -> int:
    """As many as leave the fewest lanes empty, more of them first."""
    needed = -(-sizes.length // lanes)
    most = min(needed, _QUERIES // lanes)
    while most > 1 and _most_keys(sizes, most * lanes) < _LEAST_KEYS:
        most -= 1
    counts = range(most, min(most, 2) - 1, -1)
    return min(counts, key=lambda n: (-(-needed // n) * n, -n))


def _most_keys(sizes: Sizes, columns: int) -> int:
    """Keys of a block for which there is scratch memory, beside that of queries."""
    return min(_MOST_KEYS, _SCRATCH // columns - 1 - sizes.depth)
