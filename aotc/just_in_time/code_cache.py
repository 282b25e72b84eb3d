"""The codes of one function or piece of a graph, and limits on their number.

Sizes of calls that vary become symbols if possible. Of too many codes the one that was
used longest ago goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from aotc.errors import InputError
from aotc.just_in_time.shapes import Shapes, Sizes, symbolic_sizes


class CallProperties(Protocol):
    """The properties of a call that select its code."""

    @property
    def form(self) -> Hashable:
        """The cache key of the call without its sizes."""

    @property
    def shapes(self) -> Shapes:
        """The shapes of its arrays."""


class CachedCode(Protocol):
    """Compiled code in a CodeCache, with the time of its last use."""

    used: int  # when it was made or last called, of `time.monotonic_ns`


C = TypeVar("C", bound=CachedCode)
R = TypeVar("R")  # why there is no code


class CodeCache(Generic[C, R]):
    """An LRU cache of the compiled codes of one function or piece of a graph.

    Args:
        owner: how messages call that.
        most: how many are kept.
        most_compiles: how many may be made before it is an error; after as many calls
            that could not be compiled, no other one is tried.
        most_shapes: after how many shapes that could not be compiled no other ones of
            their form are tried.
    """

    def __init__(
        self, owner: str, most: int, most_compiles: int, most_shapes: int | None = None
    ) -> None:
        self.owner = owner
        self.items: list[C] = []
        self.compiles = self.cached = self.evictions = 0
        self._most, self._most_compiles = most, most_compiles
        self._most_shapes = most_compiles if most_shapes is None else most_shapes
        self._seen: dict[Hashable, list[Shapes]] = {}
        self._exact: set[Hashable] = set()
        self._refused: dict[Hashable, dict[Shapes, R]] = {}

    @property
    def by_use(self) -> list[C]:
        """The cached codes, from the least to the most recently used."""
        return sorted(self.items, key=lambda each: each.used)

    def latest(self, takes: Callable[[C], bool]) -> C | None:
        """Return the most recently used code for which `takes` is true, marked as
        used now; or None.
        """
        for each in self.by_use[::-1]:
            if takes(each):
                each.used = time.monotonic_ns()
                return each
        return None

    def keep(self, code: C) -> list[C]:
        """Add a code to the cache; return the least recently used codes that it
        evicts.
        """
        items = [*self.by_use, code]
        gone, self.items = items[: -self._most], items[-self._most :]
        self.evictions += len(gone)
        return gone

    def require_room(
        self,
        guard: Callable[[], tuple[str, int]],
        call: str,
        hint: str,
        pending: int = 0,
    ) -> None:
        """Raise `recompile-storm` if no further code may be compiled.

        Args:
            guard: returns what differed most often, and how often.
            call: the text of the call that has none.
            hint: what to do.
            pending: how many are being made.

        Raises:
            InputError: `recompile-storm`.
        """
        if self.compiles + self.cached + pending < self._most_compiles:
            return
        name, count = guard()
        raise InputError(
            "recompile-storm",
            f"{self.owner}: expected at most {self._most_compiles} compilations; the "
            f"guard that fails most often, {count} times, is {name}; the last call was "
            f"of {call}",
            hint=hint,
            guard=name,
        )

    # ---- sizes that vary

    def note_shapes(self, call: CallProperties) -> list[Shapes]:
        """Record the shapes of a call; return all shapes seen so far in calls of its
        form.
        """
        seen = self._seen.setdefault(call.form, [])
        if call.shapes not in seen:
            seen.append(call.shapes)
        return seen

    def symbolic_sizes(
        self, call: CallProperties, names: Sequence[str], all_vary: bool = False
    ) -> Sizes | None:
        """Return sizes of arrays with Dims for those that varied between calls.

        Args:
            call: that has no code.
            names: of its arrays.
            all_vary: whether sizes of the first call count as if they did.

        Returns:
            None if no size varies, or none may for calls of this form.
        """
        if call.form in self._exact:
            return None
        seen = [*self._seen.get(call.form, ())]
        seen += [] if call.shapes in seen else [call.shapes]
        if all_vary and len(seen) == 1:
            seen.append(tuple(tuple(n + 1 for n in shape) for shape in seen[0]))
        return symbolic_sizes(seen, names)

    def require_exact(self, call: CallProperties) -> None:
        """Rule out symbolic sizes for calls of a form: each shape gets its own code
        from now on.
        """
        self._exact.add(call.form)

    # ---- calls that cannot be compiled

    def refusal(self, call: CallProperties) -> R | None:
        """Return why a call cannot be compiled, or None; after many failures, the
        last reason.
        """
        own = self._refused.get(call.form, {})
        if call.shapes in own:
            return own[call.shapes]
        if len(own) >= self._most_shapes:
            return [*own.values()][-1]
        every = [why for found in self._refused.values() for why in found.values()]
        return every[-1] if len(every) >= self._most_compiles else None

    def refuse(self, call: CallProperties, why: R) -> R:
        """Record why calls of a form and shape cannot be compiled; return the
        reason.
        """
        self._refused.setdefault(call.form, {})[call.shapes] = why
        return why


def require_limits(max_variants: int, max_compiles: int) -> tuple[int, int]:
    """Return the two limits of a code cache; refuse one that is less than 1.

    Raises:
        InputError: `bad-option`: one of them is less than 1.
    """
    if max_variants < 1 or max_compiles < 1:
        raise InputError(
            "bad-option",
            "expected max_variants and max_compiles of 1 or more; got "
            f"{max_variants} and {max_compiles}",
        )
    return max_variants, max_compiles
