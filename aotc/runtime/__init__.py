"""Running a bundle on a device that has no compiler.

    model = aotc.runtime.load("digits-1.0.0.aotc")
    probabilities = model.predict(x=images)

`load` verifies the bundle, chooses the variant that fits this machine, and only then
maps anything; every call checks its inputs against the manifest before anything runs.
IREE checks none of this, and meets a wrong file, CPU or shape with a crash.

Needs numpy, cryptography and iree.runtime (for files of states safetensors too), and
nothing of the compiler.
"""

from __future__ import annotations

from aotc.runtime.choice import fallback_count
from aotc.runtime.device_models import DeviceModels
from aotc.runtime.loader import load, load_devices
from aotc.runtime.model import Model

__all__ = ["DeviceModels", "Model", "fallback_count", "load", "load_devices"]
