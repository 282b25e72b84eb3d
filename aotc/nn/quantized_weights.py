"""`QuantizedWeights`: a quantised tensor as one value of a tree of weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.core.pytree import PytreeNode
from aotc.dialects.lowering.conversion import accumulator
from aotc.nn.layers import dense
from aotc.nn.quantizing import dequantize
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.source_locations import fail

__all__ = ["QuantizedWeights"]

_LEAST_BITS, _MOST_BITS = 2, 8


@dataclass(frozen=True, eq=False)
class QuantizedWeights(PytreeNode):
    """Weights x ≈ (data - zero_point) * scale + minimum, with integers for data.

    In a tree its arrays are leaves that are named like the fields: `w.data`, `w.scale`,
    …; those that are None are none. A scale or minimum that is quantised in turn is a
    `QuantizedWeights` itself.

    Args:
        data: integers, of the shape of the weights.
        scale: the size of a step; see `axis` and `block`.
        zero_point: the integer that stands for 0, where that is not 0.
        minimum: what `zero_point` stands for, where that is not 0.
        order: where each element along `axis` lies in `data`, if these are in another
            order.
        axis: that scale, zero_point and minimum vary along; None where they are
            scalars.
        block: how many elements along `axis` share one of each, which have the rank of
            `data` then; None where they are vectors, one for each element.
        bits: that an element needs, if its dtype has more.
        dtype: of the weights that these stand for.
    """

    data: Any
    scale: Any
    zero_point: Any = None
    minimum: Any = None
    order: Any = None
    axis: int | None = None
    block: int | None = None
    bits: int | None = None
    dtype: str = "f32"

    def __post_init__(self) -> None:
        if self.bits is not None and not _LEAST_BITS <= self.bits <= _MOST_BITS:
            fail(
                "bad-bits",
                f"expected {_LEAST_BITS} to {_MOST_BITS} bits; got {self.bits}",
            )
        if self.order is not None and self.axis is None:
            fail("bad-axis", "expected the axis of an order; got None")

    def check(self) -> None:
        """Raise unless the data are integers and the scales have the right shape.

        Raises:
            InputError: `dtype-mismatch`, `shape-mismatch`, `bad-axis`.
        """
        self._require_integers()
        expected = self._scale_shape()
        for name in ("scale", "zero_point", "minimum"):
            found = getattr(self, name)
            shape = () if found is None else tuple(getattr(found, "shape", ()))
            if shape not in ((), expected):
                counted = "row" if self.block is None else f"block of {self.block}"
                fail(
                    "shape-mismatch",
                    f"expected for {name} a number, or with an axis one for each "
                    f"{counted} of weights {list(self.shape)}: {list(expected)}; got "
                    f"{list(shape)}",
                )

    def _require_integers(self) -> None:
        """Raise unless the data have an integer dtype."""
        kind = dtypes.canonical_dtype(self.data.dtype)
        if kind not in dtypes.INTEGERS:
            fail("dtype-mismatch", f"expected data that are integers; got {kind}")

    def _scale_shape(self) -> tuple[int, ...]:
        """The shape that scales must have: per tensor, axis or block."""
        if self.axis is None:
            return ()
        if not -self.ndim <= self.axis < self.ndim:
            fail("bad-axis", f"expected an axis of {list(self.shape)}; got {self.axis}")
        axis = self.axis % self.ndim
        if self.block is None:
            return (self.shape[axis],)
        blocks = -(-self.shape[axis] // max(self.block, 1))
        return (*self.shape[:axis], blocks, *self.shape[axis + 1 :])

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the weights."""
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        """The number of axes of the weights."""
        return len(self.shape)

    def dequantize(self, dtype: str | None = None) -> Array:
        """Return the weights as floats; half precision is rounded at the end.

        Args:
            dtype: of the result, by default that of the weights.
        """
        found = self._in_data_order(dtype)
        return found if self.order is None else np.take(found, self.order, self.axis)

    def linear(self, x: ArrayLike, bias: ArrayLike | None = None) -> Array:
        """`x @ weights.T + bias` for weights [outputs, inputs].

        Where inputs lie in another order, those of x are put into it, so that the
        weights are read as they are stored. Half precision is that of x and of the
        result alone: the weights and the sums are f32.

        Args:
            x: …, inputs.
            bias: outputs, or None.
        """
        x = lift(x)
        if self.ndim != 2:
            fail(
                "shape-mismatch",
                f"expected weights [outputs, inputs]; got {list(self.shape)}",
            )
        working = accumulator(x.dtype)
        if self.order is None or self.axis != 1:
            inputs, weights = x, self.dequantize(working)
        else:
            inputs = np.take(x, np.argsort(self.order), -1)
            weights = self._in_data_order(working)
        y = astype(dense(astype(inputs, working), np.transpose(weights)), x.dtype)
        return y if bias is None else np.add(y, bias)

    def _in_data_order(self, dtype: str | None) -> Array:
        """Return the weights as floats, with the axes in the order of the data."""
        self._require_integers()
        wanted = dtypes.canonical_dtype(dtype or self.dtype)
        working = accumulator(wanted)
        has_spare = self.bits is not None and self.bits < _bits_of(self.data)
        found = dequantize(
            self.data,
            _as_floats(self.scale, working),
            0 if self.zero_point is None else self.zero_point,
            axis=self.axis,
            block=self.block,
            bits=self.bits if has_spare else None,
            less=None
            if self.minimum is None
            else np.negative(_as_floats(self.minimum, working)),
        )
        return astype(found, wanted)

    def parts(self) -> tuple[dict[str, Any], Callable[..., Any]]:
        """Return the arrays by field name, and a function that rebuilds the weights."""
        names = ("data", "scale", "zero_point", "minimum", "order")
        form = _WeightsBuilder(self.axis, self.block, self.bits, self.dtype)
        return {name: getattr(self, name) for name in names}, form

    def __repr__(self) -> str:
        bits = self.bits or _bits_of(self.data)
        granularity = "" if self.axis is None else f", axis={self.axis}"
        if self.block is not None:
            granularity += f", block={self.block}"
        shape = "×".join(map(str, self.shape))
        return f"QuantizedWeights({self.dtype}[{shape}], bits={bits}{granularity})"


@dataclass(frozen=True)
class _WeightsBuilder:
    """The static fields of `QuantizedWeights`, which rebuild it from new arrays."""

    axis: int | None
    block: int | None
    bits: int | None
    dtype: str

    def __call__(
        self,
        data: numpy.ndarray,
        scale: ArrayLike,
        zero_point: object,
        minimum: object,
        order: numpy.ndarray,
    ) -> QuantizedWeights:
        """Build quantised weights of these arrays."""
        return QuantizedWeights(
            data,
            scale,
            zero_point,
            minimum,
            order,
            self.axis,
            self.block,
            self.bits,
            self.dtype,
        )


def _bits_of(data: numpy.ndarray) -> int:
    """Return the bit width of an array's dtype."""
    return dtypes.bits(dtypes.canonical_dtype(data.dtype))


def _as_floats(part: object, dtype: str) -> Array:
    """Return a scale or minimum as floats of a dtype; dequantise it if quantised."""
    if isinstance(part, QuantizedWeights):
        return part.dequantize(dtype)
    return astype(lift(part), dtype)
