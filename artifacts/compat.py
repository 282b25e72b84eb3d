"""Compatibility of a variant with a machine: a pure function of manifest and `Host`.

A verdict is one of four, and every reason against `optimal` is spelled out:

    optimal                        made for this runtime and this device
    supported_prefer_recompile     runs: made with another IREE release and tested here,
                                   or for a device that is the processor in disguise
    unsupported                    does not run here
    not_applicable                 cannot be judged: a fact is unknown

What is unknown is never taken for good. IREE itself checks neither CPU features nor
drivers before it runs code, so this has to happen first.
"""

from __future__ import annotations

from dataclasses import replace

from aotc.artifacts import loader_module
from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.tables import IreeRuntime, iree_runtime, run_outcome
from aotc.artifacts.verdicts import (
    STATE_FACT,
    Mismatch,
    Verdict,
    unknown,
    unsupported,
)
from aotc.core.json_values import JsonObject

# what another release of IREE on the device would mend
RUNTIME_CODES = {"runtime", "runtime-version", "bytecode", "module", "vm-features"}


def check(manifest: Manifest, variant: Variant, host: Host) -> list[Mismatch]:
    """Return the mismatches that keep `variant` from being optimal on `host`, of
    runtime and device.
    """
    if variant.backend not in BACKENDS:
        return [unknown("no-rules", f"there are no rules for {variant.backend}")]
    return [*_check_runtime(manifest, variant, host), *check_device(variant, host)]


def check_device(variant: Variant, host: Host) -> list[Mismatch]:
    """Return a device's mismatches with a variant, whatever its IREE runtime is."""
    if no_driver := _check_driver(variant, host):
        return no_driver  # more of a device that is not there is no reason
    return BACKENDS[variant.backend].check(variant.target, host)


def _check_runtime(manifest: Manifest, variant: Variant, host: Host) -> list[Mismatch]:
    """Return the mismatches of a host's IREE runtime with a variant."""
    built, present = manifest.compiler_version, host.runtime_version
    runtime = iree_runtime(present)
    abi = variant.runtime_abi
    if runtime is None or not {"iree_vm_bytecode", "vm_feature_bits"} <= abi.keys():
        what = (
            f"what IREE runtime {present} can load" if present else "the IREE runtime"
        )
        return [unknown("runtime", f"{what} is unknown", _other_runtime(built, ""))]
    advice = _other_runtime(built, present)
    found = [
        replace(mismatch, advice=advice)
        for mismatch in (*_check_bytecode(abi, runtime), *_check_modules(abi, runtime))
    ]
    if _line(built) != _line(present):
        found.append(replace(_other_release(manifest, variant, present), advice=advice))
    return found


def _other_release(manifest: Manifest, variant: Variant, present: str) -> Mismatch:
    """Return the mismatch for another IREE release: supported only if it was tested.

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


def _check_bytecode(abi: JsonObject, runtime: IreeRuntime) -> list[Mismatch]:
    """Return mismatches of a module's bytecode version and VM features with a
    runtime.
    """
    found = []
    major, minor = abi["iree_vm_bytecode"][:2]
    if major != runtime.bytecode[0] or minor > runtime.bytecode[1]:
        expected = "{}.{}".format(*runtime.bytecode)
        found.append(
            unsupported(
                "bytecode", f"runtime loads bytecode {expected}, got {major}.{minor}"
            )
        )
    if missing := abi["vm_feature_bits"] & ~runtime.vm_features:
        message = f"the runtime lacks the VM features {missing:#x} of the module"
        found.append(unsupported("vm-features", message))
    return found


# What the loader of aotc brings to any runtime: version by name of the module.
_LOADER_MODULES = {loader_module.NAME: loader_module.VERSION}


def _check_modules(abi: JsonObject, runtime: IreeRuntime) -> list[Mismatch]:
    """Return mismatches of the runtime modules that a variant imports."""
    found = []
    for module, least in abi.get("module_deps", {}).items():
        offered = _LOADER_MODULES.get(module, runtime.modules.get(module))
        if offered is None:
            found.append(unknown("module", f"runtime module {module} is unknown"))
        elif offered < least:
            message = (
                f"runtime module {module}: expected version {least}, got {offered}"
            )
            found.append(unsupported("module", message))
    return found


def _check_driver(variant: Variant, host: Host) -> list[Mismatch]:
    """Return the mismatch for a missing or unknown IREE driver, if any."""
    wanted = BACKENDS[variant.backend].drivers
    if host.drivers.intersection(wanted):
        return []
    if host.unknown_drivers.intersection(wanted):
        message = f"whether the driver {wanted[0]} works is unknown"
        return [unknown("driver", message, STATE_FACT)]
    return [
        unsupported("no-driver", f"expected the driver {wanted[0]}, which is not here")
    ]


def _line(version: str) -> str:
    """Return the X.Y of a version."""
    return ".".join(version.split(".")[:2])


def release_of(version: str) -> str:
    """Strip the `rc…` from a version: `3.14.0` of `3.14.0rc20260801`."""
    return version.partition("rc")[0]


def _other_runtime(built: str, present: str) -> str:
    """Return advice to rebuild, or to install a matching IREE runtime."""
    rebuild = f"rebuild with IREE {_line(present)}, or " if present else ""
    return f"{rebuild}install the IREE runtime {_line(built)} on the device"
