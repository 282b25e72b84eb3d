"""Elements that are read at computed positions."""

import math
from collections.abc import Callable, Sequence

from aotc.dialects.lowering import Lowering
from aotc.dialects.types import Tensor, bounds
from aotc.mlir import Value, arith


def element_reader(
    low: Lowering, x: Value, kind: Tensor
) -> Callable[[Sequence[Value]], Value]:
    """Return a function that emits, in a body, a read of `x` at given indices.

    Note [reads of nothing]: where `x` may have no elements at all, it is read as a
    vector and never past its end, and an element that does not exist is 0. IREE 3.13
    reads many elements at once by their number in memory, which it divides by the
    sizes of all axes but the first: a size of 0 would end the process (SIGFPE).

    Args:
        low: where the reader is used.
        x: the lowered tensor.
        kind: its type.
    """
    if all(bounds(size)[0] > 0 for size in kind.shape):
        x = low.materialize(x)
        return lambda positions: low.extract(x, positions)
    count = math.prod(kind.shape)
    flat = low.materialize(low.reshape(x, kind, kind.with_shape((count,))))

    def element(positions: Sequence[Value]) -> Value:
        number = positions[0]
        for at, size in zip(positions[1:], kind.shape[1:], strict=True):
            number = arith.addi(arith.muli(number, low.size(size)), at)
        exists = arith.cmpi(arith.CmpIPredicate.ult, number, low.size(count))
        found = low.extract(flat, [low.clamp_index(number, count - 1)])
        return arith.select(exists, found, low.scalar(kind.dtype, 0))

    return element
