"""The kernels of a variant, as its manifest lists them: as a document and as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aotc.artifacts.manifest import Variant
from aotc.cli import output
from aotc.core.json_values import JsonObject
from aotc.machine.processor import NOMINAL_GHZ

_PLACES_SHOWN = 2
_COLUMNS = ("KERNEL", "OPS", "SCHEDULE", "CALLS", "GFLOP", "MB", "FLOP/B")
_OF_MODEL = ("MS", "GFLOP/S", "ROOFLINE")
_OF_DEVICE = ("F32 PRODUCTS", "REGISTERS", "SPILLED", "SHARED")

Row = JsonObject


@dataclass(frozen=True)
class KernelTable:
    """The table of kernels of one variant, restricted to some exports.

    Args:
        variant: of a bundle.
        exports: whose calls are shown; None for all.
    """

    variant: Variant
    exports: Collection[str] | None = None

    @property
    def _known(self) -> Row:
        """The manifest's data on kernels; empty if it has none."""
        return self.variant.kernels or {}

    @property
    def _regions(self) -> list[dict[str, object]]:
        """The kernels called by the shown exports, with the number of calls."""
        found = []
        for row in self._known.get("regions", ()):
            entries = {
                name: calls
                for name, calls in row["entries"].items()
                if self._is_shown(name)
            }
            if entries:
                found.append({**row, "entries": entries})
        return found

    @property
    def _without(self) -> list[Row]:
        """The ops without a kernel in the shown exports."""
        rows = self._known.get("without", ())
        return [row for row in rows if self._is_shown(row["entry"])]

    def _is_shown(self, export: str) -> bool:
        """Return whether an export is among the shown ones."""
        return self.exports is None or export in self.exports

    @property
    def _others(self) -> int | None:
        """The number of a variant's dispatches whose code is IREE's own; None if
        unknown.
        """
        if self.variant.dispatches is None or self.variant.kernels is None:
            return None
        rows = self._known.get("regions", ())
        calls: int = sum(
            each["calls"] for row in rows for each in row["entries"].values()
        )
        return max(0, self.variant.dispatches - calls)

    @property
    def _why_none(self) -> str:
        """Return why the table has no kernels."""
        if self.variant.kernels is None:
            return "the bundle was built by an aotc that does not tell of kernels"
        if self._known.get("none"):
            return str(self._known["none"])
        if self._without:
            return "every product is left to IREE's code generation, see below"
        return "there is no product, convolution or attention"

    # ---- for scripts ----------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the variant's kernels as JSON (`aotc.inspect-kernels/1`)."""
        regions, machine = self._regions, self._known.get("machine")
        return {
            "variant": self.variant.id,
            "none": None if regions else self._why_none,
            "machine": {**machine, "nominal_ghz": NOMINAL_GHZ} if machine else None,
            "chip": self._known.get("chip"),
            "compiler": self._known.get("compiler"),
            "kernels": [{**row, **expected_figures(row, machine)} for row in regions],
            "without_kernel": self._without,
            "other_dispatches": self._others,
        }

    # ---- for people -----------------------------------------------------------------

    def to_text(self) -> str:
        """Return the table as text, with assumptions, and ops without kernels."""
        lines = [f"VARIANT {self.variant.id}"]
        regions, machine = self._regions, self._known.get("machine")
        if regions:
            cells = [_cells(row, machine) for row in regions]
            figures = _OF_DEVICE if _is_of_device(regions[0]) else _OF_MODEL
            lines.append(output.table((*_COLUMNS, *figures, "SOURCE"), cells))
            lines += [
                *_totals(regions),
                *_assumptions(machine),
                *_note_on_sizes(regions),
            ]
            lines += _compiled_by(self._known)
            lines += winograd_notes(regions)
        else:
            lines.append(f"no kernels: {self._why_none}")
        if self._others is not None:
            more = "more " if self._known.get("regions") else ""
            others = output.quantity(
                self._others, f"{more}dispatch", f"{more}dispatches"
            )
            lines.append(f"IREE generates the code of {others} (of all entries)")
        if self._without:
            lines += ["", "WITHOUT KERNEL (IREE generates the code)"]
            lines += [f"  {_without_text(row)}" for row in self._without]
        return "\n".join(lines)


def expected_figures(row: Row, machine: Row | None) -> dict[str, float | None]:
    """Return the modelled time, rate, intensity and roofline share of a kernel's call.

    Args:
        row: of the manifest.
        machine: of the manifest: the peak of a core, and a nominal bandwidth.

    Returns:
        `intensity` (float operations for each byte); `expected_ms`, of the model or of
        reading and writing all bytes, whichever is longer, and `expected_gflops`, both
        at the nominal clock; and `roofline`: the time that peak and bandwidth allow at
        best, over the expected one. None where there is no model.
    """
    size = row["bytes_read"] + row["bytes_written"]
    found = {
        "intensity": row["flops"] / size if size else 0.0,
        "expected_ms": None,
        "expected_gflops": None,
        "roofline": None,
    }
    if not row.get("cycles") or machine is None:
        return found
    moving = size / machine["bytes_per_cycle"]
    cycles = max(row["cycles"], moving)
    least = max(row["flops"] / machine["flops_per_cycle"], moving)
    return {
        **found,
        "expected_ms": cycles / NOMINAL_GHZ / 1e6,
        "expected_gflops": row["flops"] / cycles * NOMINAL_GHZ,
        "roofline": least / cycles,
    }


def winograd_notes(kernels: Iterable[Row]) -> Iterator[str]:
    """Yield a note on how the operations of Winograd kernels are counted, if any.

    Args:
        kernels: of the manifest.
    """
    if any(row.get("family") == "winograd" for row in kernels):
        yield (
            "the operations of winograd kernels are counted as those of the direct "
            "convolution, of which they do 4/9 or a quarter: they may reach more than "
            "the peak of a core, which is more than 100 % of the roofline"
        )


def ops_text(row: Row) -> str:
    """Format a kernel's ops with counts: `conv_general, add ×2, relu`."""
    counts: dict[str, int] = {}
    for name in row["ops"]:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{op} ×{n}" if n > 1 else op for op, n in counts.items())


def places_text(rows: list[Row]) -> str:
    """Format the first source lines of some rows, and how many more there are.

    Args:
        rows: each with `places` and `more`.
    """
    places = list(dict.fromkeys(place for row in rows for place in row["places"]))
    hidden = len(places[_PLACES_SHOWN:]) + sum(row["more"] for row in rows)
    more = [f"{hidden} more"] if hidden else []
    return ", ".join([*places[:_PLACES_SHOWN], *more])


def _cells(row: Row, machine: Row | None) -> tuple[str, ...]:
    """Return the table cells of one kernel."""
    figures, rows = expected_figures(row, machine), list(row["entries"].items())
    calls = ", ".join(f"{name} {each['calls']}" for name, each in rows)
    return (
        row["name"],
        ops_text(row),
        row["schedule"],
        calls,
        _number(row["flops"] / 1e9),
        _number((row["bytes_read"] + row["bytes_written"]) / 1e6),
        _number(figures["intensity"]),
        *(_device_cells(row) if _is_of_device(row) else _model_cells(figures)),
        places_text([each for _, each in rows]),
    )


def _model_cells(figures: Mapping[str, float | None]) -> tuple[str, ...]:
    """Return cells on modelled time, rate and roofline share."""
    return (
        _number(figures["expected_ms"]),
        _number(figures["expected_gflops"]),
        "-" if figures["roofline"] is None else f"{figures['roofline']:.0%}",
    )


def _is_of_device(row: Row) -> bool:
    """Return whether a kernel runs on a GPU."""
    return "device" in row


def _device_cells(row: Row) -> tuple[str, ...]:
    """Return cells on a GPU kernel's precision, registers, spills and shared memory."""
    device = row["device"]
    return (
        row.get("precision", "-"),
        *(str(device[name]) for name in ("registers", "spilled", "shared_bytes")),
    )


def _compiled_by(known: Row) -> Iterator[str]:
    """Yield notes on the compiler of GPU code and what its figures mean."""
    if "chip" in known and "compiler" in known:
        yield (
            f"compiled for {known['chip']['name']} by {known['compiler']}; REGISTERS "
            "and SPILLED are those of a thread, as the assembler says, and SHARED the "
            "bytes of a program"
        )


def _number(value: float | None) -> str:
    """Format a number in three digits; `-` for None."""
    return "-" if value is None else f"{value:.3g}"


def _totals(regions: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each entry: calls of kernels, and their total operations."""
    for entry in dict.fromkeys(name for row in regions for name in row["entries"]):
        calls = [
            (row["flops"], row["entries"][entry]["calls"])
            for row in regions
            if entry in row["entries"]
        ]
        work = sum(flops * count for flops, count in calls) / 1e9
        number = sum(count for _, count in calls)
        calls_text = output.quantity(number, "call of a kernel", "calls of kernels")
        yield f"{entry}: {calls_text}, {_number(work)} GFLOP"


def _assumptions(machine: Row | None) -> Iterator[str]:
    """Yield a note on the machine model behind the figures."""
    if machine is None:
        return
    yield (
        "figures are of one call, and what a loop calls in each turn counts once; MS, "
        "GFLOP/S and ROOFLINE are what aotc's model expects of one core "
        f"at {NOMINAL_GHZ:g} GHz, not measurements: at most "
        f"{machine['flops_per_cycle']} float operations a cycle, and every byte from "
        f"or to memory once, at {machine['bytes_per_cycle']} bytes a cycle"
    )


def _note_on_sizes(regions: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a note on the symbol values at which the figures hold."""
    sizes = {name: n for row in regions for name, n in row.get("sizes", {}).items()}
    if sizes:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield f"where a call decides sizes, the figures are for {said}"


def _without_text(row: Row) -> str:
    """Return the line on an op without a kernel: entry, count and reason."""
    where = places_text([row])
    at = f"; at {where}" if where else ""
    return f"{row['entry']}: {row['op']} ({row['count']}×): {row['why']}{at}"
