"""The sizes that calls of an entry may have, and whether traffic keeps to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aotc.artifacts.conditions import Condition
from aotc.artifacts.manifest import EntryPoint, Leaf, Manifest
from aotc.errors import InputError
from aotc.timing.inputs import symbols_of
from aotc.traffic import Traffic, names_text


class Bounds(Protocol):
    """Protocol of a symbolic size's contract, of a manifest or a program."""

    @property
    def min(self) -> int:
        """The least size."""

    @property
    def max(self) -> int | None:
        """The greatest size, if there is one."""

    @property
    def multiple_of(self) -> int:
        """The divisor of all allowed sizes."""

    @property
    def optimum(self) -> int | None:
        """The typical size of calls, if declared."""


@dataclass(frozen=True)
class EntrySignature:
    """An entry's symbolic sizes with their contracts and guards, and its inputs.

    Args:
        entry: its name.
        symbols: the contracts of its symbols, by their names.
        guards: conditions on all of them together.
        inputs: of the entry.
        updates: names of the states that its calls change.
    """

    entry: str
    symbols: Mapping[str, Bounds]
    guards: Sequence[str] = ()
    inputs: Sequence[Leaf] = ()
    updates: Sequence[str] = ()

    @classmethod
    def of(cls, manifest: Manifest, point: EntryPoint) -> EntrySignature:
        """Build the signature of a bundle's entry from its manifest."""
        known = manifest.symbols
        symbols = {name: known[name] for name in symbols_of(point.inputs)}
        conditions = [each.condition for each in point.guards]
        return cls(point.name, symbols, conditions, point.inputs, point.updates)

    def accepts(self, sizes: Mapping[str, int]) -> bool:
        """Return whether contracts and guards allow these sizes."""
        conditions = map(Condition.parse, self.guards)
        return all(
            _is_within(size, self.symbols[name]) for name, size in sizes.items()
        ) and all(each.holds(sizes) for each in conditions)

    def fixed_sizes(
        self, traffic: Traffic, wanted: Mapping[str, int]
    ) -> dict[str, int]:
        """Return sizes of symbols that are not in the traffic: `wanted`, or typical
        ones.

        Raises:
            InputError: `unknown-size`: one that is wanted is no symbol of the entry, or
                the traffic has it.
        """
        free = [name for name in self.symbols if name not in traffic.symbols]
        for name in wanted:
            if name not in free:
                raise InputError(
                    "unknown-size",
                    f"{self.entry}: expected sizes that the traffic does not have "
                    f"({', '.join(free) or 'none'}); got {name!r}",
                )
        return {name: wanted.get(name, _usual(self.symbols[name])) for name in free}


def choose_signature(
    found: Iterable[EntrySignature], entry: str | None, traffic: Traffic, where: str
) -> EntrySignature:
    """Return the named entry, or the only one that has the traffic's sizes.

    Args:
        found: all entries.
        entry: the name, if one was given.
        traffic: recorded.
        where: the model or bundle, for messages.

    Raises:
        InputError: `unknown-entry`; `unknown-size`: it has not the sizes.
    """
    entries = {each.entry: each for each in found}
    if entry is not None and entry not in entries:
        raise InputError(
            "unknown-entry",
            f"expected one of {', '.join(entries)}; got {entry!r}",
            where=where,
        )
    among = [*entries.values()] if entry is None else [entries[entry]]
    wanted = {*traffic.symbols}
    fitting = [each for each in among if wanted <= each.symbols.keys()]
    if not fitting:
        sizes = "; ".join(
            f"{each.entry} has {', '.join(each.symbols) or 'none'}" for each in among
        )
        raise InputError(
            "unknown-size",
            f"expected an entry with the sizes of the traffic, "
            f"{', '.join(traffic.symbols)}; {sizes}",
            where=where,
            hint="the columns of the traffic are the names of sizes in a Spec",
        )
    if len(fitting) > 1:
        raise InputError(
            "unknown-entry",
            "expected one entry with the sizes of the traffic; got "
            f"{', '.join(each.entry for each in fitting)}",
            where=where,
            hint=f"name one of them: aotc bench {where} {fitting[0].entry}",
        )
    return fitting[0]


def require_accepted(
    signature: EntrySignature, traffic: Traffic, fixed: Mapping[str, int], where: str
) -> None:
    """Raise if contracts or guards of an entry forbid some of the traffic's sizes.

    Args:
        signature: of the entry.
        traffic: recorded.
        fixed: values of the symbols that it does not name.
        where: the file of the traffic.

    Raises:
        InputError: `bad-traffic`.
    """
    refused = {
        sizes: count
        for sizes, count in traffic.counts.items()
        if not signature.accepts(
            {**fixed, **dict(zip(traffic.symbols, sizes, strict=True))}
        )
    }
    if not refused:
        return
    share = sum(refused.values()) / traffic.calls
    rest = {**fixed}
    beside = f" (with {names_text([*rest], [*rest.values()])})" if rest else ""
    raise InputError(
        "bad-traffic",
        f"expected sizes that the contract of {signature.entry!r} allows; got "
        f"{share:.1%} of the calls that it refuses, such as "
        f"{names_text(traffic.symbols, max(refused))}{beside}",
        where=where,
        hint="leave these rows out, or widen the contract of the sizes in the model",
    )


def _is_within(size: int, bounds: Bounds) -> bool:
    """Return whether a contract allows a size."""
    is_above = bounds.max is not None and size > bounds.max
    return size >= bounds.min and not is_above and size % bounds.multiple_of == 0


def _usual(bounds: Bounds) -> int:
    """Return the typical size, or else the least allowed one above zero."""
    if bounds.optimum is not None:
        return bounds.optimum
    return -(-max(bounds.min, 1) // bounds.multiple_of) * bounds.multiple_of
