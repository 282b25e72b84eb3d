"""The GPUs of this machine and their drivers: the slow part of `aotc.machine.device`.

Drivers are asked through their own libraries, AMD's compute driver through the files of
the kernel. ``aotc/machine/native/probe.c`` does the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from aotc.core.json_values import JsonObject

_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
# Kinds of memory banks of an AMD GPU: its own, visible to the CPU or not.
_KFD_GPU_MEMORY = (1, 2)

# What IREE's driver `hip` loads.
_HIP = "amdhip64.dll" if sys.platform == "win32" else "libamdhip64.so"

# On Android the library's name has no version.
_VULKAN = {"win32": ("vulkan-1.dll",), "darwin": ("libvulkan.dylib",)}
_VULKAN_1_1, _VULKAN_1_3 = 1 << 22 | 1 << 12, 1 << 22 | 3 << 12
_VULKAN_MAX_DEVICES = 64
_VULKAN_DEVICE_LOCAL = 1  # of a heap of memory: the device's own
# VkStructureType of structures → what they tell at which place: features that IREE's
# driver wants, and those that code may use.
_VULKAN_FEATURES = {
    1000221000: {0: "scalarBlockLayout"},
    1000314007: {0: "synchronization2"},
    1000207000: {0: "timelineSemaphore"},
    1000083000: {
        0: "storageBuffer16BitAccess",
        1: "uniformAndStorageBuffer16BitAccess",
    },
    1000177000: {
        0: "storageBuffer8BitAccess",
        1: "uniformAndStorageBuffer8BitAccess",
    },
    1000082000: {0: "shaderFloat16", 1: "shaderInt8"},
}
# The same of VkPhysicalDeviceFeatures.
_VULKAN_CORE_FEATURES = {39: "shaderFloat64", 40: "shaderInt64", 41: "shaderInt16"}


_PCI = Path("/sys/bus/pci/devices")
# Classes of PCI devices: display controllers and processing accelerators.
_PCI_CLASSES = ("0x03", "0x12")
# What draws on the screen of a virtual machine or a server, and computes nothing.
_PCI_NO_GPUS = {"0x1234", "0x1013", "0x1af4", "0x15ad", "0x80ee", "0x1b36", "0x102b",
                "0x1a03", "0x1414"}  # fmt: skip
# Files of drivers of GPUs that are no PCI devices, and in containers without sysfs.
_NODES = {
    "/dev/nvidia0": "0x10de",
    "/dev/nvhost-gpu": "0x10de",
    "/dev/nvgpu": "0x10de",
    "/dev/kfd": "0x1002",
    "/dev/mali0": "0x13b5",
    "/dev/kgsl-3d0": "0x5143",
}


def is_present(vendors: Collection[str] = ()) -> bool:
    """Return whether the system has a GPU, even one whose driver does not work.

    Args:
        vendors: as PCI numbers them, such as `0x10de`; any by default.
    """
    found = {vendor for node, vendor in _NODES.items() if os.path.exists(node)}
    for device in _PCI.glob("*"):
        with suppress(OSError):
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text()
            if kind.startswith(_PCI_CLASSES) and vendor not in _PCI_NO_GPUS:
                found.add(vendor)
    if sys.platform == "darwin":
        found.add("0x106b")
    return bool(found.intersection(vendors) if vendors else found)


def probe() -> JsonObject:
    """Return the facts on CUDA, Vulkan and ROCm devices as JSON; null without a
    driver.
    """
    return {"cuda": _cuda(), "vulkan": _vulkan(), "rocm": _rocm()}


def library(*names: str) -> ctypes.CDLL | None:
    """Load the first of the shared libraries that exists; None if none does."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


# ---- CUDA --------------------------------------------------------------------------


def _cuda() -> JsonObject | None:
    """Return the driver version and the devices of CUDA; None without a driver."""
    cuda = library("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    version, count = ctypes.c_int(), ctypes.c_int()
    if cuda is None or cuda.cuDriverGetVersion(ctypes.byref(version)):
        return None
    # A driver without a usable GPU fails here; its version is worth reporting still.
    if cuda.cuInit(0) == 0:
        cuda.cuDeviceGetCount(ctypes.byref(count))
    devices = [_cuda_device(cuda, ordinal) for ordinal in range(count.value)]
    return {"driver_api": version.value, "devices": devices}


def _cuda_device(cuda: ctypes.CDLL, ordinal: int) -> dict[str, object]:
    """Return name, architecture and memory of a CUDA device."""
    handle, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    major, minor, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    cuda.cuDeviceGet(ctypes.byref(handle), ordinal)
    cuda.cuDeviceGetName(name, len(name), handle)
    # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, handle)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, handle)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    return {
        "name": name.value.decode(),
        "sm": f"sm_{major.value}{minor.value}",
        "memory_bytes": memory.value or None,
    }


# ---- Vulkan ------------------------------------------------------------------------


class _ApplicationInfo(ctypes.Structure):
    """The C structure VkApplicationInfo."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api", ctypes.c_uint32),
    ]


class _InstanceInfo(ctypes.Structure):
    """The C structure VkInstanceCreateInfo."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.POINTER(_ApplicationInfo)),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    ]


class _Properties(ctypes.Structure):
    """The C structure VkPhysicalDeviceProperties; `rest` is longer than its tail."""

    _fields_ = [
        ("api", ctypes.c_uint32),
        ("driver", ctypes.c_uint32),
        ("vendor", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("name", ctypes.c_char * 256),
        ("rest", ctypes.c_uint64 * 256),
    ]


class _SomeFeatures(ctypes.Structure):
    """A C structure of Vulkan that reports up to four features."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("offered", ctypes.c_uint32 * 4),
    ]


class _Features(ctypes.Structure):
    """The C structure VkPhysicalDeviceFeatures2; `offered` is longer than in Vulkan
    1.0.
    """

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("offered", ctypes.c_uint32 * 256),
    ]


class _MemoryType(ctypes.Structure):
    """The C structure VkMemoryType."""

    _fields_ = [("flags", ctypes.c_uint32), ("heap", ctypes.c_uint32)]


class _MemoryHeap(ctypes.Structure):
    """The C structure VkMemoryHeap."""

    _fields_ = [("size", ctypes.c_uint64), ("flags", ctypes.c_uint32)]


class _MemoryProperties(ctypes.Structure):
    """The C structure VkPhysicalDeviceMemoryProperties."""

    _fields_ = [
        ("type_count", ctypes.c_uint32),
        ("types", _MemoryType * 32),
        ("heap_count", ctypes.c_uint32),
        ("heaps", _MemoryHeap * 16),
    ]


def _vulkan() -> dict[str, object] | None:
    """Return the API version of the Vulkan loader, and its devices; None without a
    loader.
    """
    vulkan = library(*_VULKAN.get(sys.platform, ("libvulkan.so.1", "libvulkan.so")))
    if vulkan is None:
        return None
    word = ctypes.c_uint32()
    # Vulkan 1.0 has no such function.
    query = getattr(vulkan, "vkEnumerateInstanceVersion", None)
    if query is None or query(ctypes.byref(word)):
        return {"api": "1.0.0", "devices": []}
    return {"api": _vulkan_version(word.value), "devices": _vulkan_devices(vulkan)}


def _vulkan_version(word: int) -> str:
    """Return a packed Vulkan version as text."""
    return f"{word >> 22 & 0x7F}.{word >> 12 & 0x3FF}.{word & 0xFFF}"


def _vulkan_devices(vulkan: ctypes.CDLL) -> list[dict[str, object]]:
    """Return the Vulkan devices in the loader's order, which IREE numbers them by."""
    application = _ApplicationInfo(api=_VULKAN_1_3)
    create = _InstanceInfo(type=1, application=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    if vulkan.vkCreateInstance(ctypes.byref(create), None, ctypes.byref(instance)):
        return []
    count = ctypes.c_uint32(_VULKAN_MAX_DEVICES)
    handles = (ctypes.c_void_p * _VULKAN_MAX_DEVICES)()
    failed = vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
    found = [] if failed < 0 else handles[: count.value]
    devices = [_vulkan_device(vulkan, ctypes.c_void_p(each)) for each in found]
    vulkan.vkDestroyInstance(instance, None)
    return devices


def _vulkan_device(vulkan: ctypes.CDLL, handle: ctypes.c_void_p) -> dict[str, object]:
    """Return name, API version, features and memory of a Vulkan device."""
    properties = _Properties()
    vulkan.vkGetPhysicalDeviceProperties(handle, ctypes.byref(properties))
    api = properties.api
    return {
        "name": properties.name.decode(),
        "api": _vulkan_version(api),
        "features": _vulkan_features(vulkan, handle) if api >= _VULKAN_1_1 else [],
        "memory_bytes": _vulkan_memory(vulkan, handle) or None,
    }


def _vulkan_memory(vulkan: ctypes.CDLL, handle: ctypes.c_void_p) -> int:
    """Return the bytes of a Vulkan device's own (device-local) memory."""
    memory = _MemoryProperties()
    vulkan.vkGetPhysicalDeviceMemoryProperties(handle, ctypes.byref(memory))
    return sum(
        int(heap.size)
        for heap in memory.heaps[: memory.heap_count]
        if heap.flags & _VULKAN_DEVICE_LOCAL
    )


def _vulkan_features(vulkan: ctypes.CDLL, handle: ctypes.c_void_p) -> list[str]:
    """Return the names of the features that IREE uses and a device offers."""
    told = {kind: _SomeFeatures(type=kind) for kind in _VULKAN_FEATURES}
    first: int | None = None
    for each in told.values():
        each.next = first
        first = ctypes.addressof(each)
    asked = _Features(type=1000059000, next=first)
    vulkan.vkGetPhysicalDeviceFeatures2(handle, ctypes.byref(asked))
    rows = [(told[kind].offered, names) for kind, names in _VULKAN_FEATURES.items()]
    rows.append((asked.offered, _VULKAN_CORE_FEATURES))
    return [
        name
        for offered, names in rows
        for place, name in names.items()
        if offered[place]
    ]


# ---- ROCm --------------------------------------------------------------------------


def _rocm() -> dict[str, object] | None:
    """Return the AMD GPUs that the kernel's compute driver (KFD) lists; None without
    it.

    `hip` says whether the library is here too that runs programs on them.
    The driver numbers processors as major, minor and stepping: 90402 is gfx942, and
    90010 is gfx90a. A node with the number 0 is a CPU.
    """
    try:
        nodes = sorted(int(path.name) for path in _KFD_NODES.iterdir())
    except (OSError, ValueError):
        return None
    folders = [_KFD_NODES / str(node) for node in nodes]
    found = [device for device in map(_rocm_device, folders) if device]
    return {"hip": bool(found) and library(_HIP) is not None, "devices": found}


def _rocm_device(folder: Path) -> dict[str, object] | None:
    """Return name, processor and memory of a KFD node; None for a CPU."""
    version = _numbers(folder / "properties").get("gfx_target_version", 0)
    if not version:
        return None
    banks = map(_numbers, folder.glob("mem_banks/*/properties"))
    memory = sum(
        bank.get("size_in_bytes", 0)
        for bank in banks
        if bank.get("heap_type") in _KFD_GPU_MEMORY
    )
    return {
        "name": _text(folder / "name").strip() or None,
        "gfx": f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}",
        "memory_bytes": memory or None,
    }


def _numbers(path: Path) -> dict[str, int]:
    """Read a driver's file of lines `name number`; return the numbers by name."""
    lines = [line.split() for line in _text(path).splitlines()]
    pairs = [line for line in lines if len(line) == 2]
    return {name: int(value) for name, value in pairs if value.isdecimal()}


def _text(path: Path) -> str:
    """Return the text of a file, or "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
