"""Facts besides the bundle that figures depend on: the processor, and its load."""

from __future__ import annotations

import os

from aotc.core.json_values import JsonObject
from aotc.machine import device


def description() -> JsonObject:
    """Return the processor's model, level and cores, and the load average."""
    cpu = device.probe(cpu_only=True)["cpu"]
    named = ("model", "level", "cores_physical", "cores_logical")
    return {**{name: cpu[name] for name in named}, "load_average": load_average()}


def load_average() -> float | None:
    """Return the load average of the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None
