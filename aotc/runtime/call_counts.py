"""Counters of every call of a function, in plain integers.

A call adds to a `Tally`, one for each code of the entry, under the lock that calls of
that code take turns with. What the shapes of a call decide is computed once for these
shapes. The registry of the process (`aotc.counting`) reads it all when it is asked.
"""

from __future__ import annotations

import math
import weakref
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from aotc.artifacts.manifest import Code, EntryPoint, Manifest, Variant
from aotc.counting import Distribution, Sample, counters
from aotc.counting.families import SECONDS
from aotc.errors import AotcError
from aotc.runtime.contract import Shapes
from aotc.runtime.host_arrays import Array

GENERAL = "general"  # the code for calls of any sizes
CALLBACK = "callback:"  # with the name of a function of the caller's
_NANOSECONDS = tuple(round(bound * 1e9) for bound in SECONDS)


class Tally:
    """Counters of the calls of one code of an entry: integers that only grow."""

    __slots__ = (
        "buckets",
        "fetches",
        "given_elements",
        "input_bytes",
        "nanoseconds",
        "padding_elements",
        "result_bytes",
    )

    def __init__(self) -> None:
        self.buckets = [0] * (len(_NANOSECONDS) + 1)
        self.nanoseconds = 0
        self.input_bytes = 0
        self.result_bytes = 0
        self.given_elements = 0
        self.padding_elements = 0
        self.fetches = 0


class ShapeCounts:
    """The increments that a call with certain shapes adds to the tally of its code.

    Args:
        tally: of the code.
        input_bytes: of the arrays that are given.
        given: elements of these.
        computed: elements that are computed with.
        fetched: whether results are copied from another device's memory.
    """

    __slots__ = (
        "_fetched",
        "_fetches",
        "_given_elements",
        "_input_bytes",
        "_padding_elements",
        "_result_bytes",
        "_tally",
    )

    def __init__(
        self, tally: Tally, input_bytes: int, given: int, computed: int, fetched: bool
    ) -> None:
        self._tally = tally
        self._input_bytes = input_bytes
        self._given_elements = given
        self._padding_elements = computed - given
        self._fetched = fetched
        self._fetches = False
        self._result_bytes: int | None = None  # until a call has returned some

    def add(self, nanoseconds: int, results: Sequence[Array]) -> None:
        """Count a finished call, while the caller holds the code's lock."""
        if self._result_bytes is None:
            self._result_bytes = sum(array.nbytes for array in results)
            if self._fetched:
                self._fetches = any(array.size > 0 for array in results)
        tally = self._tally
        tally.buckets[bisect_left(_NANOSECONDS, nanoseconds)] += 1
        tally.nanoseconds += nanoseconds
        tally.input_bytes += self._input_bytes
        tally.result_bytes += self._result_bytes
        tally.given_elements += self._given_elements
        if self._padding_elements:
            tally.padding_elements += self._padding_elements
        if self._fetches:
            tally.fetches += self._fetches


class FunctionCallCounters:
    """The call counters of one entry or other exported function.

    Args:
        labels: model, version, target and entry; None for a function whose calls are
            not those of a user.
        variants: what to call the code behind each export; by default its name.
        fetched: whether results are copied from another device's memory.
    """

    def __init__(
        self,
        labels: Mapping[str, str] | None = None,
        variants: Mapping[str, str] | None = None,
        fetched: bool = False,
    ) -> None:
        self._labels = labels
        self._variants = variants or {}
        self._fetched = fetched
        self._tallies: dict[str, Tally] = {}
        if labels is not None:
            counters.attach(self.samples)

    @classmethod
    def of_entry(
        cls, manifest: Manifest, variant: Variant, spec: EntryPoint, fetched: bool
    ) -> FunctionCallCounters:
        """Return counters of an entry, registered under its labels."""
        labels = {
            "model": manifest.name,
            "version": manifest.version,
            "target": variant.id,
            "entry": spec.name,
        }
        return cls(labels, code_names_by_export(spec), fetched)

    def end_with(self, owner: object) -> None:
        """Keep only the final figures in the registry once `owner` is
        garbage-collected.
        """
        if self._labels is not None:
            weakref.finalize(owner, counters.detach, self.samples).atexit = False

    def for_shapes(
        self,
        export: str,
        itemsizes: Iterable[int],
        shapes: Shapes,
        padded: Shapes | None = None,
    ) -> ShapeCounts:
        """Return what each call with these shapes adds to its code's tally.

        Codes that have a lock each need a name each: a tally has no lock of its own.

        Args:
            export: that computes them.
            itemsizes: bytes of an element of each input.
            shapes: of the inputs as they are given.
            padded: of the inputs as they are computed with; by default the same.
        """
        variant = self._variants.get(export, export)
        tally = self._tallies.setdefault(variant, Tally())
        given = [math.prod(shape) for shape in shapes]
        computed = sum(math.prod(shape) for shape in padded or shapes)
        pairs = zip(given, itemsizes, strict=True)
        input_bytes = sum(size * itemsize for size, itemsize in pairs)
        return ShapeCounts(tally, input_bytes, sum(given), computed, self._fetched)

    def refuse(self, error: AotcError) -> None:
        """Count a call that a guard has refused, under the guard's name."""
        self._count("guard_failures", guard=error.guard or error.code)

    def fail(self, error: AotcError) -> None:
        """Count a call that failed although its inputs were valid, under the error's
        code.
        """
        self._count("call_failures", code=error.code)

    def _count(self, name: str, **labels: str) -> None:
        """Increment a labelled counter, if this function has labels."""
        if self._labels is not None:
            counters.counter(name, {**self._labels, **labels}).add()

    def samples(self) -> Iterator[Sample]:
        """Yield the current figures of all codes that were called, for the registry."""
        assert self._labels is not None
        for variant, tally in list(self._tallies.items()):
            yield from _samples_of(self._labels, variant, tally)


def code_names_by_export(spec: EntryPoint) -> dict[str, str]:
    """Return the label of each code of an entry, by export: `general`, or `n<=64`."""
    return {each.export: _variant_name(each) for each in spec.codes}


def _variant_name(code: Code) -> str:
    """Return the label of a code: its sizes, or `general`."""
    parts = (
        f"{name}{'<=' if name in code.padded else '='}{size}"
        for name, size in code.sizes.items()
    )
    return ",".join(parts) or GENERAL


def _samples_of(
    entry: Mapping[str, str], variant: str, tally: Tally
) -> Iterator[Sample]:
    """Yield the samples of one code's tally; nothing if it was never called."""
    counts = tuple(tally.buckets)
    if not any(counts):
        return
    path = "callback" if variant.startswith(CALLBACK) else "compiled"
    code = {**entry, "variant": variant, "path": path}
    yield Sample("calls", code, sum(counts))
    durations = Distribution(counts, tally.nanoseconds / 1e9)
    yield Sample("call_duration_seconds", code, durations)
    yield Sample("transferred_bytes", {**entry, "direction": "in"}, tally.input_bytes)
    yield Sample("transferred_bytes", {**entry, "direction": "out"}, tally.result_bytes)
    yield Sample("synchronizations", entry, sum(counts) + tally.fetches)
    yield Sample("input_elements", entry, tally.given_elements)
    if tally.padding_elements:
        yield Sample("padding_elements", entry, tally.padding_elements)
