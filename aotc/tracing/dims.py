"""`Dim`: the name and the contract of a size that varies, and arithmetic on them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aotc.dialects.sizes.contracts import (
    BUCKET,
    DYNAMIC,
    PAD,
    POLICIES,
    Contract,
    is_policy,
)
from aotc.tracing.source_locations import Place, calling_place, fail, line_of

if TYPE_CHECKING:
    from aotc.dialects.types import Size

LARGEST = 2**63 - 1  # a size is an i64 on every target


def is_plain_identifier(name: object) -> bool:
    """Return whether `name` is an ASCII identifier, as entries and symbols need."""
    return isinstance(name, str) and name.isidentifier() and name.isascii()


def _is_size(value: object) -> bool:
    """Return whether `value` is an integer in the range of i64."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return abs(value) <= LARGEST


class DimTerm:
    """A symbolic size of an input: a Dim, or `+ - *` of Dims and ints."""

    def dims(self) -> Iterator[Dim]:
        """Yield the Dims in the term, from left to right."""
        raise NotImplementedError

    def value(self, sizes: Mapping[str, Size]) -> Size:
        """Return the size for given values of the Dims."""
        raise NotImplementedError

    def __add__(self, other: Term) -> DimExpression:
        return DimExpression("+", self, other)

    def __radd__(self, other: Term) -> DimExpression:
        return DimExpression("+", other, self)

    def __sub__(self, other: Term) -> DimExpression:
        return DimExpression("-", self, other)

    def __rsub__(self, other: Term) -> DimExpression:
        return DimExpression("-", other, self)

    def __mul__(self, other: Term) -> DimExpression:
        return DimExpression("*", self, other)

    def __rmul__(self, other: Term) -> DimExpression:
        return DimExpression("*", other, self)


Term = int | DimTerm


@dataclass(frozen=True)
class Dim(DimTerm):
    """A named symbolic size with its contract: bounds, divisor and policy.

    Args:
        name: equal names are equal sizes, over all inputs of an entry.
        min: least size (0 or more).
        max: greatest size, or None for no bound.
        multiple_of: the size divides by this.
        specialize: sizes whose calls get code of their own, made for just these;
            `powers_of_two` lists such.
        policy: what becomes of calls of other sizes: `dynamic`, they have the code for
            any; `error`, they are refused; `pad`, they are padded to `max`; `bucket`,
            they are padded to the next size of `specialize`, of which `max` is the
            last one (padding changes no result); `route:f`, the entry f computes
            them; `callback:f`, a function does that `aotc.load` was given as f.
        optimum: the size that most calls have: code for any size is scheduled for it.
            It changes no result.
    """

    name: str
    min: int = 1
    max: int | None = None
    multiple_of: int = 1
    specialize: Iterable[int] = ()
    policy: str = DYNAMIC
    optimum: int | None = None
    place: Place | None = field(init=False, default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse names and contracts that no size can satisfy."""
        object.__setattr__(self, "place", calling_place(__name__))
        if not is_plain_identifier(self.name):
            fail(
                "bad-contract",
                f"expected a Dim name like a Python name; got {self.name!r}",
                "it consists of ASCII letters, digits and _",
            )
        for what in ("min", "max", "multiple_of"):
            value = getattr(self, what)
            if not _is_size(value) and not (what == "max" and value is None):
                fail(
                    "bad-contract",
                    f"expected a whole number below 2**63 as {what} of Dim "
                    f"'{self.name}'; got {value!r}",
                )
        possible = self.min >= 0 and self.multiple_of >= 1
        if possible and self.max is not None:
            possible = self.max // self.multiple_of * self.multiple_of >= self.min
        if not possible:
            fail(
                "bad-contract",
                f"Dim '{self.name}' allows no size: min {self.min}, max {self.max}, "
                f"multiple_of {self.multiple_of}",
            )
        if self.optimum is not None:
            self._require_optimum()
        self._require_policy()
        object.__setattr__(self, "specialize", self._specialized_sizes())

    def _require_optimum(self) -> None:
        """Refuse an optimum that the contract does not allow."""
        bounds = Contract(self.name, self.min, self.max, self.multiple_of)
        if not _is_size(self.optimum) or not bounds.allows(self.optimum or 0):
            fail(
                "bad-contract",
                f"expected an optimum that {bounds} allows; got {self.optimum!r}",
                f"it is the size that most calls have of Dim '{self.name}'",
            )

    def _require_policy(self) -> None:
        """Refuse an unknown policy, or one that the contract contradicts."""
        if not is_policy(self.policy):
            fail(
                "bad-contract",
                f"expected one of {', '.join(POLICIES)} as the policy of Dim "
                f"'{self.name}'; got {self.policy!r}",
            )
        if self.policy == PAD and (self.max is None or self.specialize):
            fail(
                "bad-contract",
                f"Dim '{self.name}' is padded to its max, so it needs one, and no "
                f"specialize; got max {self.max}, specialize {self.specialize}",
                f"give a max, or use the policy '{BUCKET}' for several sizes",
            )

    def _specialized_sizes(self) -> tuple[int, ...]:
        """Return the sizes to specialize for, sorted; refuse ones that the contract
        excludes.
        """
        given = self.specialize
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        sizes: list[Any] = list(given) if is_list else [given]
        for size in sizes:
            if not _is_size(size) or not self.contract().allows(size):
                fail(
                    "bad-contract",
                    f"expected sizes that {self.contract()} allows, to specialize Dim "
                    f"'{self.name}' for; got {size!r}",
                )
        largest = self.contract().largest
        if self.policy in (BUCKET, PAD) and largest is not None:
            sizes.append(largest)
        return tuple(sorted(set(sizes)))

    def dims(self) -> Iterator[Dim]:
        """Yield the Dim itself."""
        yield self

    def value(self, sizes: Mapping[str, Size]) -> Size:
        """Return the value of the Dim among sizes by name."""
        return sizes[self.name]

    def contract(self) -> Contract:
        """Return the Dim's contract in the graph dialect's form."""
        return Contract(
            self.name,
            self.min,
            self.max,
            self.multiple_of,
            self.policy,
            self.optimum,
            where=line_of(self.place),
        )


def powers_of_two(least: int, most: int) -> tuple[int, ...]:
    """Return the powers of two from `least` to `most`, for `Dim(specialize=…)`.

    `powers_of_two(1, 8)` is `(1, 2, 4, 8)`.
    """
    for what, value in (("least", least), ("most", most)):
        if not _is_size(value) or value < 1:
            fail(
                "bad-contract",
                f"expected {what} to be a size of 1 or more; got {value!r}",
            )
    return tuple(
        1 << exponent for exponent in range((least - 1).bit_length(), most.bit_length())
    )


_OPERATORS: dict[str, Callable[[Size, Size], Size]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


@dataclass(frozen=True)
class DimExpression(DimTerm):
    """An arithmetic expression of Dims as a size, such as `2 * n + 1`."""

    sign: str
    left: Term
    right: Term

    def __post_init__(self) -> None:
        """Refuse operands that are neither Dims nor ints."""
        for side in (self.left, self.right):
            if isinstance(side, bool) or not isinstance(side, (int, DimTerm)):
                fail("bad-spec", f"expected Dims and ints in a size; got {side!r}")

    def dims(self) -> Iterator[Dim]:
        """Yield the Dims in the expression, from left to right."""
        for side in (self.left, self.right):
            if not isinstance(side, int):
                yield from side.dims()

    def value(self, sizes: Mapping[str, Size]) -> Size:
        """Return the size for given values of the Dims."""
        left, right = (
            side if isinstance(side, int) else side.value(sizes)
            for side in (self.left, self.right)
        )
        return _OPERATORS[self.sign](left, right)
