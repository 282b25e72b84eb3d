"""Entries of a program as manifests have them."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.artifacts.manifest import EntryPoint, Leaf
from aotc.dialects.functions.entries import Entry, Port
from aotc.dialects.sizes.symbols import known_contracts


def entry_point_of(entry: Entry) -> EntryPoint:
    """Return a program's entry, its inputs and outputs, as a bundle's `EntryPoint`."""
    with known_contracts(entry.symbols):
        inputs = tuple(map(_leaf, entry.ports("input")))
        outputs = tuple(map(_leaf, entry.ports("output")))
    return EntryPoint(
        entry.name, "infer", inputs, {}, outputs, 0, entry.reads, entry.updates
    )


def _leaf(port: Port) -> Leaf:
    """Return an input or output of an entry as a `Leaf`."""
    return Leaf(port.name, port.type.dtype, _shape(port.type.shape))


def _shape(sizes: Sequence[object]) -> tuple[int | str, ...]:
    """Return sizes as a bundle writes them."""
    return tuple(n if isinstance(n, int) else str(n) for n in sizes)
