"""Whether a model is so small that one thread is faster than several.

To wake the threads of a pool, and then the caller, takes 50 to 120 µs a call, while one
thread calls a small model in 10. What touches little memory has small dispatches: the
largest product of matrices in `_MOST_BYTES` takes some 20 µs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aotc.artifacts.manifest import Manifest, Symbol, Variant

_MOST_BYTES = 128 << 10


def is_small(manifest: Manifest, variant: Variant) -> bool:
    """Whether all calls of a variant touch little memory, with weights and states.

    A bundle that does not tell how much, or has sizes without a greatest, is not small.
    """
    if not variant.memory.keys() >= manifest.entry_points.keys():
        return False
    if not all(_is_greatest(x["sizes"], manifest.symbols) for x in _plans(variant)):
        return False
    weights = sum(
        manifest.files[each.file].size
        for each in manifest.weights
        if not each.required_by or variant.id in each.required_by
    )
    calls = max(x["peak_bytes"] + x["resident_bytes"] for x in _plans(variant))
    return bool(weights + calls <= _MOST_BYTES)


def _plans(variant: Variant) -> list[Mapping[str, Any]]:
    """The memory plans of its entries."""
    return list(variant.memory.values())


def _is_greatest(sizes: Mapping[str, int], symbols: Mapping[str, Symbol]) -> bool:
    """Whether symbols have the greatest sizes that calls may give them."""
    return all(size == symbols[name].max for name, size in sizes.items())
