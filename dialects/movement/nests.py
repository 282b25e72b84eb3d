"""Nests: the combining of elements as loops over views of operands.

    y[i…] = combine over k… of  x0[view0(i…, k…)] * x1[view1(i…, k…)] * …

The rule `nests` of an op gives its nests (`aotc.dialects.graph`): most have one, and
one that joins tensors has one for each, which writes its part of the result. What an
operand is a view of may take its place: the nest reads that through both views.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc.dialects.movement.views import View
from aotc.dialects.types import Shape

Access = Callable[[View], View | None]

COPY = "copy"  # there is nothing to combine
ARGSORT, ARGSORT_DESCENDING = "argsort", "argsort-descending"


@dataclass(frozen=True)
class Nest:
    """A loop nest that computes an op's result from views of its operands.

    Args:
        sizes: of the loops; the first ones are the elements of the result, in order,
            though several of them may be one axis.
        reduced: how many of the last ones are combined.
        reads: of each operand, from the view that it is to that which has the loops as
            its axes; None where there is none.
        combine: how: `copy`; the name of a ufunc, `add` or `maximum` for example; or
            `argsort`, which gives the positions of elements in order: that in the
            place j of the last loop of the result is that of the j-th element.
        start: what the combination of no elements is.
        dtype: that elements are combined in; "" for the one in which sums of the
            result's dtype are kept.
        first: the number of the operand that the first of `reads` is of.
        place: which elements of the result these are, if not all of them in order: from
            the view that the result is to that which has the loops as its axes.
    """

    sizes: Shape
    reduced: int
    reads: tuple[Access, ...]
    combine: str = "add"
    start: float = 0
    dtype: str = ""
    first: int = 0
    place: Access | None = None

    @property
    def result_loops(self) -> range:
        """Indices of the loops over elements of the result."""
        return range(len(self.sizes) - self.reduced)

    @property
    def combined_loops(self) -> range:
        """Indices of the reduction loops."""
        return range(len(self.result_loops), len(self.sizes))

    def views(self, operands: Sequence[View]) -> list[View] | None:
        """Return the views that the nest reads, given its operands as views; or None.

        None where one of them is no view.
        """
        pairs = zip(self.reads, operands, strict=True)
        found = [read(view) for read, view in pairs]
        known = [view for view in found if view is not None]
        return known if len(known) == len(found) else None

    def evaluate(
        self, factors: Sequence[np.ndarray], sizes: Sequence[int]
    ) -> np.ndarray:
        """Return the result's elements in NumPy, with the loops over it as axes.

        Args:
            factors: what each operand has for each index of the loops, in the dtype to
                compute in; of size 1 along loops for whose indices that is the same.
            sizes: of the loops, as numbers.
        """
        if self.combine in (ARGSORT, ARGSORT_DESCENDING):
            is_descending = self.combine == ARGSORT_DESCENDING
            return _sorted_positions(factors[0], sizes, is_descending=is_descending)
        if self.combine == "add" and len(factors) > 1:
            return _sum_of_products(factors, sizes, self.combined_loops)
        (elements,) = factors
        elements = np.broadcast_to(elements, sizes)
        if self.combine == COPY:
            return elements
        combine: np.ufunc = getattr(np, self.combine)
        start = np.asarray(self.start).astype(elements.dtype)
        axes = tuple(self.combined_loops)
        return np.asarray(combine.reduce(elements, axes, elements.dtype, initial=start))


def _sorted_positions(
    elements: np.ndarray, sizes: Sequence[int], *, is_descending: bool
) -> np.ndarray:
    """Return the first positions of the argsort along the last loop."""
    *rows, count, length = sizes
    elements = np.broadcast_to(elements[..., 0, :], (*rows, length))
    if not is_descending:
        return np.argsort(elements, -1, stable=True)[..., :count]
    backwards = np.argsort(np.flip(elements, -1), -1, stable=True)
    return (length - 1 - np.flip(backwards, -1))[..., :count]


def _sum_of_products(
    factors: Sequence[np.ndarray], sizes: Sequence[int], combined: range
) -> np.ndarray:
    """Return sums of products over the `combined` loops, by np.einsum."""
    varied = [[n for n, size in enumerate(x.shape) if size != 1] for x in factors]
    loops = {n for each in varied for n in each}
    operands: list[Any] = []
    for x, own in zip(factors, varied, strict=True):
        operands += [x.reshape([x.shape[n] for n in own]), own]
    kept = range(combined.start)
    total = np.einsum(*operands, [n for n in kept if n in loops], optimize=True)
    repeats = math.prod(sizes[n] for n in combined if n not in loops)
    if repeats != 1:  # of no products, not of what is infinite
        total = total * total.dtype.type(repeats) if repeats else np.zeros_like(total)
    total = total.reshape([sizes[n] if n in loops else 1 for n in kept])
    return np.broadcast_to(total, [sizes[n] for n in kept])
