"""Code for NVIDIA GPUs: PTX, which the driver translates for the GPU that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.artifacts.backends.backend import Facts, first_gpu, section
from aotc.artifacts.tables import linux_driver, ptx_driver_api, ptx_runs_on
from aotc.artifacts.verdicts import STATE_FACT, Mismatch, unknown, unsupported

if TYPE_CHECKING:
    from aotc.artifacts.host import Host


def check(target: Facts, host: Host) -> list[Mismatch]:
    """Return the reasons against CUDA code on a host: compute capability, then driver
    version.
    """
    found = []
    built, sm = str(target.get("sm", "")), host.sm
    if not built or not sm:
        message = "compute capability is unknown"
        found.append(unknown("compute-capability", message, STATE_FACT))
    elif not ptx_runs_on(built, sm):
        found.append(unsupported("compute-capability", f"expected {built}, got {sm}"))
    least = target.get(
        "min_cuda_driver_api", ptx_driver_api(str(target.get("ptx_isa")))
    )
    got = host.cuda_driver_api
    if least is None or got is None:
        message = "the CUDA driver or its need is unknown"
        found.append(unknown("cuda-driver", message, STATE_FACT))
    elif got < least:
        message = f"expected a driver of CUDA {_cuda(least)} or newer, got {_cuda(got)}"
        found.append(unsupported("cuda-driver", message, _newer_driver(least)))
    return found


def level(target: Facts) -> int:
    """Return the rank of a target's compute capability; `sm_90a` ranks above
    `sm_90`.
    """
    sm = str(target.get("sm", "")).removeprefix("sm_")
    number = sm.rstrip("af")
    return 2 * int(number or 0) + (number != sm)


def host_facts(device: Facts) -> dict[str, object]:
    """Return a profile's facts for `Host`: the first GPU's `sm`, and the CUDA driver's
    version.
    """
    return {
        "sm": (gpu(device) or {}).get("sm"),
        "cuda_driver_api": section(device, "cuda").get("driver_api"),
    }


def has_driver(device: Facts) -> bool | None:
    """Return whether the device has a GPU, and so is taken to have the driver."""
    return gpu(device) is not None


def gpu(device: Facts) -> Facts | None:
    """Return the first CUDA GPU of a device profile, or None."""
    return first_gpu(device, "cuda")


def _cuda(api: int) -> str:
    """Format a CUDA driver API number, such as 12040, as `12.4`."""
    return f"{api // 1000}.{api % 1000 // 10}"


def _newer_driver(least: int) -> str:
    """Return advice to install a driver of at least this CUDA version."""
    version = linux_driver(least)
    named = f" ({version} or newer on Linux)" if version else ""
    return f"install an NVIDIA driver with CUDA {_cuda(least)}{named}"
