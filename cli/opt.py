"""`aotc opt`: IR in, passes, IR out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import output
from aotc.cli.verb import FilePath, OutputFile, verb
from aotc.core.writing import write_text
from aotc.errors import InputError
from aotc.errors.system import raise_system_error

if TYPE_CHECKING:
    from aotc.passes.base import PassRecord


@verb(
    "aotc opt model.mlir --passes autodiff,inline,simplify,cse --readable",
    "aotc opt ir/graph.mlir --passes optimized,linalg",
    "aotc build model.py --dump ir && aotc opt ir/graph.mlir --verify-only",
)
@click.argument("file", metavar="FILE.mlir", type=FilePath(allow_dash=True))
@click.option(
    "--passes",
    default="",
    help="Passes to run, with commas between; a stage stands for its passes.",
)
@click.option(
    "-o",
    "--output",
    "output_file",
    type=OutputFile(),
    help="Write the IR here instead of to standard output.",
)
@click.option(
    "--timing", is_flag=True, help="Print the time of each pass on standard error."
)
@click.option("--readable", is_flag=True, help="Print graph IR in the form for people.")
@click.option("--verify-only", is_flag=True, help="Check the IR and print nothing.")
def opt(
    file: str,
    passes: str,
    output_file: Path | None,
    verify_only: bool,
    timing: bool,
    **choices: Any,
) -> None:
    """Run compiler passes over the IR in FILE.mlir; `-` reads standard input.

    The IR names the file of its parameters by a path from its own folder: with -o from
    that of the new file, on standard output still from that of FILE.mlir.
    """
    text = _read(file)
    from aotc import pipeline

    choices["finished"] = _tell_time if timing else None
    if output_file:
        source = Path() if file == "-" else Path(file).parent
        choices["folders"] = source, output_file.parent
    try:
        result = pipeline.optimize(text, "" if verify_only else passes, **choices)
    except InputError as error:
        if error.code == "bad-ir":
            error.where = error.where or file
        raise
    if verify_only:
        return
    if output_file:
        write_text(output_file, result)
    else:
        output.print_answer(result, nl=not result.endswith("\n"))


def _tell_time(record: PassRecord) -> None:
    """Print a pass's time to standard error, and whether it changed the IR."""
    changed = "changed" if record.changed else "unchanged"
    click.echo(f"{record.name}: {record.seconds * 1e3:.1f} ms, {changed}", err=True)


def _read(file: str) -> str:
    """Read a file of IR, or standard input for `-`."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no-such-file", "there is no such file", where=file) from None
    except UnicodeDecodeError:
        raise InputError(
            "bad-file",
            "cannot read IR: it is no text",
            where=file,
            hint="`aotc build model.py --dump ir` writes IR of each stage",
        ) from None
    except OSError as error:
        raise_system_error(error, file)
        raise InputError("bad-file", f"cannot read IR: {error}", where=file) from None
