"""`aotc compat`: which artifact runs on which device, asked before a rollout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli import output
from aotc.cli.compat_options import FleetChoice, fleet_options, policy_options
from aotc.cli.verb import FilePath, OutputFile, format_option, trust, trust_option, verb
from aotc.errors import VerificationError

if TYPE_CHECKING:
    from aotc.artifacts.rollout.matrix import Artifact
    from aotc.artifacts.rollout.policy import Policy


@verb(
    "aotc compat digits-1.0.0.aotc --devices fleet/",
    "aotc compat digits-1.0.0.aotc --device jetson-orin --device raspberry-pi-5",
    "aotc compat *.aotc --devices fleet.json --min-coverage 99% --per-label site",
    "aotc compat digits-1.0.0.aotc --devices fleet.json --cure",
    "aotc compat digits-1.0.0.aotc --self",
    "aotc compat *.aotc --devices fleet.json --format html -o matrix.html",
)
@click.argument("bundles", nargs=-1, required=True, type=FilePath())
@fleet_options()
@policy_options()
@click.option(
    "--cure",
    is_flag=True,
    help="Name the fewest targets that would cover the fleet as asked.",
)
@click.option("-o", "--output", "file", type=OutputFile(), help="Write to this file.")
@trust_option()
@click.option("--allow-unsigned", is_flag=True, help="Judge bundles without signature.")
@format_option("text", "json", "markdown", "html", "junit", "sarif")
def compat(
    bundles: tuple[str, ...],
    fleet: FleetChoice,
    policy: Policy,
    cure: bool,
    file: Path | None,
    keys: tuple[str, ...],
    allow_unsigned: bool,
    form: str,
) -> None:
    """Tell which of BUNDLES run on which devices, by the rules of the loader.

    Works offline, from what bundles and profiles of devices say. Exits with 0 if the
    devices are covered as asked, with 1 if not, with 2 if something is malformed, and
    with 4 if a bundle is not trusted.
    """
    from aotc.artifacts.rollout.device_classes import classes
    from aotc.artifacts.rollout.matrix import matrix
    from aotc.artifacts.rollout.report import report
    from aotc.cli.compat_forms import render
    from aotc.core.writing import atomic_write

    if file:
        _require_distinct_output(file, [*map(str, fleet.fleets), *fleet.device_keys])
    artifacts = [
        _artifact(bundle, keys, allow_unsigned) for bundle in _distinct(bundles)
    ]
    found = matrix(artifacts, classes(fleet.devices()))
    document = report(found, policy, cure=cure)
    text = render(document, form)
    if file:
        text = click.unstyle(text)
        with atomic_write(file) as aside:
            aside.write_text(text + "\n", encoding="utf-8")
    else:
        output.print_form(text, form)
    if not document["passed"]:
        raise click.exceptions.Exit(1)


def _require_distinct_output(file: Path, inputs: Sequence[str]) -> None:
    """Raise if the output file is one of the inputs."""
    for given in inputs:
        if file.exists() and os.path.exists(given) and file.samefile(given):
            raise click.UsageError(f"--output names {file}, which is read here")


def _distinct(bundles: Sequence[str]) -> list[str]:
    """Return the bundle paths without duplicates, each by its first spelling."""
    places: dict[str, str] = {}
    for bundle in bundles:
        places.setdefault(os.path.realpath(bundle), bundle)
    return list(places.values())


def _artifact(path: str, keys: tuple[str, ...], allow_unsigned: bool) -> Artifact:
    """Read and verify a bundle; return it as an artifact of the compatibility
    matrix.
    """
    from aotc.artifacts.pack import read_bundle, retry_if_replaced
    from aotc.artifacts.rollout.matrix import Artifact

    try:
        bundle = retry_if_replaced(
            path, lambda: read_bundle(path, trust(keys), allow_unsigned)
        )
    except VerificationError as error:
        is_file = error.where and os.path.normpath(error.where) != os.path.normpath(
            path
        )
        if error.where and is_file:  # of which of the bundles?
            error.where = os.path.join(path, error.where)
        raise
    return Artifact(path, bundle.manifest)
