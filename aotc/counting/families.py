"""Everything that aotc can count, in one table: name, kind, labels, unit and help.

Names are those of OpenMetrics without the prefix `aotc_` and the suffix `_total`; one
that has a unit ends with it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]

# Upper bounds of buckets, in seconds: three a decade, from 1 µs to 100 s.
SECONDS = tuple(
    float(f"{step}e{exponent}") for exponent in range(-6, 2) for step in (1, 2, 5)
) + (100.0,)

PREFIX = "aotc_"  # of names that leave the process

_ENTRY = ("model", "version", "target", "entry")


class MetricFamily(NamedTuple):
    """A row of the table of metrics: name, kind, labels, help, unit and buckets.

    Args:
        name: without prefix and suffix.
        kind: a counter never falls, a gauge may, a histogram counts by size.
        labels: that each of its series has.
        help: what it counts, as a sentence.
        unit: which ends the name; empty where things are counted.
        bounds: of the buckets of a histogram.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    unit: str = ""
    bounds: tuple[float, ...] = ()


_TABLE = (
    MetricFamily(
        "calls",
        "counter",
        (*_ENTRY, "variant", "path"),
        "Calls that returned. variant: general, or the sizes that the code was made "
        "for. path: compiled, callback, island or reference.",
    ),
    MetricFamily(
        "call_duration_seconds",
        "histogram",
        (*_ENTRY, "variant", "path"),
        "Time of calls that returned: checks, copies, waiting for other calls of the "
        "model, and computing.",
        "seconds",
        SECONDS,
    ),
    MetricFamily(
        "call_failures",
        "counter",
        (*_ENTRY, "code"),
        "Calls that failed after their inputs were accepted, by the code of the error.",
    ),
    MetricFamily(
        "guard_failures",
        "counter",
        (*_ENTRY, "guard"),
        "Calls that were refused before anything ran, by the name of the guard that "
        "refused them.",
    ),
    MetricFamily(
        "transferred_bytes",
        "counter",
        (*_ENTRY, "direction"),
        "Bytes of arrays given to calls (in) and returned by them (out).",
        "bytes",
    ),
    MetricFamily(
        "synchronizations",
        "counter",
        _ENTRY,
        "Times that the host waited for the device: once a call, and once for the "
        "results that are copied from another device's memory.",
    ),
    MetricFamily(
        "input_elements",
        "counter",
        _ENTRY,
        "Elements of the inputs that callers gave.",
        "elements",
    ),
    MetricFamily(
        "padding_elements",
        "counter",
        _ENTRY,
        "Elements of the inputs that were computed with beyond those given.",
        "elements",
    ),
    MetricFamily(
        "stream_items",
        "counter",
        ("entry", "outcome"),
        "Items of streams that came out: result or error.",
    ),
    MetricFamily(
        "compiles",
        "counter",
        ("layer", "kind"),
        "Compiles. layer: backend (a module by IREE) or jit (a function). kind: cold, "
        "warm (from the cache on disk) or recompile (after a guard failed).",
    ),
    MetricFamily(
        "compile_duration_seconds",
        "histogram",
        ("layer", "kind"),
        "Time of compiles.",
        "seconds",
        SECONDS,
    ),
    MetricFamily(
        "call_checks",
        "counter",
        (*_ENTRY, "outcome", "reason"),
        "Calls of code that is made when it is called, beside the reference evaluator "
        "(AOTC_CHECK). outcome: passed, failed or skipped. reason: why it was skipped.",
    ),
    MetricFamily(
        "cache_hits", "counter", ("cache",), "Values that were found, by kind of value."
    ),
    MetricFamily("cache_misses", "counter", ("cache",), "Values that were not found."),
    MetricFamily(
        "cache_evictions", "counter", ("cache",), "Values that were removed for space."
    ),
    MetricFamily(
        "processor_fallbacks",
        "counter",
        (),
        "Loads that took the processor where an accelerator was meant.",
    ),
    MetricFamily(
        "process_peak_memory_bytes",
        "gauge",
        (),
        "The largest resident set of the process so far.",
        "bytes",
    ),
)

FAMILIES = {family.name: family for family in _TABLE}
