r"""Figures as text that Prometheus and its kin read: OpenMetrics 1.0.

    # TYPE aotc_calls counter
    # HELP aotc_calls Calls that returned.
    aotc_calls_total{model="digits",entry="predict"} 3
    # EOF

A label without a text is left out, which means the same. See
https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from aotc.counting.families import PREFIX, MetricFamily
from aotc.counting.samples import Distribution, Metric, Sample

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def of_metrics(metrics: Iterable[Metric]) -> str:
    """Return metrics as text in the OpenMetrics format."""
    lines = [line for metric in metrics for line in _lines(metric)]
    return "\n".join([*lines, "# EOF", ""])


def _lines(metric: Metric) -> Iterator[str]:
    """Yield the lines of one metric."""
    family = metric.family
    name = PREFIX + family.name
    yield f"# TYPE {name} {family.kind}"
    if family.unit:
        yield f"# UNIT {name} {family.unit}"
    yield f"# HELP {name} {_escaped(family.help)}"
    for sample in metric.samples:
        yield from _sample_lines(name, family, sample)


def _sample_lines(name: str, family: MetricFamily, sample: Sample) -> Iterator[str]:
    """Yield the lines of one sample."""
    value = sample.value
    if not isinstance(value, Distribution):
        suffix = "_total" if family.kind == "counter" else ""
        yield f"{name}{suffix}{_braces(sample.labels)} {value}"
        return
    bounds = (*map(str, family.bounds), "+Inf")
    for bound, count in zip(bounds, accumulate(value.counts), strict=True):
        yield f"{name}_bucket{_braces({**sample.labels, 'le': bound})} {count}"
    yield f"{name}_count{_braces(sample.labels)} {sum(value.counts)}"
    yield f"{name}_sum{_braces(sample.labels)} {value.total}"


def _braces(labels: Mapping[str, str]) -> str:
    """Return labels in the form `{name="value",…}`."""
    parts = [f'{name}="{_escaped(text)}"' for name, text in labels.items() if text]
    return f"{{{','.join(parts)}}}" if parts else ""


def _escaped(text: str) -> str:
    """Return a text with backslashes, line breaks and quotes escaped."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
