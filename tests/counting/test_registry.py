"""The registry: sums by labels, sources that come and go, and its two written forms."""

import gc
import json
import math
import threading
import weakref
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from aotc.counting import Distribution, Registry, Sample
from aotc.counting.families import FAMILIES, PREFIX, SECONDS
from aotc.errors import InputError


def _parsed(registry):
    """Family → {labels: value} of what is no bucket, as Prometheus reads it."""
    return {
        family.name: {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for sample in family.samples
        }
        for family in text_string_to_metric_families(registry.to_openmetrics())
    }


def _labels(family):
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    return st.fixed_dictionaries(dict.fromkeys(family.labels, texts))


@st.composite
def _additions(draw):
    """Names, labels and amounts, of counters and histograms."""
    families = [f for f in FAMILIES.values() if f.kind != "gauge"]
    family = draw(st.sampled_from(families))
    amounts = st.integers(0, 2**60) | st.floats(0, 1e9)
    return family, draw(_labels(family)), draw(amounts)


@given(st.lists(_additions(), max_size=12))
def test_prometheus_reads_what_was_counted(additions):
    registry = Registry()
    expected = {}
    for family, labels, amount in additions:
        name = PREFIX + family.name
        given_labels = frozenset((k, text) for k, text in labels.items() if text)
        if family.kind == "counter":
            registry.counter(family.name, labels).add(amount)
            key = name, (f"{name}_total", given_labels)
            expected[key] = expected.get(key, 0) + amount
        else:
            registry.histogram(family.name, labels).observe(amount)
            bounds = [str(b) for b in (*SECONDS, math.inf) if amount <= b]
            bounds = [b.replace("inf", "+Inf") for b in bounds]
            for suffix, extra, much in [
                ("_count", (), 1),
                ("_sum", (), amount),
                *(("_bucket", (("le", bound),), 1) for bound in bounds),
            ]:
                key = name, (name + suffix, given_labels | set(extra))
                expected[key] = expected.get(key, 0) + much
    found = {
        (name, key): value
        for name, samples in _parsed(registry).items()
        for key, value in samples.items()
        if value or not key[0].endswith("_bucket")
    }
    assert found == pytest.approx(expected)
    assert all(registry.value(f.name) >= 0 for f in FAMILIES.values())
    json.dumps(registry.to_json(), allow_nan=False)


def test_every_family_obeys_the_rules_of_openmetrics():
    """Units end names, buckets rise, and no name is that of another one's samples."""
    registry = Registry()
    labels = {f.name: dict.fromkeys(f.labels, "x") for f in FAMILIES.values()}
    for family in FAMILIES.values():
        if family.kind == "counter":
            registry.counter(family.name, labels[family.name]).add(2)
        elif family.kind == "histogram":
            registry.histogram(family.name, labels[family.name]).observe(0.25)
        else:
            sample = Sample(family.name, labels[family.name], 2)
            registry.attach(lambda sample=sample: [sample])
        assert all(a < b for a, b in pairwise(family.bounds))
    found = list(text_string_to_metric_families(registry.to_openmetrics()))
    assert [f.name for f in found] == [PREFIX + name for name in FAMILIES]
    for family in found:
        known = FAMILIES[family.name.removeprefix(PREFIX)]
        assert (family.type, family.unit) == (known.kind, known.unit)
        assert family.documentation == known.help
    document = registry.to_json()
    assert document["schema"] == "aotc.counters/1"
    by_name = {metric["name"]: metric for metric in document["metrics"]}
    (sample,) = by_name["aotc_compile_duration_seconds"]["samples"]
    assert (sample["count"], sample["sum"]) == (1, 0.25)
    assert sample["buckets"][-1] == {"le": None, "count": 1}
    assert {b["le"] for b in sample["buckets"] if not b["count"]} == {
        bound for bound in SECONDS if bound < 0.25
    }


def test_what_nothing_feeds_is_not_exported():
    assert Registry().to_openmetrics() == "# EOF\n"
    assert Registry().to_json() == {"schema": "aotc.counters/1", "metrics": []}
    assert Registry().value("calls") == 0


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("call", {}),
        ("cache_hits", {}),
        ("cache_hits", {"cache": "x", "more": "y"}),
        ("compile_duration_seconds", {"layer": "jit", "kind": "cold"}),
        ("process_peak_memory_bytes", {}),
    ],
)
def test_refuses_a_counter_that_is_not_in_the_table(name, labels):
    with pytest.raises(InputError) as caught:
        Registry().counter(name, labels)
    assert caught.value.code == "unknown-counter"


def test_a_counter_never_falls():
    with pytest.raises(ValueError, match="never falls"):
        Registry().counter("processor_fallbacks").add(-1)


class _Owner:
    """Something with figures of its own, whose end the collector of garbage notes."""

    def __init__(self, registry, calls, seconds):
        labels = {label: "" for label in FAMILIES["calls"].labels} | {"entry": "f"}
        durations = Distribution((calls,) + (0,) * len(SECONDS), seconds)
        samples = [
            Sample("calls", labels, calls),
            Sample("call_duration_seconds", labels, durations),
        ]
        source = lambda: samples  # noqa: E731
        registry.attach(source)
        weakref.finalize(self, registry.detach, source).atexit = False
        self.itself = self  # a cycle: only the collector of garbage ends it


def test_figures_of_what_is_gone_are_kept_and_it_is_not():
    registry = Registry()
    for round_ in range(1, 4):
        owners = [_Owner(registry, 3, 0.5) for _ in range(4)]
        assert registry.value("calls", entry="f") == 12 * round_
        owners.clear()
        gc.collect()
        assert registry.value("calls", entry="f") == 12 * round_
        assert registry.value("call_duration_seconds") == 12 * round_
        assert registry._sources == []
    assert registry.value("calls", entry="g") == 0


def test_no_addition_is_lost_between_threads_and_readers_see_no_fall():
    registry = Registry()
    counter = registry.counter("cache_hits", {"cache": "module"})
    stop, seen = threading.Event(), []

    def read():
        while not stop.is_set():
            seen.append(registry.value("cache_hits"))

    def add():
        for _ in range(2000):
            counter.add()
            registry.histogram(
                "compile_duration_seconds", {"layer": "jit", "kind": "cold"}
            ).observe(1)

    threads = [threading.Thread(target=add) for _ in range(4)]
    reader = threading.Thread(target=read)
    for thread in (reader, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    reader.join()
    assert registry.value("cache_hits") == 8000
    assert registry.value("compile_duration_seconds", kind="cold") == 8000
    assert seen == sorted(seen)
