"""The profile of one device, as `aotc doctor` and the C probe write it.

A profile states facts, and what it leaves out is unknown. `Assumptions` fill gaps that
the reader of a matrix accepts to have filled; what was assumed is kept beside the facts
and shown with every verdict that could rest on it.
"""

from __future__ import annotations

import marshal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aotc.artifacts.backends import BACKENDS, CPU_DRIVERS
from aotc.artifacts.compat import release_of
from aotc.artifacts.fields import (
    Invalid,
    boolean,
    fail,
    integer,
    listing,
    nullable,
    record,
    text,
)
from aotc.artifacts.host import Host
from aotc.artifacts.tables import arch_of, iree_runtime
from aotc.artifacts.tables.devices import find_device
from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.machine.target import TARGETS

DEVICE_SCHEMA, DOCTOR_SCHEMA = "aotc.device/1", "aotc.doctor/1"

_word = text(r"[\x21-\x7e]{1,64}", "a name without spaces")
_version = text(r"\d{1,4}(\.\d{1,6}){0,3}", "a version such as 1.3.280")
_release = text(r"\d{1,4}(\.\d{1,6}){1,3}(rc\d{1,9})?", "a version such as 3.13.0")
_gpu = record(
    {"sm": text(r"sm_\d{2,3}[af]?", "a compute capability such as sm_89")},
    {"name": text(), "memory_bytes": nullable(integer(0))},
)
_amd_gpu = record({"gfx": _word}, {"memory_bytes": nullable(integer(0))})
_vulkan_gpu = record(
    {"api": _version, "features": listing(_word)},
    {"memory_bytes": nullable(integer(0))},
)
_vulkan = record({"api": nullable(_version)}, {"devices": listing(_vulkan_gpu)})
_REQUIRED_OF_DEVICE = {
    "schema": text(DEVICE_SCHEMA, DEVICE_SCHEMA),
    "arch": nullable(_word),
    "cpu": record({"features": listing(_word)}, {"level": nullable(_word)}),
}
_OPTIONAL_OF_DEVICE = {
    "memory": nullable(record({}, {"total_bytes": nullable(integer(1))})),
    "cuda": nullable(
        record({"devices": listing(_gpu)}, {"driver_api": nullable(integer(0))})
    ),
    "vulkan": nullable(_vulkan),
    "rocm": nullable(record({"devices": listing(_amd_gpu)}, {"hip": boolean})),
}
_device = record(_REQUIRED_OF_DEVICE, _OPTIONAL_OF_DEVICE)
_REQUIRED_OF_DOCTOR = {"schema": text(DOCTOR_SCHEMA, DOCTOR_SCHEMA), "device": _device}
_OPTIONAL_OF_DOCTOR = {
    "packages": record({}, {"iree-base-runtime": nullable(_release)}),
    "drivers": nullable(listing(_word)),
}
_doctor = record(_REQUIRED_OF_DOCTOR, _OPTIONAL_OF_DOCTOR)
# writes equal values as equal bytes; later versions refer to objects met before
_MARSHAL_VERSION = 2
# all that a profile is made of; a document says more, such as the key of its machine
_DEVICE_FIELDS = (*_REQUIRED_OF_DEVICE, *_OPTIONAL_OF_DEVICE)
_DOCTOR_FIELDS = (*_REQUIRED_OF_DOCTOR, *_OPTIONAL_OF_DOCTOR)


@dataclass(frozen=True)
class Assumptions:
    """Facts to assume where device profiles do not state them; None leaves them
    unknown.

    Args:
        runtime: release of the IREE runtime, such as `3.13.0`.
        cuda_driver_api: such as 12040 for CUDA 12.4.
        vulkan_api: such as `1.3.0`, of a device with the features that IREE wants.
        memory_bytes: of the machine, also of the computer around a graphics card.
    """

    runtime: str | None = None
    cuda_driver_api: int | None = None
    vulkan_api: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class DeviceProfile:
    """The facts on a device that compatibility depends on; equal profiles form one
    class.

    Args:
        host: what `compat` judges by.
        memory_bytes: of the machine, or None.
        gpu_memory_bytes: of its first GPU, or None.
        assumed: facts that the profile did not state, in words.
    """

    host: Host
    memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    assumed: tuple[str, ...] = ()


def read_profile(
    document: JsonObject,
    assumptions: Assumptions,
    where: str,
    drivers: Collection[str] | None = None,
) -> DeviceProfile:
    """Return the device profile in a JSON document; raise if it is malformed.

    Args:
        document: of schema `aotc.doctor/1` or `aotc.device/1`.
        assumptions: for what it does not state.
        where: the file, for messages.
        drivers: of IREE that work there, if it is known and the document does not say.

    Raises:
        InputError: `bad-profile`: it is of another form, or contradicts itself.
    """
    try:
        _check_form(document)
        stated = document if document["schema"] == DOCTOR_SCHEMA else {}
        device = stated.get("device", document)
        _check_level(device)
    except Invalid as error:
        raise InputError(
            "bad-profile",
            f"this is no profile of a device: {error}",
            where=where,
            hint="write it with `aotc doctor --format json`, or with the C probe",
        ) from None
    return _profile(stated, device, assumptions, drivers)


def profile_key(document: Any) -> bytes:
    """Return a key, equal for documents that `read_profile` treats alike (same
    assumptions).

    Made anew for each of a hundred thousand devices, so it is made quickly.
    """
    if not isinstance(document, dict):
        return marshal.dumps(document, _MARSHAL_VERSION)
    from_doctor = document.get("schema") == DOCTOR_SCHEMA
    fields = _DOCTOR_FIELDS if from_doctor else _DEVICE_FIELDS
    known = {name: document[name] for name in fields if name in document}
    device = known.get("device")
    if isinstance(device, dict):
        known["device"] = {n: device[n] for n in _DEVICE_FIELDS if n in device}
    return marshal.dumps(known, _MARSHAL_VERSION)


def _check_form(document: JsonObject) -> None:
    """Raise `Invalid` unless a document fits the schema of profiles."""
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if schema not in (DEVICE_SCHEMA, DOCTOR_SCHEMA):
        fail(f"a profile of schema {DOCTOR_SCHEMA} or {DEVICE_SCHEMA}", schema)
    (_doctor if schema == DOCTOR_SCHEMA else _device)(document)


def _check_level(device: JsonObject) -> None:
    """Raise if a profile's CPU level needs features that it does not list."""
    level = TARGETS.get(str(device["cpu"].get("level")))
    if level is None:
        return
    lacking = set(level.cpu_features_required).difference(device["cpu"]["features"])
    arch = arch_of(device["arch"] or level.arch or "")
    if level.arch != arch or lacking:
        what = f"lacks {', '.join(sorted(lacking))}" if lacking else "is none of its"
        raise Invalid(
            f"it contradicts itself: the level is {level}, and the processor ({arch}) "
            f"{what}"
        ).below(".cpu.level")


def _profile(
    stated: Mapping[str, Any],
    device: Mapping[str, Any],
    assumptions: Assumptions,
    drivers: Collection[str] | None,
) -> DeviceProfile:
    """Build the profile from a validated document, filling gaps by assumptions."""
    release = (stated.get("packages") or {}).get("iree-base-runtime")
    runtime = release_of(release or assumptions.runtime or "")
    assumed = []
    if release is None and runtime:
        assumed.append(f"IREE runtime {runtime}")
    facts = dict(device)
    cuda, vulkan = facts.get("cuda"), facts.get("vulkan")
    api = assumptions.cuda_driver_api
    if cuda and cuda.get("driver_api") is None and api is not None:
        facts["cuda"] = cuda | {"driver_api": api}
        assumed.append(f"driver of CUDA {api // 1000}.{api % 1000 // 10}")
    if vulkan and vulkan.get("api") is None and assumptions.vulkan_api:
        facts["vulkan"] = _vulkan_of(assumptions.vulkan_api, runtime) | vulkan
        facts["vulkan"]["api"] = assumptions.vulkan_api
        assumed.append(f"Vulkan {assumptions.vulkan_api}, with what IREE wants of it")
    memory_bytes = (facts.get("memory") or {}).get("total_bytes")
    if memory_bytes is None and assumptions.memory_bytes is not None:
        memory_bytes = assumptions.memory_bytes
        assumed.append(f"{memory_bytes:,} bytes of memory")
    if stated.get("drivers") is not None:
        drivers = stated["drivers"]
    host = Host.from_device(
        facts,
        runtime,
        _drivers(facts, True) if drivers is None else drivers,
        _drivers(facts, None) if drivers is None else (),
    )
    return DeviceProfile(
        host,
        memory_bytes,
        _gpu_memory(facts),
        tuple(assumed),
    )


def _gpu_memory(device: Mapping[str, object]) -> int | None:
    """Return the memory of the first GPU, in the order of the backends."""
    found = (backend.gpu(device) for backend in BACKENDS.values())
    gpu = next((gpu for gpu in found if gpu is not None), {})
    memory: int | None = gpu.get("memory_bytes")
    return memory


def _vulkan_of(api: str, runtime: str) -> dict[str, Any]:
    """Return an assumed Vulkan section: one device with the features that IREE
    needs.
    """
    release = iree_runtime(runtime)
    features = sorted(release.vulkan_features) if release else []
    return {"api": api, "devices": [{"api": api, "features": features}]}


def named_profile(
    name: str, assumptions: Assumptions, where: str | None
) -> DeviceProfile:
    """Return the profile of a device in the shipped table, such as `jetson-orin`.

    Raises:
        InputError: `unknown-device`.
    """
    try:
        device = find_device(name)
    except InputError as error:
        error.where = where
        raise
    # A card is in some computer, of whose processor nothing but its code is known.
    drivers = {*device.drivers, *CPU_DRIVERS}
    return read_profile(device.profile, assumptions, name, drivers)


def _drivers(device: Mapping[str, object], works: bool | None) -> set[str]:
    """Return the IREE drivers that a probed device has (`works`: True) or may have
    (None).

    A runtime is taken to have all drivers that the device can have.

    Args:
        device: as it was probed.
        works: True for those that work, None for those of which it does not say so.
    """
    return {
        driver
        for backend in BACKENDS.values()
        if backend.has_driver(device) is works
        for driver in backend.drivers
    }
