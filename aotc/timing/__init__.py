"""Timing of a bundle's calls on this machine; `aotc bench` reports it.

    inputs      sizes and arrays for a call, from the contracts of the manifest
    process     a bundle that is loaded and called in a process of its own (serve)
    rounds      calls of one or several bundles, which take turns
    statistics  times of calls → percentiles; rounds of two → a ratio and its noise
    dispatches  where the time of a call goes, by IREE's profiler
    machine     processor and load, so that a figure can be traced

Needs what `aotc.runtime` needs, and nothing of the compiler.
"""

from __future__ import annotations
