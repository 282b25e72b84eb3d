"""Nests: what an op combines, as loops over views of its operands.

    y[i…] = combine over k… of  x0[view0(i…, k…)] * x1[view1(i…, k…)] * …

The rule `nest` of an op gives its nest (`aotc.dialects.graph`). What an operand is a
view of may take its place: the nest reads that through both views.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aotc.dialects.types import Shape
from aotc.dialects.views import View

Access = Callable[[View], View | None]


@dataclass(frozen=True)
class Nest:
    """The loops of an op.

    Args:
        sizes: of the loops; the first ones are the elements of the result, in order,
            though several of them may be one axis.
        reduced: how many of the last ones are combined.
        reads: of each operand, from the view that it is to that which has the loops as
            its axes; None where there is none.
        combine: the name of the ufunc that combines, `add` or `maximum` for example.
    """

    sizes: Shape
    reduced: int
    reads: tuple[Access, ...]
    combine: str = "add"

    @property
    def kept(self) -> range:
        """The loops over elements of the result."""
        return range(len(self.sizes) - self.reduced)

    @property
    def combined(self) -> range:
        """The loops that are combined."""
        return range(len(self.kept), len(self.sizes))

    def views(self, operands: Sequence[View]) -> list[View] | None:
        """Return what the nest reads, given the views that its operands are.

        None where that is no view.
        """
        pairs = zip(self.reads, operands, strict=True)
        found = [read(view) for read, view in pairs]
        known = [view for view in found if view is not None]
        return known if len(known) == len(found) else None

    def evaluate(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the result, with loops as its axes.

        Args:
            factors: what each operand has for each index of the loops, in the dtype to
                compute in.
        """
        product, *others = factors
        for each in others:
            product = product * each
        combine: np.ufunc = getattr(np, self.combine)
        return np.asarray(combine.reduce(product, axis=tuple(self.combined)))
