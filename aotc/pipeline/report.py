"""Reports of a build: its progress, and in the end its results and costs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from aotc.backend import CompiledVariant
from aotc.core.json_values import JsonObject
from aotc.dialects.functions.entries import Entry, Port
from aotc.passes.base import PassRecord
from aotc.pipeline.buckets import Buckets

if TYPE_CHECKING:
    from aotc.checks.budget import Fit
    from aotc.checks.certificate import Certificate
    from aotc.checks.parity import Parity
    from aotc.checks.report import SelfCheck
    from aotc.tuning import TuningUse


class Reporter(Protocol):
    """Protocol of a receiver of a build's progress."""

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Return a context manager that spans a stage."""

    def step(self, text: str) -> None:
        """Report the stage's current work, or what it waits for."""

    def report_part(self, part: str, seconds: float) -> None:
        """Report that a part of the stage is done, such as the code of one target."""


class Silent:
    """A `Reporter` that reports nothing."""

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Return a context manager that does nothing."""
        return nullcontext()

    def step(self, text: str) -> None:
        """Do nothing."""

    def report_part(self, part: str, seconds: float) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class ImageLayout:
    """An image input or output of an entry whose layout the build was asked to change.

    Args:
        entry: its name.
        port: the input or output.
    """

    entry: str
    port: Port

    def to_json(self) -> dict[str, str]:
        """Return the layout as the build report holds it."""
        port = self.port
        return {
            "entry": self.entry,
            "kind": port.kind,
            "name": port.name,
            "layout": port.layout,
            "source_layout": port.source_layout,
        }

    def __str__(self) -> str:
        port = self.port
        also = port.layout == port.source_layout
        source = "as in the source" if also else f"{port.source_layout} in the source"
        return f"{self.entry}: {port.kind} {port.name} is {port.layout}, {source}"


def image_layouts(entries: Iterable[Entry]) -> list[ImageLayout]:
    """Return the images among entries' inputs and outputs that have a given layout."""
    return [
        ImageLayout(entry.name, port)
        for entry in entries
        for port in (*entry.ports("input"), *entry.ports("output"))
        if port.layout
    ]


@dataclass
class BuildReport:
    """The results and costs of a build.

    Args:
        bundle: the bundle's folder, or None if the build stopped earlier.
        ir: the IR of the stage that the build stopped after, if it did.
        stages: wall time in seconds by stage.
        graph_ops: how many ops of the graph dialect there are, before targets differ,
            in code that calls have, by the stages `graph` and `optimized`.
        passes: what each pass did, for all targets.
        variant_passes: and for each target by itself.
        buckets: that were chosen for recorded traffic.
        images: inputs and outputs of entries in a layout that was asked for.
        variants: the compiled targets.
        certificates: of the gradients, if they were asked for.
        fits: what was done for a budget of memory.
        tuning: what the tuning file was good for, for each target.
        parities: how entries compare with their source, if that was asked for.
        self_checks: how compiled entries compare with the reference evaluator.
        self_check_reuse: whether the cache had that: `off`, `hit`, or `miss` and why.
        signer: id of the key that signed, or None.
        channel: development, release or unsigned.
    """

    bundle: Path | None = None
    ir: str | None = None
    stages: dict[str, float] = field(default_factory=dict)
    graph_ops: dict[str, int] = field(default_factory=dict)
    passes: list[PassRecord] = field(default_factory=list)
    variant_passes: dict[str, list[PassRecord]] = field(default_factory=dict)
    buckets: Buckets | None = None
    images: list[ImageLayout] = field(default_factory=list)
    variants: list[CompiledVariant] = field(default_factory=list)
    certificates: list[Certificate] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)
    tuning: list[TuningUse] = field(default_factory=list)
    parities: list[Parity] = field(default_factory=list)
    self_checks: list[SelfCheck] = field(default_factory=list)
    self_check_reuse: str = "off"
    signer: str | None = None
    channel: str | None = None

    def to_json(self) -> JsonObject:
        """Return the report as a document of the schema `aotc.build/1`."""
        return {
            "bundle": str(self.bundle) if self.bundle else None,
            "ir": self.ir,
            "channel": self.channel,
            "signer": self.signer,
            "seconds": {**self.stages, "total": sum(self.stages.values())},
            "graph_ops": self.graph_ops,
            "peak_bytes": _peak_bytes(),
            "passes": [record.to_json() for record in self.passes],
            "variant_passes": self._variant_passes(),
            "buckets": self.buckets.to_json() if self.buckets else None,
            "images": [each.to_json() for each in self.images],
            "variants": [_variant_json(variant) for variant in self.variants],
            "gradient_certificates": [each.to_json() for each in self.certificates],
            "memory_fits": [each.to_json() for each in self.fits],
            "tuning": [each.to_json() for each in self.tuning],
            "parity": [each.to_json() for each in self.parities],
            "self_check": [each.to_json() for each in self.self_checks],
            "self_check_cache": self.self_check_reuse,
        }

    def _variant_passes(self) -> dict[str, list[JsonObject]]:
        """Return JSON records of the passes of each target, IREE's own IR rewrites
        last.
        """
        rewrites = {str(each.target): each.rewrites for each in self.variants}
        return {
            target: [each.to_json() for each in (*records, *rewrites.get(target, ()))]
            for target, records in self.variant_passes.items()
        }

    def findings(self) -> JsonObject:
        """Return the findings of the checks by manifest field; empty without a
        check.
        """
        found = {
            "gradient_certificates": [each.to_json() for each in self.certificates],
            "parity": [each.to_json() for each in self.parities],
            "self_check": [each.to_manifest() for each in self.self_checks],
        }
        return {name: rows for name, rows in found.items() if rows}

    def to_text(self) -> str:
        """Return the report as readable text; the IR alone if that was asked for."""
        if self.ir is not None:
            return self.ir
        lines = [
            f"{variant.target!s:<14} {len(variant.vmfb) / 1024:8.1f} KiB"
            f"  {_dispatch_count(variant):15}"
            f"  {variant.seconds:6.1f} s"
            for variant in self.variants
        ]
        lines += [str(each) for each in self._measurements]
        if self.bundle:
            lines.append(f"{self.bundle}  ({self._channel_text()})")
        if self.channel == "unsigned":
            lines.append(
                "WARNING: this bundle is unsigned. Anyone who can write to it can run "
                "code on its devices,\nand loaders refuse it without --allow-unsigned."
            )
        return "\n".join(lines)

    @property
    def _measurements(self) -> tuple[object, ...]:
        """The reports of buckets, layouts, tuning and checks, to be printed."""
        checks = (*self.certificates, *self.fits, *self.parities, *self.self_checks)
        buckets = (self.buckets,) if self.buckets else ()
        return (*buckets, *self.images, *self.tuning, *checks)

    def _channel_text(self) -> str:
        """Return the bundle's release channel as text."""
        signed = f", signed by {self.signer[:16]}" if self.signer else ""
        return f"{self.channel}{signed}"


def _dispatch_count(variant: CompiledVariant) -> str:
    """Return a variant's number of dispatches as aligned text."""
    count = variant.statistics["dispatches"]
    return f"{count:4} dispatch" if count == 1 else f"{count:4} dispatches"


def _peak_bytes() -> int:
    """Return the largest resident set of this process so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _variant_json(variant: CompiledVariant) -> JsonObject:
    """Return a compiled variant as the report's JSON."""
    return {
        "target": str(variant.target),
        "bytes": len(variant.vmfb),
        "seconds": variant.seconds,
        "peak_bytes": variant.peak_bytes,
        "cache": variant.reuse,
        "statistics": variant.statistics,
        "memory": {name: plan.to_json() for name, plan in variant.memory.items()},
    }
