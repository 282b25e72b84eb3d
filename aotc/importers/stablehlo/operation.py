"""`Op`: an op of a StableHLO module as the functions of `ops` read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy

from aotc.importers.stablehlo.values import StableHloType, Value, kind_of
from aotc.mlir import ir
from aotc.tracing.source_locations import Place

Region = Callable[..., list[Value]]


class Op:
    """A StableHLO op with its attributes as Python values and its regions as functions.

    Args:
        op: the MLIR operation.
        regions: what its regions compute, given the values of their arguments.
        call: runs a function of the module by its name.
        outer: the values that regions may read from around them.
    """

    def __init__(
        self,
        op: ir.Operation,
        regions: Sequence[Region] = (),
        call: Callable[[str, Sequence[Value]], list[Value]] | None = None,
        outer: Mapping[ir.Value, Value] | None = None,
    ) -> None:
        self.op = op.operation
        self.regions = list(regions)
        self.call = call
        self.outer = outer or {}

    @property
    def name(self) -> str:
        """The name with its dialect: `stablehlo.add`."""
        return str(self.op.name)

    @cached_property
    def kinds(self) -> list[StableHloType | None]:
        """Types of the results; None for those that are no tensors."""
        return [kind_of(result.type) for result in self.op.results]

    @property
    def kind(self) -> StableHloType:
        """Type of the first result, a tensor."""
        kind = self.kinds[0]
        assert kind is not None
        return kind

    # ---- attributes -----------------------------------------------------------------

    def attribute(self, name: str) -> Any | None:
        """Return the MLIR attribute with a name, or None."""
        return self.op.attributes.get(name)

    def integer(self, name: str, default: int = 0) -> int:
        """Return an integer attribute, or the default."""
        found = self.attribute(name)
        return default if found is None else int(ir.IntegerAttr(found).value)

    def flag(self, name: str) -> bool:
        """Return a bool attribute, or False."""
        found = self.attribute(name)
        return found is not None and bool(ir.BoolAttr(found).value)

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the integers of an array or dense attribute (row-major), or the
        default.
        """
        found = self.attribute(name)
        if found is None:
            return tuple(default)
        if isinstance(found, ir.DenseIntElementsAttr):
            return tuple(int(n) for n in numpy.array(found).ravel())
        return tuple(int(n) for n in found)

    def text(self, name: str) -> str:
        """Return the text of a string or symbol attribute, or ""."""
        found = self.attribute(name)
        if isinstance(found, (ir.StringAttr, ir.FlatSymbolRefAttr)):
            return str(found.value)
        return ""

    def word(self, name: str) -> str:
        """Return the case of an enum attribute: `LT` of
        `#stablehlo<comparison_direction LT>`.
        """
        found = re.search(r"(\w+)>?$", str(self.attribute(name)))
        return found.group(1) if found else ""

    # ---- where ----------------------------------------------------------------------

    @cached_property
    def place(self) -> tuple[Place | None, str]:
        """Source location of the op, and the path of scopes that leads there."""
        return place_of(self.op.location)

    @property
    def where(self) -> str:
        """Text that locates the op in messages."""
        place, path = self.place
        line = f"{place[0].rsplit('/', 1)[-1]}:{place[1]}" if place else "unknown line"
        return f"{line} ({path})" if path else line


def place_of(location: ir.Location) -> tuple[Place | None, str]:
    """Return the innermost file and line of an MLIR location, and its outermost
    name.
    """
    path = ""
    while True:
        if isinstance(location, ir.NameLoc):
            path, location = path or location.name_str, location.child_loc
        elif isinstance(location, ir.CallSiteLoc):
            location = location.callee
        elif isinstance(location, ir.FusedLoc) and list(location.locations):
            location = list(location.locations)[0]
        else:
            break
    if isinstance(location, ir.FileLineColLoc):
        return (location.filename, location.start_line), path
    return None, path
