"""Write docs/compatibility-tables.md: the tables of `artifacts/tables/` for people.

python docs/list_tables.py [--write]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from aotc.artifacts import tables
from aotc.artifacts.tables import reading
from aotc.artifacts.tables.devices import KINDS

PAGE = Path(__file__).with_name("compatibility-tables.md")
INTRODUCTION = """\
# Compatibility tables

What the loader knows of runtimes, drivers and devices when it judges whether a variant
runs. Every row comes from a source, which stands below its table; what is in no table
is unknown, and what is unknown is `not_applicable`, never taken for good.
`python docs/list_tables.py --write` makes this page of the files in
`artifacts/tables/`.
"""


def table(header: str, rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """A table in Markdown; `header` has its columns, divided by `|`."""
    columns = header.split("|")
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"


def sources(name: str) -> Iterator[str]:
    """Return what the rows of a file cite, or how it is made."""
    document = reading.document(name)
    yield ""
    if "command" in document:
        yield f"Made by `{document['command']}`."
    cited = document.get("sources", {})
    yield from (f"- Source: {text}." for text in cited.values())


def runtimes() -> Iterator[str]:
    """The releases of IREE's runtime, and what ran under them."""
    yield from ("", "## Releases of the IREE runtime", "")
    runs = {row["runtime"]: row for row in reading.rows("iree_runs.json")}
    yield from table(
        "release|bytecode|VM features|`hal`|Vulkan|Pythons on Linux|bundles of 3.13",
        (
            (
                row["release"],
                ".".join(map(str, row["bytecode"])),
                f"{row['vm_features']:#x}",
                row["modules"]["hal"],
                (row["vulkan"] or {"api": "not known"})["api"],
                ", ".join(row["python_tags"]),
                ran(runs.get(row["release"])),
            )
            for row in reading.rows("iree_runtimes.json")
        ),
    )
    yield from sources("iree_runtimes.json")
    yield (
        "Asked of the wheel of CPython 3.11 on Linux, and up to 3.11 compared with "
        "IREE's sources at the wheel's revision; the digests are in the file."
    )
    yield from sources("iree_runs.json")
    yield (
        "The last column says what happened to bundles of this compiler by backend: "
        "`right` are results that equal those under its own release, byte for byte."
    )


def trials() -> Iterator[str]:
    """Describe how verdicts were compared with what happens."""
    yield from (
        "",
        "## Verdicts, and what happens",
        "",
        "Two commands load and call bundles without asking for the verdict, and",
        "compare. A contradiction is a variant that is approved and does not give the",
        "right numbers; under another release of the runtime, also one that is refused",
        "although nothing of its kind is known to fail there.",
        "",
    )
    levels = "all x86-64 levels and vmvx on five processors that QEMU emulates"
    yield from table(
        "command|what it tries|outcomes|contradictions",
        (
            (
                "`python -m benchmarks.compat.sweep`",
                "three bundles for x86-64 and vmvx under all releases above",
                90,
                0,
            ),
            (
                "`python -m benchmarks.compat.cpu_levels`",
                f"{levels}, three of them with AVX2 and none with AVX-512",
                20,
                0,
            ),
        ),
    )
    yield from (
        "",
        "Releases up to 3.11 refuse such modules with a message of IREE's. 3.12 has",
        "all the versions that they need and runs most of them rightly, but some calls",
        "fail there (`OUT_OF_RANGE` in a command buffer), so it stays refused. No",
        "release gave wrong numbers.",
    )


def ran(row: dict[str, Any] | None) -> str:
    """Return the outcomes of bundles under a release."""
    outcomes = row["outcomes"].items() if row else ()
    return ", ".join(f"{backend} {truth}" for backend, truth in outcomes) or "not run"


def gpus() -> Iterator[str]:
    """PTX, families of compute capabilities, and AMD processors."""
    yield from ("", "## CUDA", "")
    yield from table(
        "PTX ISA|first CUDA driver API|first Linux driver of that CUDA release",
        (
            (row["ptx_isa"], row["driver_api"], row["linux_driver"] or "not known")
            for row in reading.rows("ptx.json")
        ),
    )
    yield from sources("ptx.json")
    yield from (
        "",
        "PTX for `sm_80` runs on every device of compute capability 8.0 or higher,",
        "that for `sm_90a` on 9.0 only, and that for a family on its devices:",
        "",
    )
    yield from table(
        "target|devices",
        (
            (row["target"], ", ".join(row["devices"]))
            for row in reading.rows("sm_families.json")
        ),
    )
    yield from sources("sm_families.json")
    yield from (
        "",
        "## ROCm",
        "",
        "A code object loads on the processor that it was made for, and one for a",
        "generic processor on these:",
        "",
    )
    yield from table(
        "generic processor|processors",
        (
            (row["generic"], ", ".join(row["processors"]))
            for row in reading.rows("gfx.json")
        ),
    )
    yield from sources("gfx.json")


def vulkan() -> Iterator[str]:
    """The Vulkan version that drivers have, by chip."""
    yield from (
        "",
        "## Vulkan",
        "",
        "For these GPUs there is a driver with Vulkan of that version, so that a newer",
        "driver is a cure; for others nobody knows.",
        "",
    )
    yield from table(
        "GPUs|Vulkan",
        ((chip_range(row), row["api"]) for row in reading.rows("vulkan_drivers.json")),
    )
    yield from sources("vulkan_drivers.json")


def chip_range(row: dict[str, Any]) -> str:
    """The chips of a row, in words."""
    kind = {"sm_": "compute capability `sm_{}`", "gfx": "GFX{}"}[row["chips"]]
    last = f" to {row['last']}" if row["last"] else " and newer"
    without = f", without {', '.join(row['except'])}" if row["except"] else ""
    return kind.format(row["first"]) + last + without


def levels() -> Iterator[str]:
    """The levels of CPU architectures."""
    yield from ("", "## Levels of CPUs", "")
    yield from table(
        "level|features, by LLVM's names|and, which no probe sees",
        (
            (
                row["level"],
                ", ".join(row["features"]),
                ", ".join(row.get("unseen", ())),
            )
            for row in reading.rows("cpu_levels.json")
        ),
    )
    yield from sources("cpu_levels.json")


def devices() -> Iterator[str]:
    """The common devices, by kind."""
    yield from (
        "",
        "## Common devices",
        "",
        "A profile has the features of the weakest core and the memory of the smallest",
        "edition. Versions of drivers are of an installation and not of a device, so",
        "they are unknown here.",
    )
    for kind, title in KINDS.items():
        found = [each for each in tables.devices().values() if each.kind == kind]
        yield from ("", f"### {title}", "")
        yield from table(
            "name|device|CPU|GPU|memory|note", (described(each) for each in found)
        )
    yield from sources("devices.json")
    yield from sources("processors.json")


def described(each: tables.DeviceTableRow) -> tuple[str, ...]:
    """A device as a row."""
    profile = each.profile
    arch, features = profile["arch"], profile["cpu"]["features"]
    level = tables.highest_level(arch, features) if arch else None
    names = ", ".join(f"`{name}`" for name in (each.id, *each.aliases))
    return names, each.name, level or "", chips(profile), memory(profile), each.notes


def chips(profile: dict[str, Any]) -> str:
    """Return the chips that the GPU's code is made for."""
    found = [
        gpu.get("sm") or gpu.get("gfx")
        for driver in ("cuda", "rocm")
        for gpu in (profile[driver] or {"devices": ()})["devices"]
    ]
    return ", ".join(found + (["Vulkan"] if profile["vulkan"] else []))


def memory(profile: dict[str, Any]) -> str:
    """Return the memory of the computer, or of its GPU if that is apart."""
    gpu = profile["cuda"] or profile["rocm"] or {"devices": ({"memory_bytes": None},)}
    size = profile["memory"]["total_bytes"] or gpu["devices"][0]["memory_bytes"]
    return f"{size / 2**30:g} GiB" if size else ""


def page() -> str:
    """The whole page."""
    parts = (runtimes(), trials(), gpus(), vulkan(), levels(), devices())
    lines = [line for part in parts for line in part]
    return INTRODUCTION + "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
