"""docs/examples-on-devices.md: the matrix of the examples on the shipped devices.

Each pair is judged twice: with what the table of devices knows, and with drivers as new
as the code needs. Examples that fare alike on every device share a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import shorten
from typing import Any

from aotc.artifacts import tables
from aotc.artifacts.compat import release_of
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.rollout.device_classes import DeviceClass, FleetDevice
from aotc.artifacts.rollout.matrix import Artifact, matrix
from aotc.artifacts.rollout.policy import Policy
from aotc.artifacts.rollout.profiles import Assumptions, named_profile
from aotc.artifacts.rollout.report import report
from aotc.artifacts.selection import on_cpu
from aotc.artifacts.tables.devices import KINDS

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Matrix:
    """The verdicts of compatibility on all examples and devices, from examples.json's
    rows.

    Args:
        rows: of examples.json.
    """

    rows: Sequence[Json]

    @cached_property
    def artifacts(self) -> list[Artifact]:
        """An artifact with the manifest of each example."""
        return [Artifact(r["example"], Manifest(r["manifest"])) for r in self.rows]

    @cached_property
    def devices(self) -> list[tables.DeviceTableRow]:
        """All devices of the table, by kind."""
        found = tables.devices().values()
        return sorted(found, key=lambda each: list(KINDS).index(each.kind))

    @cached_property
    def runtime(self) -> str:
        """The assumed release of IREE on devices: the compiler's own."""
        return max(release_of(a.manifest.compiler_version) for a in self.artifacts)

    @cached_property
    def drivers(self) -> Assumptions:
        """Drivers that are as new as the code and IREE's runtime need."""
        needs = [
            variant.target.get("min_cuda_driver_api", 0)
            for artifact in self.artifacts
            for variant in artifact.manifest.variants.values()
        ]
        release = tables.iree_runtime(self.runtime)
        assert release is not None
        return Assumptions(self.runtime, max(needs), release.vulkan_api)

    @cached_property
    def known(self) -> Json:
        """The verdicts with the drivers that the table of devices knows."""
        return self._judged(Assumptions(self.runtime))

    @cached_property
    def best(self) -> Json:
        """The verdicts with drivers as new as needed."""
        return self._judged(self.drivers)

    def _judged(self, facts: Assumptions) -> Json:
        """Return the verdicts on all artifacts and devices under these assumptions."""
        found = []
        for each in self.devices:
            profile = named_profile(each.id, facts, None)
            found.append(
                DeviceClass(each.id, profile, (FleetDevice(each.id, profile),))
            )
        return report(matrix(self.artifacts, found), Policy(), cure=True)

    def cell(self, document: Json, example: int, device: int) -> Json:
        """Return a document's verdict on an example on a device, both by number."""
        found: Json = document["cells"][example * len(self.devices) + device]
        assert (found["artifact"], found["class"]) == (example, device)
        return found

    @cached_property
    def columns(self) -> list[list[int]]:
        """The examples, grouped by equal verdicts on every device."""
        alike: dict[tuple[str, ...], list[int]] = {}
        for example in range(len(self.artifacts)):
            words = tuple(self.words(example, d) for d in range(len(self.devices)))
            alike.setdefault(words, []).append(example)
        return sorted(alike.values(), key=lambda column: -len(column))

    def words(self, example: int, device: int) -> str:
        """Return a cell of the page: verdict and variant, and the driver assumption
        behind it.
        """
        best = self.cell(self.best, example, device)
        known = self.cell(self.known, example, device)
        if (best["verdict"], best["variant"]) == (known["verdict"], known["variant"]):
            return _verdict(best)
        return f"{_verdict(best)}\\*, else {_verdict(known)}"

    def examples_of(self, column: Sequence[int]) -> str:
        """Return the names of the examples of a column."""
        return ", ".join(self.artifacts[number].path for number in column)

    @cached_property
    def titles(self) -> list[str]:
        """A title for each column; the longest is that of the examples not named."""
        first, *others = map(self.examples_of, self.columns)
        return ["all others" if others else first, *others]


def _verdict(cell: Json) -> str:
    """Return a cell's mark with its variant, or with the reason against it."""
    if cell["accepted"]:
        return f"✓ `{cell['variant']}`"
    if cell["variant"]:
        return f"✗ `{cell['variant']}`: too little memory"
    return "✗" if cell["verdict"] == "unsupported" else "?"


def page(rows: Sequence[Json], missing: Sequence[str] = ()) -> str:
    """Return the lines of the whole page.

    Args:
        rows: of examples.json.
        missing: examples that have no row.
    """
    it = Matrix(rows)
    parts = (
        _head(it),
        _glance(it),
        *_kinds(it),
        _reasons(it),
        _refusals(it, missing),
        _cures(it),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(it: Matrix) -> Iterator[str]:
    """Yield the introduction of the page."""
    cuda = it.drivers.cuda_driver_api or 0
    targets = dict.fromkeys(
        f"`{variant.target['name']}`"
        for artifact in it.artifacts
        for variant in artifact.manifest.variants.values()
    )
    yield f"""\
# The examples on the shipped devices

Made by `python -m benchmarks.compat.examples --write`: what `aotc compat` says of the
{len(it.artifacts)} examples, each built for {", ".join(targets)}, on the
{len(it.devices)} devices of [the shipped table](compatibility-tables.md). The IREE
runtime on all of them is taken to be {it.runtime}, the compiler's release.

A cell names the variant that the loader takes:
"""
    drivers = f"CUDA {_cuda(cuda)}, Vulkan {it.drivers.vulkan_api}"
    yield from _table(
        ("cell", "meaning"),
        (
            ("✓ `a`", "runs, and was made for this device (`optimal`)"),
            (
                r"✓ `a`\*, else ✓ `b`",
                f"`a` with a driver as new as the code needs ({drivers}), and `b` "
                "with a driver of which nothing is known, as in the table",
            ),
            ("?", "unknown (`not_applicable`): of a card, in which computer it is"),
            ("✗", "does not run (`unsupported`), or needs more memory than there is"),
        ),
    )
    yield r"""
The profile of a device of yours, by `aotc doctor --format json`, states its drivers,
so that the answer for it has no \*. A column is for all examples that fare alike.
Entries are held to the memory there at their largest sizes, if those have limits.
"""


def _cuda(api: int) -> str:
    """Return a CUDA driver version, such as 12040, as text."""
    return f"{api // 1000}.{api % 1000 // 10}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    titles = list(header)
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _glance(it: Matrix) -> Iterator[str]:
    """Yield a table that counts the devices of each kind that run an example."""
    yield from (
        "## At a glance",
        "",
        "On how many devices they run with new drivers and, in brackets, with any:",
        "",
    )
    titles = ["devices", *map(it.examples_of, it.columns)]
    yield from _table(titles, (_counts(it, kind) for kind in KINDS))
    yield ""


def _counts(it: Matrix, kind: str) -> Iterator[str]:
    """Yield the cells that count the devices of a kind that run each column's
    examples.
    """
    chosen = [n for n, each in enumerate(it.devices) if each.kind == kind]
    yield f"[{KINDS[kind]}](#{KINDS[kind].lower().replace(' ', '-')}), {len(chosen)}"
    for column in it.columns:
        best, known = (
            sum(it.cell(document, column[0], device)["accepted"] for device in chosen)
            for document in (it.best, it.known)
        )
        yield f"{best} ({known})"


def _kinds(it: Matrix) -> Iterator[Iterator[str]]:
    """Yield the lines of the matrix of each kind of devices."""
    for kind in KINDS:
        yield _kind(it, kind)


def _kind(it: Matrix, kind: str) -> Iterator[str]:
    """Yield the matrix of examples and devices of one kind."""
    yield from (f"## {KINDS[kind]}", "")
    titles = ["device", *it.titles, "reasons, and what helps"]
    yield from _table(
        titles,
        (
            [
                f"{each.name} (`{each.id}`)",
                *(it.words(column[0], number) for column in it.columns),
                _notes(it, number),
            ]
            for number, each in enumerate(it.devices)
            if each.kind == kind
        ),
    )
    yield ""


def _reasons_of(it: Matrix, example: int, device: int) -> Iterator[tuple[str, str]]:
    """Yield codes and texts of why nothing runs on a device, or not on its
    accelerator.
    """
    cell = it.cell(it.best, example, device)
    variants = it.artifacts[example].manifest.variants
    found = [
        reason
        for reason in cell["reasons"]
        if reason["code"] != "no-driver"
        and (not cell["accepted"] or not on_cpu(variants[reason["variant"]]))
    ]
    # that code is for another architecture is worth a word if nothing else is
    news = [r for r in found if (r["code"], r["verdict"]) != ("arch", "unsupported")]
    for reason in news or found:
        yield reason["code"], reason["message"]
    for entry in cell["memory"]["exceed"]:
        yield "memory", f"{entry} needs more than there is at its largest sizes"


def _notes(it: Matrix, device: int) -> str:
    """Return the reason codes for a device, and the targets that would help."""
    codes: set[str] = set()
    help_: dict[str, None] = {}
    for column in it.columns:
        cell = it.cell(it.best, column[0], device)
        codes.update(code for code, _ in _reasons_of(it, column[0], device))
        refused = it.rows[column[0]]["refused"]
        advice = cell["advice"] if not cell["accepted"] else ()
        help_ |= dict.fromkeys(
            line
            for line in advice
            if "--target" in line and not any(f"{t}`" in line for t in refused)
        )
    return "; ".join([", ".join(f"`{code}`" for code in sorted(codes)), *help_])


def _reasons(it: Matrix) -> Iterator[str]:
    """Yield explanations of the reason codes, with the devices that have them."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for number, each in enumerate(it.devices):
        said: dict[str, dict[str, None]] = {}
        for column in it.columns:
            for code, words in _reasons_of(it, column[0], number):
                said.setdefault(code, {})[words] = None
        for code, messages in said.items():
            found.setdefault((code, "; ".join(messages)), {})[each.id] = None
    yield from ("## Reasons", "")
    yield from _table(
        ("code", "reason", "devices"),
        (
            (f"`{code}`", words, ", ".join(f"`{name}`" for name in names))
            for (code, words), names in sorted(found.items())
        ),
    )
    yield ""


def _refusals(it: Matrix, missing: Sequence[str]) -> Iterator[str]:
    """Yield the targets that examples cannot be compiled for, and what was not
    tried.
    """
    rows = [
        (row["example"], f"`{target}`", _shortened(why))
        for row in it.rows
        for target, why in row["refused"].items()
    ]
    rows += [(example, "all", "not tried yet") for example in missing]
    if rows:
        yield from ("## Not compiled", "")
        yield from _table(("example", "target", "why"), rows)
        yield ""


def _shortened(why: str) -> str:
    """Return the beginning of a compiler message, with its error code."""
    words, _, code = why.rpartition(" [")
    return f"`{shorten(words, 180, placeholder=' …')}` (`{code.rstrip(']')}`)"


def _cures(it: Matrix) -> Iterator[str]:
    """Yield the fewest targets that all devices need, as `aotc compat --cure` names
    them.
    """
    cure = it.best["cure"][0]
    names = [f"`{it.devices[n].id}`" for n in cure["uncovered_classes"]]
    targets = " ".join(f"--target {target}" for target in cure["targets"])
    yield f"""\
## The fewest targets

With new drivers these are the fewest that serve all devices, by `aotc compat --cure`:

```
{targets}
```"""
    if names:
        yield f"""
No target is for {", ".join(names)}. Of a card, the processor of the computer that it is
in may run what is made for processors."""
