"""`aotc explain`: what would become of a model, before it is built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli import output
from aotc.cli.boundaries import boundary_lines, bundle_in
from aotc.cli.build import source_and_entries, targets_option
from aotc.cli.sarif import sarif
from aotc.cli.verb import FilePath, format_option, trust, verb
from aotc.machine.target import Target

if TYPE_CHECKING:
    from aotc.explain import Explanation, OpFinding

_TITLES = {
    "unsupported": "UNSUPPORTED: a build would end with these",
    "decomposed": "DECOMPOSED: made into several simpler ops",
    "approximated": "APPROXIMATED: computed in another way than the source says",
    "without-kernel": "WITHOUT KERNEL: left to the code generation of IREE",
    "not-padded": "NOT PADDED: computed in the sizes of a call, in padded entries",
}
_PLACES_SHOWN = 5


@verb(
    "aotc explain resnet.onnx",
    "aotc explain model.py:predict --target cuda:sm_89 --target vulkan",
    "aotc explain bert.pt2 --format json",
    "aotc explain model.py --format sarif > explain.sarif",
    "aotc explain retrieval/",
)
@click.argument("source", metavar="SOURCE[:ENTRY]", type=FilePath())
@targets_option()
@format_option("text", "json", "sarif")
@click.pass_context
def explain(
    context: click.Context, source: str, targets: tuple[Target, ...], form: str
) -> None:
    """List every op of SOURCE that is unsupported, decomposed or approximated.

    It also lists the products that no kernel of aotc's own computes, and why. The
    model is imported and taken through all passes, but not compiled. The exit code
    is 0 if a build would succeed as far as that tells, else 1.

    Of the package of a hybrid program, or its bundle, it lists what Python computes
    between compiled regions: the line, the reason, bytes and synchronizations.
    """
    if (bundle := bundle_in(Path(source))) is not None:
        _explain_bundle(bundle, form)
        return
    from aotc.explain import explain

    path, entries = source_and_entries(source)
    found = explain(path, entries, targets)
    if form == "sarif":
        document, form = sarif(found), "json"
    else:
        document = {"schema": "aotc.explain/1", **found.to_json()}
    output.emit(document, _render(found), form)
    context.exit(0 if found.builds else 1)


def _explain_bundle(path: Path, form: str) -> None:
    """Print the Python boundaries of a hybrid program; raise for a bundle without
    any.
    """
    from aotc.artifacts.pack import read_bundle

    if form == "sarif":
        raise click.UsageError("expected a model for --format sarif; got a bundle")
    manifest = read_bundle(path, trust(()), allow_unsigned=True).manifest
    hybrid = manifest.data.get("hybrid", {})
    breaks, boundaries = hybrid.get("graph_breaks", 0), hybrid.get("boundaries", [])
    document = {
        "schema": "aotc.explain-bundle/1",
        "bundle": str(path),
        "graph_breaks": breaks,
        "boundaries": boundaries,
    }
    lines = [f"{manifest.name} {manifest.version}: {breaks} graph breaks"]
    if hybrid:
        lines += ["", "ISLANDS: computed by Python, between compiled regions"]
        lines += [f"  {line}" for line in boundary_lines(hybrid)]
    output.emit(document, "\n".join(lines), form)


def _render(explanation: Explanation) -> str:
    """Return an explanation as text: coverage, then findings by kind."""
    counts, named = explanation.coverage, ", ".join(map(str, explanation.targets))
    verdict = "can be built" if explanation.builds else "CANNOT be built"
    lines = [
        f"{explanation.source} {verdict} for {named}",
        f"{output.quantity(counts['ops'], 'op')}: {counts['captured']} captured, "
        f"{counts['folded']} computed while importing; "
        f"{output.quantity(counts['graph_ops'], 'op')} in the graph",
    ]
    for kind, title in _TITLES.items():
        of_kind = [each for each in explanation.findings if each.kind == kind]
        if of_kind:
            lines += ["", title]
            lines += [line for each in of_kind for line in _lines(each)]
    return "\n".join(lines)


def _lines(finding: OpFinding) -> list[str]:
    """Return the lines on one finding: op, reason, places and help."""
    places = list(dict.fromkeys(filter(None, finding.places)))
    hidden = len(places) - _PLACES_SHOWN
    more = [f"and {output.quantity(hidden, 'other place')}"] if hidden > 0 else []
    lines = [f"  {finding.op} ({finding.count}×): {finding.reason}"]
    if places:
        lines.append(f"      at {', '.join([*places[:_PLACES_SHOWN], *more])}")
    return lines + ([f"      help: {finding.help}"] if finding.help else [])
