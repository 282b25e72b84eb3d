"""Figures as a document for scripts.

    {"schema": "aotc.counters/1",
     "metrics": [
       {"name": "aotc_calls", "type": "counter", "unit": "", "help": "…",
        "samples": [{"labels": {"entry": "predict", …}, "value": 3}]},
       {"name": "aotc_call_duration_seconds", "type": "histogram", …,
        "samples": [{"labels": {…}, "count": 3, "sum": 0.0021,
                     "buckets": [{"le": 0.0005, "count": 1}, {"le": 0.001, …}, …]}]}]}

Names and labels are those of the OpenMetrics text. Counts of buckets are cumulative as
they are there; the last bucket has no bound (`le` is null).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from aotc.counting.families import PREFIX
from aotc.counting.samples import Distribution, Metric, Sample


def of_metrics(metrics: Iterable[Metric]) -> dict[str, object]:
    """Return metrics as a JSON document."""
    return {"schema": "aotc.counters/1", "metrics": list(_metrics(metrics))}


def _metrics(metrics: Iterable[Metric]) -> Iterator[dict[str, object]]:
    """Yield each metric as a JSON object."""
    for family, samples in metrics:
        yield {
            "name": PREFIX + family.name,
            "type": family.kind,
            "unit": family.unit,
            "help": family.help,
            "samples": [
                {"labels": dict(each.labels), **_value(each, family.bounds)}
                for each in samples
            ],
        }


def _value(sample: Sample, bounds: tuple[float, ...]) -> dict[str, object]:
    """Return a sample's value as JSON; a distribution with cumulative buckets."""
    value = sample.value
    if not isinstance(value, Distribution):
        return {"value": value}
    pairs = zip((*bounds, None), accumulate(value.counts), strict=True)
    return {
        "count": sum(value.counts),
        "sum": value.total,
        "buckets": [{"le": bound, "count": count} for bound, count in pairs],
    }
