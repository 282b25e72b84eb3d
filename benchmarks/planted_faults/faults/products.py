"""Faults in products: contraction, Winograd's convolution, chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.chain import _Chain
from aotc.kernels.cpu.contraction import Contraction
from aotc.kernels.cpu.contraction.factors import Factors
from aotc.kernels.cpu.contraction.sums import ProductOffsets, Sums
from aotc.kernels.cpu.lines import Lines, ResultRows
from aotc.kernels.cpu.vectors import add, index
from aotc.kernels.cpu.winograd import Winograd
from aotc.mlir import Value, arith, ir

from ..planting import Fault
from .ways import by, does_nothing, given

_WINDOWS = frozenset({"contraction", "depthwise", "pooling", "chain"})
_CHAIN = frozenset({"chain"})


def _last_at_first_columns(places: list[Any], *_: Any) -> list[Any]:
    """Return places whose last one has the first one's columns."""
    *others, last = places
    return [*others, replace(last, column=others[0].column if others else last.column)]


def _without_last_row(kernel: Any, panel: Any, rows: Any) -> Sequence[Any]:
    """Return arguments with one row less."""
    return kernel, panel, replace(rows, count=max(rows.count - 1, 1))


def _shorter_sum(
    kernel: Any, panel: Any, rows: Any, begin: Any, length: Any, sums: Any
) -> Any:
    """Return arguments with one summand less."""
    return kernel, panel, rows, begin, add(length, -1), sums


def _of_first_product(begin: ProductOffsets, *_: Any) -> ProductOffsets:
    """Return offsets that read the first product's right operand."""
    return replace(begin, right=index(0))


def _whole_tiles_of_image(
    kernel: Any, number: Value, size: int, write: Any
) -> Sequence[Any]:
    """Return arguments whose writer skips partial tiles."""

    def write_whole(width: int) -> None:
        if width == kernel.tile.outputs:
            write(width)

    return kernel, number, size, write_whole


def _fewer_channels(kernel: Any, *given: Any) -> Any:
    """Return arguments with one channel less."""
    shape = replace(kernel.geometry, channels=kernel.geometry.channels - 1)
    return replace(kernel, geometry=shape), *given


FAULTS = [
    Fault(
        "the last term of each sum is left out",
        "contraction", "product", Sums, "_sum_run", given(_shorter_sum), _CHAIN,
    ),
    Fault(
        "the last vector of a panel adds the bias of the first",
        "contraction", "product", Contraction, "_places",
        by(_last_at_first_columns), _CHAIN,
    ),
    Fault(
        "the last row of each tile is not written",
        "contraction", "product", Contraction, "_write_tile",
        given(_without_last_row), _CHAIN,
    ),
    Fault(
        "sums start at 1",
        "contraction", "batch_of_products", Factors, "zero",
        lambda right: lambda self: vectors.splat(1.0, self.lanes), _CHAIN,
    ),
    Fault(
        "all products of a batch read the second operand of the first",
        "contraction", "batch_of_products", ProductOffsets, "of",
        by(_of_first_product),
    ),
    Fault(
        "what is beside a line is read where there is padding",
        "contraction", "convolution", ResultRows, "rows_inside_at",
        lambda right: lambda self, position: range(self.count), _WINDOWS,
    ),
    Fault(
        "windows lose their last line",
        "contraction", "convolution", Lines, "window",
        by(lambda window, *_: (window[0], _at_most(window[1], 2))), _WINDOWS,
    ),
    Fault(
        "the last channel is left out",
        "winograd", "winograd", Winograd, "_sum",
        lambda right: lambda self, begin, rows, *, fetches: right(
            *_fewer_channels(self, begin, rows), fetches=fetches
        ),
        model="relaxed",
    ),
    Fault(
        "tiles at the lower and right edge are not written",
        "winograd", "winograd", Winograd, "_write_either",
        given(_whole_tiles_of_image),
        model="relaxed",
    ),
    Fault(
        "tiles at edges see what is beside the image",
        "winograd", "winograd", Winograd, "_is_inside",
        lambda right: lambda self, top, left: arith.cmpi(
            arith.CmpIPredicate.sge, left, index(0)
        ),
        model="relaxed",
    ),
    Fault(
        "lines that two parts share are those of the part before",
        "chain", "chain", _Chain, "_move_overlap", does_nothing,
    ),
    Fault(
        "the last line that the windows of a part see is not made",
        "chain", "chain", _Chain, "_lines_to_expand",
        by(lambda lines, *_: (lines[0], add(lines[1], -1))),
    ),
    Fault(
        "the first part of an image takes lines over, too",
        "chain", "chain", _Chain, "_write_part",
        given(lambda self, part: (self, replace(part, is_first=_no()))),
    ),
]  # fmt: skip


def _at_most(value: Any, limit: int) -> Any:
    """Return the smaller of a value and a limit."""
    return (
        min(value, limit)
        if isinstance(value, int)
        else arith.minsi(value, index(limit))
    )


def _no() -> Value:
    """Emit the constant false."""
    return arith.ConstantOp(ir.IntegerType.get_signless(1), 0).result
