"""The codes of one piece of a graph: for which calls, and how many there may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aotc.just_in_time.shapes import Shapes, Sizes, fits, symbolic_sizes
from aotc.just_in_time.variants import recompile_storm

Values = Mapping[Any, Any]  # arrays by the keys of values
Code = Callable[[Values], Values]  # the outputs of a piece, from its inputs
Faults = Mapping[int, str]  # numbers of nodes, and why they cannot be compiled

_REMEMBERED = 256  # kinds that could not be compiled
_HINT = "call the graph with fewer different sizes (pad them), or raise max_compiles"


@dataclass(frozen=True)
class Kind:
    """The properties of a piece's inputs that select its code.

    Args:
        form: all but their sizes.
        shapes: of the arrays; none of them where code takes all sizes.
    """

    form: Hashable
    shapes: Shapes


@dataclass(eq=False)
class PieceCode:
    """Code of a piece.

    Args:
        run: computes the outputs.
        form: of inputs that it takes.
        sizes: of these, Dims where they vary.
        used: when it was made or last asked for, of `time.monotonic_ns`.
        refused: shapes that its own guards do not take.
    """

    run: Code
    form: Hashable
    sizes: Sizes
    used: int = field(default_factory=time.monotonic_ns)
    refused: set[Shapes] = field(default_factory=set)

    @property
    def is_dynamic(self) -> bool:
        """Return whether the code has symbols."""
        return any(not isinstance(n, int) for shape in self.sizes for n in shape)

    def fits(self, kind: Kind) -> bool:
        """Return whether the code's sizes match a kind of inputs, or may."""
        return self.form == kind.form and fits(self.sizes, kind.shapes)

    def takes(self, kind: Kind) -> bool:
        """Return whether the code computes a kind of inputs."""
        return self.fits(kind) and kind.shapes not in self.refused


class PieceCodes:
    """The codes of one piece.

    Args:
        owner: how messages call the piece.
        most: how many are kept; the one that was not called for longest goes.
        most_compiles: how many may be made; after as many kinds of inputs that could
            not be compiled, and none that could, no other one is tried.
    """

    def __init__(self, owner: str, most: int, most_compiles: int) -> None:
        self.items: list[PieceCode] = []
        self.compiles = self.evictions = 0
        self._owner, self._most, self._most_compiles = owner, most, most_compiles
        self._seen: dict[Hashable, list[Shapes]] = {}
        self._exact: set[Hashable] = set()
        self._refused: dict[Kind, Faults] = {}
        self._refused_all: Faults | None = None

    def find(self, kind: Kind) -> PieceCode | None:
        """The code for a kind of inputs, if there is one."""
        for each in self.items:
            if each.takes(kind):
                each.used = time.monotonic_ns()
                return each
        return None

    def add(self, kind: Kind, code: PieceCode) -> PieceCode:
        """Keep the code for a kind, in the place of another if there are too many."""
        self.compiles += 1
        seen = self._seen.setdefault(code.form, [])
        if kind.shapes not in seen and not any(0 in shape for shape in kind.shapes):
            seen.append(kind.shapes)
        self.items = sorted([*self.items, code], key=lambda each: each.used)
        self.evictions += len(self.items[: -self._most])
        self.items = self.items[-self._most :]
        return code

    def require_room(self, kind: Kind) -> None:
        """Refuse to make code for one more kind of inputs if there has been too much.

        Raises:
            InputError: `recompile-storm`.
        """
        if self.compiles >= self._most_compiles:
            what = "the sizes of its inputs", self.compiles
            shapes = ", ".join(str([*shape]) for shape in kind.shapes)
            raise recompile_storm(self._owner, self._most_compiles, what, shapes, _HINT)

    # ---- sizes that vary

    def symbolic_sizes(self, kind: Kind) -> Sizes | None:
        """Return sizes with Dims for those that vary; None if none does, or none may.

        Empty arrays have code of their own, which says nothing about others.
        """
        is_empty = any(0 in shape for shape in kind.shapes)
        is_refused = any(each.fits(kind) for each in self.items)  # by one's guards
        if kind.form in self._exact or is_empty or is_refused:
            return None
        names = [f"x{number}" for number in range(len(kind.shapes))]
        return symbolic_sizes([*self._seen.get(kind.form, ()), kind.shapes], names)

    def require_exact(self, form: Hashable) -> None:
        """Make code for each size from now on, as none can be made for all sizes."""
        self._exact.add(form)

    # ---- kinds that cannot be compiled

    def faults(self, kind: Kind) -> Faults | None:
        """Return the faults that kept a kind of inputs from being compiled, if it was
        tried.
        """
        return self._refused_all or self._refused.get(kind)

    def refuse(self, kind: Kind, faults: Faults) -> Faults:
        """Note the faults that kept a kind of inputs from being compiled."""
        if len(self._refused) >= _REMEMBERED:
            self._refused.clear()
        self._refused[kind] = faults
        if not self.compiles and len(self._refused) >= self._most_compiles:
            self._refused_all = faults
        return faults
