"""Whether a variant runs on a machine: a pure function of manifest and `Host`.

A verdict is one of four, and every reason against `optimal` is spelled out:

    optimal                        made for this runtime and this device
    supported_prefer_recompile     runs: made with another IREE release, and tested here
    unsupported                    does not run here
    not_applicable                 cannot be judged: a fact is unknown

What is unknown is never taken for good. IREE itself checks neither CPU features nor
drivers before it runs code, so this has to happen first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.tables import (
    DRIVERS,
    IreeRuntime,
    gfx_runs_on,
    iree_runtime,
    linux_driver,
    ptx_driver_api,
    ptx_runs_on,
    run_outcome,
    vulkan_driver_api,
)

Verdict = Literal[
    "optimal", "supported_prefer_recompile", "unsupported", "not_applicable"
]
# best first
VERDICTS: tuple[Verdict, ...] = (
    "optimal",
    "supported_prefer_recompile",
    "not_applicable",
    "unsupported",
)
USABLE = VERDICTS[:2]
# what another release of IREE on the device would mend
RUNTIME_CODES = {"runtime", "runtime-version", "bytecode", "module", "vm-features"}

# a device profile that leaves a fact out
_STATE_FACT = "ask the device itself, by `aotc doctor --format json`"

_ARCH_NAMES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Host:
    """What a machine offers. None means that it is not known.

    Args:
        arch: `x86_64`, `aarch64`, …
        cpu_features: LLVM's names.
        runtime_version: of IREE, such as `3.13.0`.
        drivers: the IREE drivers that work here.
        sm: compute capability of the first CUDA device, such as `sm_86`.
        cuda_driver_api: such as 12040 for CUDA 12.4.
        vulkan_api: of the best device, such as `1.3.280`.
        vulkan_features: those of it that IREE's driver may want, under Vulkan's names.
        gfx: processor of the first ROCm device, such as `gfx942`.
        unknown_drivers: those of which nobody knows whether they work.
    """

    arch: str
    cpu_features: frozenset[str]
    runtime_version: str
    drivers: frozenset[str]
    sm: str | None = None
    cuda_driver_api: int | None = None
    vulkan_api: str | None = None
    vulkan_features: frozenset[str] | None = None
    gfx: str | None = None
    unknown_drivers: frozenset[str] = frozenset()

    @classmethod
    def from_device(
        cls,
        device: Mapping[str, Any],
        runtime_version: str,
        drivers: Iterable[str],
        unknown_drivers: Iterable[str] = (),
    ) -> Host:
        """From what `aotc.device.probe` (or a saved device profile) says."""
        cuda, rocm = device.get("cuda") or {}, device.get("rocm") or {}
        vulkan_api, vulkan_features = _best_vulkan(device.get("vulkan") or {})
        return cls(
            arch=arch_of(str(device.get("arch") or "")),
            cpu_features=frozenset((device.get("cpu") or {}).get("features", ())),
            runtime_version=runtime_version,
            drivers=frozenset(drivers),
            unknown_drivers=frozenset(unknown_drivers),
            sm=_first(cuda).get("sm"),
            cuda_driver_api=cuda.get("driver_api"),
            vulkan_api=vulkan_api,
            vulkan_features=vulkan_features,
            gfx=_first(rocm).get("gfx"),
        )


def _first(driver: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first device of a driver, as IREE takes it."""
    return next(iter(driver.get("devices", ())), {})


def _best_vulkan(
    vulkan: Mapping[str, Any],
) -> tuple[str | None, frozenset[str] | None]:
    """Version and features of the best device.

    Neither a device nor the system's loader can do more than the other allows.
    """
    loader, best = vulkan.get("api"), best_vulkan_device(vulkan)
    if best is None:
        return (None if "devices" in vulkan else loader), None
    api = min(best["api"], loader, key=_numbers) if loader else None
    return api, frozenset(best["features"])


def best_vulkan_device(vulkan: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The device of a profile's Vulkan that IREE takes: the first that suffices."""
    return max(
        vulkan.get("devices", ()),
        key=lambda each: (len(set(each["features"])), _numbers(each["api"])),
        default=None,
    )


@dataclass(frozen=True)
class Mismatch:
    """One reason why a variant is not optimal on a host, and what would mend it."""

    code: str
    verdict: Verdict
    message: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


def verdict_of(mismatches: Iterable[Mismatch]) -> Verdict:
    """The worst verdict of all reasons; `optimal` if there are none."""
    found = [mismatch.verdict for mismatch in mismatches]
    return max(found, key=VERDICTS.index, default="optimal")


def check(manifest: Manifest, variant: Variant, host: Host) -> list[Mismatch]:
    """Everything that speaks against running `variant` on `host`."""
    if variant.backend not in _RULES:
        return [_unknown("no-rules", f"there are no rules for {variant.backend}")]
    return [*_check_runtime(manifest, variant, host), *check_device(variant, host)]


def check_device(variant: Variant, host: Host) -> list[Mismatch]:
    """What speaks against it, whatever IREE's runtime there is; of a known backend."""
    if no_driver := _check_driver(variant, host):
        return no_driver  # more of a device that is not there is no reason
    return _RULES[variant.backend](variant, host)


def _check_runtime(manifest: Manifest, variant: Variant, host: Host) -> list[Mismatch]:
    built, present = manifest.compiler_version, host.runtime_version
    runtime = iree_runtime(present)
    abi = variant.runtime_abi
    if runtime is None or not {"iree_vm_bytecode", "vm_feature_bits"} <= abi.keys():
        what = (
            f"what IREE runtime {present} can load" if present else "the IREE runtime"
        )
        return [_unknown("runtime", f"{what} is unknown", _other_runtime(built, ""))]
    advice = _other_runtime(built, present)
    found = [
        replace(mismatch, advice=advice)
        for mismatch in (*_check_bytecode(abi, runtime), *_check_modules(abi, runtime))
    ]
    if _line(built) != _line(present):
        found.append(replace(_other_release(manifest, variant, present), advice=advice))
    return found


def _other_release(manifest: Manifest, variant: Variant, present: str) -> Mismatch:
    """The verdict on another release of IREE: only what was tried can be supported.

    Versions that fit do not suffice: modules of IREE 3.13 load under 3.12, and some of
    them then fail there.
    """
    built = manifest.compiler_version
    outcome = run_outcome(built, present, variant.backend)
    if outcome is None and present in variant.runtime_abi.get("runtime_tested", ()):
        outcome = "right"
    tried = {
        None: "which was not tried with it",
        "right": "which runs it rightly",
    }.get(outcome, "under which tests of such modules failed")
    message = f"compiled with IREE {built}, the runtime here is {present}, {tried}"
    verdict: Verdict = (
        "supported_prefer_recompile" if outcome == "right" else "unsupported"
    )
    return Mismatch("runtime-version", verdict, message)


def _check_bytecode(abi: Mapping[str, Any], runtime: IreeRuntime) -> list[Mismatch]:
    found = []
    major, minor = abi["iree_vm_bytecode"][:2]
    if major != runtime.bytecode[0] or minor > runtime.bytecode[1]:
        expected = "{}.{}".format(*runtime.bytecode)
        found.append(
            _no("bytecode", f"runtime loads bytecode {expected}, got {major}.{minor}")
        )
    if missing := abi["vm_feature_bits"] & ~runtime.vm_features:
        message = f"the runtime lacks the VM features {missing:#x} of the module"
        found.append(_no("vm-features", message))
    return found


def _check_modules(abi: Mapping[str, Any], runtime: IreeRuntime) -> list[Mismatch]:
    found = []
    for module, least in abi.get("module_deps", {}).items():
        offered = runtime.modules.get(module)
        if offered is None:
            found.append(_unknown("module", f"runtime module {module} is unknown"))
        elif offered < least:
            message = (
                f"runtime module {module}: expected version {least}, got {offered}"
            )
            found.append(_no("module", message))
    return found


def _check_driver(variant: Variant, host: Host) -> list[Mismatch]:
    wanted = DRIVERS[variant.backend]
    if host.drivers.intersection(wanted):
        return []
    if host.unknown_drivers.intersection(wanted):
        message = f"whether the driver {wanted[0]} works is unknown"
        return [_unknown("driver", message, _STATE_FACT)]
    return [_no("no-driver", f"expected the driver {wanted[0]}, which is not here")]


def _check_cpu(variant: Variant, host: Host) -> list[Mismatch]:
    target = variant.target
    arch = arch_of(str(target.get("arch", "")))
    if not arch or not host.arch:
        return [_unknown("arch", "the processor architecture is unknown", _STATE_FACT)]
    if arch != host.arch:
        return [_no("arch", f"expected an {arch} processor, got {host.arch}")]
    if "cpu_features_required" not in target:
        return [_unknown("cpu-features", "the needed CPU features are unknown")]
    missing = sorted(set(target["cpu_features_required"]) - host.cpu_features)
    if missing:
        message = f"expected CPU features that are not here: {', '.join(missing)}"
        return [_no("cpu-features", message)]
    return []


def _check_cuda(variant: Variant, host: Host) -> list[Mismatch]:
    found = []
    built, sm = str(variant.target.get("sm", "")), host.sm
    if not built or not sm:
        message = "compute capability is unknown"
        found.append(_unknown("compute-capability", message, _STATE_FACT))
    elif not ptx_runs_on(built, sm):
        found.append(_no("compute-capability", f"expected {built}, got {sm}"))
    least = variant.target.get(
        "min_cuda_driver_api", ptx_driver_api(str(variant.target.get("ptx_isa")))
    )
    got = host.cuda_driver_api
    if least is None or got is None:
        message = "the CUDA driver or its need is unknown"
        found.append(_unknown("cuda-driver", message, _STATE_FACT))
    elif got < least:
        message = f"expected a driver of CUDA {_cuda(least)} or newer, got {_cuda(got)}"
        found.append(_no("cuda-driver", message, _newer_driver(least)))
    return found


def _check_nothing(variant: Variant, host: Host) -> list[Mismatch]:
    return []


def _check_vulkan(variant: Variant, host: Host) -> list[Mismatch]:
    """Both the code and IREE's driver want a version; the newer one decides."""
    runtime, got = iree_runtime(host.runtime_version), host.vulkan_api
    module = variant.target.get("min_vulkan_api")
    if runtime is None or runtime.vulkan_api is None or module is None or got is None:
        message = "the Vulkan version or its need is unknown"
        return [_unknown("vulkan-api", message, _STATE_FACT)]
    least = max(runtime.vulkan_api, module, key=_numbers)
    if _numbers(got) < _numbers(least):
        message = f"expected Vulkan {least} or newer, got {got}"
        return [_no("vulkan-api", message, _newer_vulkan(least, host))]
    return _check_vulkan_features(runtime, host)


def _newer_vulkan(least: str, host: Host) -> str:
    """Which driver to install; not all GPUs have one."""
    there = [vulkan_driver_api(chip) for chip in (host.sm, host.gfx) if chip]
    if any(api and _numbers(api) >= _numbers(least) for api in there):
        return f"install a driver with Vulkan {least}"
    return f"find out whether there is a driver with Vulkan {least} for its GPU"


def _check_vulkan_features(runtime: IreeRuntime, host: Host) -> list[Mismatch]:
    if host.vulkan_features is None:
        message = "the device's Vulkan features are unknown"
        return [_unknown("vulkan-features", message, _STATE_FACT)]
    missing = sorted(runtime.vulkan_features - host.vulkan_features)
    if not missing:
        return []
    message = f"expected Vulkan features that are not here: {', '.join(missing)}"
    return [_no("vulkan-features", message)]


def _check_rocm(variant: Variant, host: Host) -> list[Mismatch]:
    built, gfx = variant.target.get("gfx"), host.gfx
    if not built or not gfx:
        return [_unknown("gfx", "the AMD processor or what the code needs is unknown")]
    if not gfx_runs_on(built, gfx):
        return [_no("gfx", f"expected {built}, got {gfx}")]
    return []


# What is not here cannot be judged yet. A Metal driver exists only where Metal does,
# and vmvx is made for every CPU.
_RULES = {
    "llvm-cpu": _check_cpu,
    "vmvx": _check_nothing,
    "metal-spirv": _check_nothing,
    "cuda": _check_cuda,
    "vulkan-spirv": _check_vulkan,
    "rocm": _check_rocm,
}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _cuda(api: int) -> str:
    return f"{api // 1000}.{api % 1000 // 10}"


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def release_of(version: str) -> str:
    """`3.14.0` of `3.14.0rc20260801`: the release that a candidate became, or may."""
    return version.partition("rc")[0]


def arch_of(name: str) -> str:
    """The name that LLVM gives an architecture, such as `x86_64` for `AMD64`."""
    return _ARCH_NAMES.get(name.lower(), name.lower())


def _other_runtime(built: str, present: str) -> str:
    """What makes compiler and runtime fit each other."""
    rebuild = f"rebuild with IREE {_line(present)}, or " if present else ""
    return f"{rebuild}install the IREE runtime {_line(built)} on the device"


def _newer_driver(least: int) -> str:
    version = linux_driver(least)
    named = f" ({version} or newer on Linux)" if version else ""
    return f"install an NVIDIA driver with CUDA {_cuda(least)}{named}"


def _no(code: str, message: str, advice: str = "") -> Mismatch:
    return Mismatch(code, "unsupported", message, advice)


def _unknown(code: str, message: str, advice: str = "") -> Mismatch:
    return Mismatch(code, "not_applicable", message, advice)
