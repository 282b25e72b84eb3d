"""Tables of the modules that each release of the IREE runtime loads.

`iree_runtimes.json` is asked of the wheels by ``benchmarks/compat/runtimes.py``, and
`iree_runs.json` says under which other releases a bundle of this compiler was run:
``benchmarks/compat/sweep.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from aotc.artifacts.tables.reading import rows


@dataclass(frozen=True)
class IreeRuntime:
    """The formats and modules that one release of the IREE runtime can load.

    Args:
        release: such as `3.13.0`.
        bytecode: it loads this major version, up to this minor one.
        vm_features: bits of the VM features that it has, as in IREE's schema.
        modules: version by name of the modules that it brings.
        vulkan_api: the oldest Vulkan that its driver takes; None if that is unknown.
        vulkan_features: that a device must offer, under Vulkan's names.
    """

    release: str
    bytecode: tuple[int, int]
    vm_features: int
    modules: dict[str, int]
    vulkan_api: str | None = None
    vulkan_features: frozenset[str] = frozenset()


@cache
def iree_runtime(release: str) -> IreeRuntime | None:
    """Return the facts on a runtime release, or on the newest known of its X.Y; None
    without one.
    """
    known = _runtimes()
    line = [each for name, each in known.items() if _line(name) == _line(release)]
    return known.get(release) or (line[-1] if line else None)


def run_outcome(compiled_by: str, release: str, backend: str) -> str | None:
    """Return the recorded outcome of running modules of a compiler on a runtime; None
    if untried.

    Args:
        compiled_by: release of the compiler; its patch number does not count.
        release: of the runtime; only the very release that ran counts.
        backend: such as `llvm-cpu`.

    Returns:
        `right` if all models gave right numbers, else the worst that happened to one:
        `wrong`, `refused` or `crashed`; None if nothing was tried.
    """
    for row in rows("iree_runs.json"):
        if _line(row["compiler"]) == _line(compiled_by) and row["runtime"] == release:
            outcome: str | None = row["outcomes"].get(backend)
            return outcome
    return None


@cache
def _runtimes() -> dict[str, IreeRuntime]:
    """Return the known runtimes from the oldest to the newest."""
    return {
        row["release"]: IreeRuntime(
            row["release"],
            (row["bytecode"][0], row["bytecode"][1]),
            row["vm_features"],
            row["modules"],
            (row["vulkan"] or {}).get("api"),
            frozenset((row["vulkan"] or {}).get("features", ())),
        )
        for row in rows("iree_runtimes.json")
    }


def _line(release: str) -> list[str]:
    """Return the X.Y of a release, split."""
    return release.split(".")[:2]
