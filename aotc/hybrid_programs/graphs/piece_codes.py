"""The codes of one piece of a graph: for which calls, and how many there may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

import numpy as np

from aotc.hybrid_programs.graphs.pieces import Key
from aotc.just_in_time.code_cache import CodeCache
from aotc.just_in_time.shapes import Shapes, Sizes, fits

V = TypeVar("V")  # what a framework computes with: arrays, or sequences of them too
# the outputs of a piece, from its inputs; both by the keys of values
Code = Callable[[Mapping[Key, V]], Mapping[Key, V]]
Faults = Mapping[int, str]  # numbers of nodes, and why they cannot be compiled

_HINT = "call the graph with fewer different sizes (pad them), or raise max_compiles"


@dataclass(frozen=True)
class PieceKind:
    """Cache key of a piece's code: the dtypes, ranks and shapes of its inputs.

    Args:
        form: all but their sizes.
        shapes: of the arrays; none of them where code takes all sizes.
    """

    form: Hashable
    shapes: Shapes

    @classmethod
    def of(cls, arrays: Collection[np.ndarray]) -> Self:
        """Return the cache key of some arrays: their dtypes, ranks and shapes."""
        form = tuple((each.dtype, each.ndim) for each in arrays)
        return cls(form, tuple(each.shape for each in arrays))

    @property
    def is_empty(self) -> bool:
        """Return whether one of the arrays has no elements."""
        return any(0 in shape for shape in self.shapes)


@dataclass(eq=False)
class PieceCode(Generic[Key, V]):
    """Compiled code of a piece of a graph, with the inputs that it accepts.

    Args:
        run: computes the outputs.
        form: of inputs that it takes.
        sizes: of these, Dims where they vary.
        used: when it was made or last asked for, of `time.monotonic_ns`.
        refused: shapes that its own guards do not take.
    """

    run: Code[Key, V]
    form: Hashable
    sizes: Sizes
    used: int = field(default_factory=time.monotonic_ns)
    refused: set[Shapes] = field(default_factory=set)

    @property
    def is_dynamic(self) -> bool:
        """Return whether some size that the code accepts is symbolic."""
        return any(not isinstance(n, int) for shape in self.sizes for n in shape)

    def fits(self, kind: PieceKind) -> bool:
        """Return whether the code's dtypes, ranks and sizes match a key of inputs."""
        return self.form == kind.form and fits(self.sizes, kind.shapes)

    def takes(self, kind: PieceKind) -> bool:
        """Return whether the code matches a key of inputs and its guards have not
        refused it.
        """
        return self.fits(kind) and kind.shapes not in self.refused


class PieceCodeCache(CodeCache[PieceCode[Key, V], Faults]):
    """Cache of the codes compiled for one piece of a graph; see `CodeCache`."""

    def find(self, kind: PieceKind) -> PieceCode[Key, V] | None:
        """Return the latest code that accepts inputs of a key, or None."""
        return self.latest(lambda each: each.takes(kind))

    def add(self, kind: PieceKind, code: PieceCode[Key, V]) -> PieceCode[Key, V]:
        """Store code for a key of inputs, evicting the least recently used; return
        the code.
        """
        self.compiles += 1
        if not kind.is_empty:
            self.note_shapes(kind)
        self.keep(code)
        return code

    def require_room_for(self, kind: PieceKind) -> None:
        """Refuse to compile for one more key of inputs after `max_compiles`.

        Raises:
            InputError: `recompile-storm`.
        """
        shapes = ", ".join(str([*shape]) for shape in kind.shapes)
        what = "the sizes of its inputs", self.compiles
        self.require_room(lambda: what, shapes, _HINT)

    def sizes_for(self, kind: PieceKind) -> Sizes | None:
        """Return sizes with Dims for those that varied between calls; None if none may
        vary.

        Empty arrays have code of their own, which says nothing about others.
        """
        is_refused = any(each.fits(kind) for each in self.items)  # by one's guards
        if kind.is_empty or is_refused:
            return None
        names = [f"x{number}" for number in range(len(kind.shapes))]
        return self.symbolic_sizes(kind, names)
