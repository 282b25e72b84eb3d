"""`aotc inspect`: what is in a bundle, trusted or not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import output
from aotc.cli.boundaries import boundary_lines
from aotc.cli.verb import FilePath, format_option, trust, trust_option, verb
from aotc.core.json_values import JsonObject
from aotc.errors import AotcError, VerificationError

if TYPE_CHECKING:
    from aotc.artifacts.call_guards import CallGuard
    from aotc.artifacts.manifest import EntryPoint, Leaf, Manifest
    from aotc.artifacts.trust import Trust

_MOST_GUARDS = 40  # of an entry, in a table


@verb(
    "aotc inspect model-1.0.0.aotc",
    "aotc inspect model-1.0.0.aotc --format json",
    "aotc inspect model-1.0.0.aotc --kernels --target x86_64-v4",
)
@click.argument("bundle", type=FilePath())
@trust_option()
@click.option(
    "--kernels", is_flag=True, help="Show the kernels of each variant instead."
)
@click.option("--target", metavar="VARIANT", help="Only those of this variant.")
@click.option("--entry", help="Only those that this entry calls.")
@format_option()
def inspect(
    bundle: str,
    keys: tuple[str, ...],
    kernels: bool,
    target: str | None,
    entry: str | None,
    form: str,
) -> None:
    """Show the entries, variants, weights and signer of BUNDLE.

    GUARDS are what each call is held to before anything runs, under the names that
    errors and counters give them, with the lines of the model that declare them.

    This also works for a bundle that is damaged or from a stranger, and says so. It
    checks the signature and not the content of large files; `verify` checks all.

    With --kernels it shows what aotc's own kernels compute: their ops, schedules, work,
    the time that a model of a processor's core expects, and the lines of the source;
    and which products are left to IREE's code generation, and why.
    """
    if (target or entry) and not kernels:
        raise click.UsageError("--target and --entry need --kernels")
    manifest, verdict = _read(bundle, trust(keys))
    if kernels:
        _show_kernels(manifest, verdict, target, entry, form)
        return
    document = {
        "schema": "aotc.inspect/1",
        "verification": verdict,
        "guards": {
            name: [guard.to_json() for guard in guards]
            for name, guards in _guards(manifest).items()
        },
        "profiles": _profiles(manifest),
        "manifest": manifest.data,
    }
    output.emit(document, _render(manifest, verdict), form)


def _show_kernels(
    manifest: Manifest,
    verdict: dict[str, object],
    target: str | None,
    entry: str | None,
    form: str,
) -> None:
    """Print the kernels of a bundle's variants, of one target or entry if asked for."""
    from aotc.cli.kernels import KernelTable

    _require_one_of("--target", target, list(manifest.variants))
    _require_one_of("--entry", entry, list(manifest.entry_points))
    variants = [v for v in manifest.variants.values() if target in (None, v.id)]
    exports = None if entry is None else manifest.entry_points[entry].exports
    tables = [KernelTable(variant, exports) for variant in variants]
    document = {
        "schema": "aotc.inspect-kernels/1",
        "verification": verdict,
        "variants": [each.to_json() for each in tables],
    }
    title = f"{manifest.name} {manifest.version}, signature {_signature(verdict)}"
    text = "\n\n".join([title, *(each.to_text() for each in tables)])
    output.emit(document, text, form)


def _require_one_of(option: str, given: str | None, known: list[str]) -> None:
    """Raise a usage error if a given option value is not among the known ones."""
    if given is not None and given not in known:
        raise click.UsageError(
            f"expected one of {', '.join(known)} for {option}; got {given!r}"
        )


def _read(path: str, trust: Trust) -> tuple[Manifest, dict[str, Any]]:
    """Return a bundle's manifest and the verdict on its signature, which may be bad."""
    from aotc.artifacts import files, strict_json
    from aotc.artifacts.manifest import FILE, Manifest
    from aotc.artifacts.pack import read_bundle

    error: AotcError | None = None
    try:
        bundle = read_bundle(path, trust, allow_unsigned=True)
        manifest, key = bundle.manifest, bundle.key_id
    except VerificationError as problem:
        if problem.code == "manifest-missing":
            raise
        error = problem
        with files.open_root(Path(path)) as root:
            raw = files.read_small(root, FILE, strict_json.SIZE_LIMIT)
        manifest, key = Manifest.read(raw), None
    verdict = {
        "verified": key is not None,
        "key_id": key,
        "error": error.to_json() if error else None,
    }
    return manifest, verdict


def _render(manifest: Manifest, verdict: dict[str, object]) -> str:
    """Return all sections on a bundle as text for people."""
    maker = manifest.data["toolchain"].get("aotc", "unknown")
    lines = [
        f"{manifest.name} {manifest.version} ({manifest.channel})",
        f"signature  {_signature(verdict)}",
        f"identity   sha256:{manifest.identity}",
        f"compiler   aotc {maker}, IREE {manifest.compiler_version}",
        *_source(manifest.data.get("source", {})),
    ]
    sections = [
        "\n".join(lines),
        _section("ENTRIES", [_entry(e) for e in manifest.entry_points.values()]),
        _section("SIZES", _symbols(manifest)),
        _guard_table(manifest),
        _section("STATES", _states(manifest)),
        _section("BOUNDARIES", _boundaries(manifest)),
        _variants(manifest),
        _memory(manifest),
        _section("PRECISION", _precision(manifest)),
        _section("PARITY", _parity(manifest.data.get("parity", []))),
        _section("SELF-CHECK", _self_check(manifest.data.get("self_check", []))),
        _files(manifest),
    ]
    return "\n\n".join(section for section in sections if section)


def _source(source: JsonObject) -> list[str]:
    """Return lines on the bundle's source, and the share of it that is in the graph."""
    counts = source.get("coverage")
    if not counts:
        return []
    return [
        f"source     {source.get('file')} ({source.get('kind')}): {counts['ops']} ops, "
        f"{counts['captured']} captured, {counts['folded']} computed while importing"
    ]


def _boundaries(manifest: Manifest) -> list[str]:
    """Return lines on the Python code between the entries of a hybrid program."""
    hybrid = manifest.data.get("hybrid")
    return boundary_lines(hybrid) if hybrid else []


def _precision(manifest: Manifest) -> list[str]:
    """Return lines on the quantisation recipe of the layers and its measured
    quality.
    """
    from aotc.artifacts.precision import lines_of

    return lines_of(manifest.data)


def _parity(rows: list[dict[str, Any]]) -> list[str]:
    """Return lines on the largest error of each entry compared with its source
    framework.
    """
    return [
        f"{row['entry']} on {row['target']}: error at most "
        f"{max((each['error'] for each in row['outputs']), default=0.0):.1e} of "
        f"{row['framework']}"
        for row in rows
    ]


def _rounded(ulp: float) -> str:
    """Format a bound in ulp, with an exponent only from 10,000 on."""
    return f"{ulp:.0f}" if ulp < 1e4 else f"{ulp:.0e}"


def _self_check(rows: list[dict[str, Any]]) -> list[str]:
    """Return lines on which code of each entry was compared with the reference
    evaluator.
    """
    from aotc.artifacts.checked import RUN_BY, sizes_text

    lines = []
    for row in rows:
        title, count = f"{row['entry']} on {row['target']}", len(row["checked"])
        below, blocks = row["error_below"], row.get("blocks")
        if count or blocks:
            found = f"error < {below:.0e}" if below else "equal"
            if ulp := row.get("ulp_below", 0.0):  # earlier versions do not tell
                found += f", < {_rounded(ulp)} ulp"
            if moved := row.get("rounding_ulp_below", 0.0):
                found += f" (rounding makes < {_rounded(moved)})"
            by = f" by {RUN_BY[row['by']]}" if "by" in row else ""
            times = _blocks(blocks) if blocks else f"{count} x checked"
            lines.append(f"{title}: {times}{by}, {found}")
        reasons: dict[str, list[dict[str, int]]] = {}
        for each in row["unchecked"]:
            reasons.setdefault(each["why"], []).append(each["sizes"])
        for why, sizes in reasons.items():
            lines.append(f"{title}: NOT CHECKED{sizes_text(sizes)}: {why}")
        if kernels := row.get("kernels"):
            lines.append(
                f"{title}: {kernels['evaluated']:,} of {kernels['programs']:,} "
                f"programs of kernels evaluated, in {kernels['launches']} launches"
            )
    return lines


def _blocks(row: dict[str, int]) -> str:
    """Return text on how many of an entry's blocks (runs of ops, such as layers) were
    compared.
    """
    text = (
        f"{row['compared']} of {row['blocks']} blocks checked "
        f"({row['operations']} % of the operations)"
    )
    if not row.get("repeated"):  # earlier versions do not tell
        return text
    share = row["repeated_operations"]
    return f"{text} and {row['repeated']} by their code and weights ({share} %)"


def _signature(verdict: JsonObject) -> str:
    """Return the verdict on the signature as text."""
    if verdict["verified"]:
        return f"good, key {verdict['key_id']}"
    if verdict["error"]:
        return f"NOT VERIFIED: {verdict['error']['message']}"
    return "NOT VERIFIED: the bundle is not signed"


def _section(title: str, lines: list[str]) -> str:
    """Return a titled, indented section; empty without lines."""
    return "\n".join([title, *(f"  {line}" for line in lines)]) if lines else ""


def _entry(entry: EntryPoint) -> str:
    """Return an entry's signature as text, with states and devices."""
    inputs, outputs = _leaves(entry.inputs), _leaves(entry.outputs)
    uses = [f"reads {name}" for name in entry.reads]
    uses += [f"updates {name}" for name in entry.updates]
    if entry.devices is not None:
        uses.append(f"{entry.devices.count} devices along '{entry.devices.axis}'")
    notes = f"  [{', '.join(uses)}]" if uses else ""
    return f"{entry.name}({inputs}) -> {outputs}{notes}"


def _sizes(sizes: Mapping[str, int]) -> str:
    """Format sizes: `batch 4, length 128`."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def _leaves(leaves: tuple[Leaf, ...]) -> str:
    """Format inputs or outputs as `name: type`."""
    return ", ".join(f"{leaf.name}: {leaf}" for leaf in leaves)


def _symbols(manifest: Manifest) -> list[str]:
    """Return lines on the bounds of each symbolic size, and on specialized sizes."""
    lines = []
    for name, symbol in manifest.symbols.items():
        limit = "no limit" if symbol.max is None else str(symbol.max)
        step = f", multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        policy = f", {symbol.policy}" if symbol.policy != "dynamic" else ""
        usual = "" if symbol.optimum is None else f", mostly {symbol.optimum}"
        lines.append(f"{name}: {symbol.min} to {limit}{step}{policy}{usual}")
    for entry in manifest.entry_points.values():
        lines += [
            f"{entry.name}: {'padded' if each.padded else 'specialized'} for {each}"
            for each in entry.specializations
        ]
    return lines


def _guards(manifest: Manifest) -> dict[str, list[CallGuard]]:
    """Return the guards that calls of each entry must pass."""
    from aotc.artifacts.call_guards import call_guards

    return {
        name: call_guards(entry, manifest.symbols)
        for name, entry in manifest.entry_points.items()
    }


def _guard_table(manifest: Manifest) -> str:
    """Return the table of guards, only the first ones of each entry."""
    rows = []
    for entry, guards in _guards(manifest).items():
        rows += [(entry, x.name, x.rule, x.where) for x in guards[:_MOST_GUARDS]]
        if rest := guards[_MOST_GUARDS:]:
            rows.append((entry, f"and {len(rest)} more", "see --format json", ""))
    return output.table(("GUARDS", "NAME", "RULE", "DECLARED AT"), rows)


def _states(manifest: Manifest) -> list[str]:
    """Return lines on the states: name and number of arrays."""
    return [
        f"{state.name}: {output.quantity(len(state.leaves), 'array')}"
        for state in manifest.states.values()
    ]


def _variants(manifest: Manifest) -> str:
    """Return the table of variants: backend, size and executable formats."""
    rows = [
        (
            variant.id,
            variant.backend,
            output.size(manifest.files[variant.file].size),
            ", ".join(variant.runtime_abi.get("executable_formats", [])),
        )
        for variant in manifest.variants.values()
    ]
    return output.table(("VARIANT", "BACKEND", "SIZE", "FORMAT"), rows)


def _profiles(manifest: Manifest) -> list[JsonObject]:
    """Return the memory plans of calls as JSON, one for each variant, entry and
    code.
    """
    return [
        {
            "variant": variant.id,
            "entry": entry.name,
            "code": str(code),
            "sizes": plan.get("sizes", {}),
            "resident_bytes": plan.get("resident_bytes"),
            "peak_bytes": plan.get("peak_bytes"),
            # bundles of earlier versions have plans of the greatest sizes alone
            "bound": plan.get("bound", "tried" if plan.get("sizes") else "exact"),
        }
        if (plan := variant.memory.get(code.export))
        else {
            "variant": variant.id,
            "entry": entry.name,
            "code": str(code),
            "peak_bytes": None,
            **variant.memory_unknown.get(code.export, {"why": "not recorded"}),
        }
        for variant in manifest.variants.values()
        for entry in manifest.entry_points.values()
        for code in entry.codes
    ]


def _memory(manifest: Manifest) -> str:
    """Return the table of peak memory of calls."""
    rows = [
        (
            each["variant"],
            each["entry"],
            each["code"],
            _sizes(each.get("sizes", {})),
            *_bytes_of(each),
        )
        for each in _profiles(manifest)
    ]
    head = ("MEMORY", "ENTRY", "CODE FOR", "MOST AT", "BETWEEN CALLS", "PEAK")
    return output.table(head, rows)


_BOUNDS = {"exact": "", "upper": "at most ", "tried": "of sizes tried, "}


def _bytes_of(profile: JsonObject) -> tuple[str, str]:
    """Return the bytes between calls and the peak bytes of a call, as text."""
    if profile["peak_bytes"] is None:
        names = ", ".join(profile.get("unlimited", ()))
        return "", f"no limit: {names}" if names else f"unknown: {profile['why']}"
    peak = output.size(profile["peak_bytes"])
    resident = output.size(profile["resident_bytes"])
    return resident, f"{_BOUNDS[profile['bound']]}{peak}"


def _files(manifest: Manifest) -> str:
    """Return the table of files: role, size and digest."""
    rows = [
        (file.path, file.role, output.size(file.size), file.sha256[:16])
        for file in manifest.files.values()
    ]
    return output.table(("FILE", "ROLE", "SIZE", "SHA256"), rows)
