"""What a figure depends on beside the bundle: the processor, and who else uses it."""

from __future__ import annotations

import os
from typing import Any

from aotc import device


def description() -> dict[str, Any]:
    """The processor, and how many processes wanted it in the last minute."""
    cpu = device.probe(cpu_only=True)["cpu"]
    named = ("model", "level", "cores_physical", "cores_logical")
    return {**{name: cpu[name] for name in named}, "load_average": load_average()}


def load_average() -> float | None:
    """How many processes ran or wanted to, on average over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None
