"""The ranks of a group, and collectives of NumPy arrays over them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from aotc.errors import InputError
from aotc.parallel.definitions import results
from aotc.parallel.engine import Array, Engine


class Group:
    """The processes (ranks) that compute together, and their collectives.

    Every rank calls the same methods in the same order, with arrays of the same shape
    and dtype. Results are the same bits on all engines and on all ranks.

    Args:
        engine: what moves arrays between them.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.rank, self.size = engine.rank, engine.size

    def all_reduce(self, x: Array, kind: str = "sum") -> Array:
        """Return the sum, max or min of all ranks' arrays, reduced in rank order."""
        if kind not in ("sum", "max", "min"):
            raise InputError("bad-kind", f"expected sum, max or min; got {kind!r}")
        return self._collect({"op": "all_reduce", "kind": kind}, x)

    def all_gather(self, x: Array, axis: int = 0) -> Array:
        """Return all ranks' arrays concatenated along an axis."""
        return self._collect({"op": "all_gather", "axis": axis}, x)

    def reduce_scatter(self, x: Array, axis: int = 0) -> Array:
        """Return this rank's block, along an axis, of the sum of all ranks' arrays."""
        return self._collect({"op": "reduce_scatter", "axis": axis}, x, axis)

    def all_to_all(self, x: Array, split_axis: int = 0, concat_axis: int = 0) -> Array:
        """Return this rank's blocks of all ranks' arrays, concatenated in rank
        order.
        """
        axes = {"split_axis": split_axis, "concat_axis": concat_axis}
        return self._collect({"op": "all_to_all", **axes}, x, split_axis)

    def permute(self, x: Array, pairs: Sequence[tuple[int, int]]) -> Array:
        """Return the array of the rank that sends to this one; zeros if none does."""
        sources, targets = ([pair[i] for pair in pairs] for i in (0, 1))
        for ends in (sources, targets):
            if len({*ends}) != len(ends) or not {*ends} <= {*range(self.size)}:
                raise InputError(
                    "bad-pairs",
                    "expected pairs of a source and a target, where each of "
                    f"{self.size} ranks sends and receives at most once; got {pairs}",
                )
        return self._collect(
            {"op": "permute", "sources": sources, "targets": targets}, x
        )

    def broadcast(self, x: Array, source: int = 0) -> Array:
        """Return the array of rank `source` on each rank."""
        with self.engine.exchange(f"broadcast {source}", [_prepared(x)]) as found:
            return np.array(found[source][0])

    def barrier(self) -> None:
        """Wait until all ranks have called this."""
        with self.engine.exchange("barrier", []):
            pass

    def texts(self, text: str) -> list[str]:
        """Return the texts that all ranks pass, in rank order."""
        said = np.frombuffer(text.encode(), np.uint8)
        with self.engine.exchange("texts", [said]) as found:
            return [given.tobytes().decode() for (given,) in found]

    def close(self) -> None:
        """Leave the group."""
        self.engine.close()

    def _collect(
        self, request: dict[str, object], x: Array, cut_axis: int | None = None
    ) -> Array:
        """Run a collective on one array per rank; return this rank's result."""
        x = _prepared(x)
        if cut_axis is not None and x.shape[cut_axis] % self.size:
            raise InputError(
                "shape-mismatch",
                f"expected axis {cut_axis} of {[*x.shape]} to be cut into {self.size} "
                "equal blocks, one for each rank",
            )
        what = json.dumps([request, str(x.dtype), x.shape])
        with self.engine.exchange(what, [x]) as found:
            arrays = [given for (given,) in found]
            return results(request, arrays, range(self.rank, self.rank + 1))[0]


def _prepared(x: Array) -> Array:
    """Return a C-contiguous copy or view of an array, of the same rank."""
    return np.ascontiguousarray(x).reshape(np.shape(x))
