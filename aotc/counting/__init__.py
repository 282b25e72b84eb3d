"""Counters of a process: one registry for all of aotc.

    aotc.counters.value("calls", entry="predict")     # → 3
    aotc.counters.to_json()                           # a document, aotc.counters/1
    aotc.counters.to_openmetrics()                    # text for Prometheus and its kin

The registry is that of the process and not of a model, because much of what it counts
(compiles, caches, fallbacks) belongs to no model or comes before one; labels say which
model and entry a figure is of. `families.py` is the table of all that can be counted.
What nothing has fed is left out: a zero says that something was watched.
"""

from __future__ import annotations

from aotc.counting.memory import peak_memory
from aotc.counting.registry import Counter, Histogram, Registry
from aotc.counting.samples import Distribution, Metric, Sample

__all__ = [
    "Counter",
    "Distribution",
    "Histogram",
    "Metric",
    "Registry",
    "Sample",
    "counters",
]

#: The registry of this process.
counters = Registry()
counters.attach(peak_memory)
