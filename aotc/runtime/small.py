"""Detection of models so small that one thread is faster than several.

To wake the threads of a pool, and then the caller, takes 50 to 120 µs a call, while one
thread calls a small model in 10. Two facts of a manifest tell that it is small: what
touches little memory has small dispatches, as the largest product of matrices in
`_MOST_BYTES` takes some 20 µs; and the work that threads could share
(`aotc.kernels.shared_work`) says what they would gain at best.
"""

from __future__ import annotations

from collections.abc import Mapping

from aotc.artifacts.manifest import Manifest, Symbol, Variant
from aotc.core.json_values import JsonObject

_MOST_BYTES = 128 << 10

# Measured on an AMD EPYC (Zen 4). Kernels of one row do 160,000 operations in a
# microsecond, where a byte counts as two; others do 100,000.
_WORK = 160_000
_WAKING = 100  # µs, to begin and to end a call
_TURN = 25  # µs, after each turn of a loop


def is_small(manifest: Manifest, variant: Variant, threads: int | None) -> bool:
    """Return whether one thread runs every call of a variant as fast as `threads`
    would.

    A bundle that tells neither how much memory nor how much work there is, or has sizes
    without a greatest, is not small.

    Args:
        manifest: of the bundle.
        variant: that is to run.
        threads: that are asked for; None if no processor runs it.
    """
    if threads is None:
        return False
    return _is_compact(manifest, variant) or _has_no_gain(manifest, variant, threads)


def _is_compact(manifest: Manifest, variant: Variant) -> bool:
    """Return whether all calls, with weights and states, touch little memory."""
    if not variant.memory.keys() >= _exports(manifest):
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


def _has_no_gain(manifest: Manifest, variant: Variant, threads: int) -> bool:
    """Return whether waking threads costs each entry more time than they save."""
    known = (variant.kernels or {}).get("shared_work", {})
    if not known.keys() >= _exports(manifest):
        return False
    saved = 1 - 1 / max(1, threads)
    return all(
        x["work"] / _WORK * saved <= _WAKING + x["turns"] * _TURN
        for x in known.values()
    )


def _exports(manifest: Manifest) -> set[str]:
    """Return the exported functions that compute calls of all entries."""
    return {name for each in manifest.entry_points.values() for name in each.exports}


def _plans(variant: Variant) -> list[JsonObject]:
    """Return the memory plans of a variant's entries."""
    return list(variant.memory.values())


def _is_greatest(sizes: Mapping[str, int], symbols: Mapping[str, Symbol]) -> bool:
    """Return whether all symbols have the greatest sizes that calls may have."""
    return all(size == symbols[name].max for name, size in sizes.items())
