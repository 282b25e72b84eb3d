"""The table of verbs and the entry point of the `aotc` command."""

from __future__ import annotations

import os
import sys
import warnings
from difflib import get_close_matches
from importlib import import_module

import click

from aotc import __version__
from aotc.cli import failure, output
from aotc.cli.interrupts import termination
from aotc.cli.verb import COMPLETION_VARIABLE, format_option
from aotc.core import options
from aotc.errors import redaction

# verb → (module:function, what it does); the order here is the order in the help
VERBS = {
    "build": ("aotc.cli.build:build", "Compile a model to a signed bundle."),
    "explain": (
        "aotc.cli.explain:explain",
        "Tell what of a model cannot be built, or is changed.",
    ),
    "quantize": (
        "aotc.cli.quantize:quantize",
        "Give the layers of a model narrower precisions.",
    ),
    "parity": (
        "aotc.cli.parity:parity",
        "Compare a compiled model with its source.",
    ),
    "inspect": ("aotc.cli.inspect:inspect", "Show what is in a bundle."),
    "verify": ("aotc.cli.verify:verify", "Check a bundle's signature and files."),
    "compat": (
        "aotc.cli.compat:compat",
        "Tell which bundles run on which devices.",
    ),
    "run": ("aotc.cli.run:run", "Run an entry of a bundle."),
    "bench": ("aotc.cli.bench:bench", "Measure how long calls of a bundle take."),
    "keygen": ("aotc.cli.keygen:keygen", "Make a key pair to sign bundles with."),
    "opt": ("aotc.cli.opt:opt", "Run compiler passes over an IR file."),
    "ops": ("aotc.cli.ops:ops", "List the ops and the rules that each has."),
    "targets": ("aotc.cli.targets:targets", "List the targets to compile for."),
    "devices": (
        "aotc.cli.devices:devices",
        "List the common devices that compat knows by name.",
    ),
    "cache": ("aotc.cli.cache:cache", "Show and clean what builds keep."),
    "doctor": ("aotc.cli.doctor:doctor", "Show what this machine has and lacks."),
    "completion": (
        "aotc.cli.completion:completion",
        "Print a shell completion script.",
    ),
}

_HELP = """\
Compile machine-learning models ahead of time and run them anywhere.

\b
  aotc build model.py                      compile every entry of model.py
  aotc build model.py --target cuda:sm_89  for a GPU
  aotc inspect model-1.0.0.aotc            what is inside
  aotc run model-1.0.0.aotc -i x=@x.npy    call it

Every verb explains itself: aotc build --help
"""


class VerbGroup(click.Group):
    """Click group that imports a verb's module only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return the command for verb `name`."""
        if name not in VERBS:
            return None
        module, _, function = VERBS[name][0].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the verb; suggest similar names for one that does not exist."""
        if args[0] not in VERBS and not args[0].startswith("-"):
            close = get_close_matches(args[0], VERBS, n=2)
            meant = f"; did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"there is no verb {args[0]!r}{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the list of verbs with summaries, without importing their modules."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb[1]) for name, verb in VERBS.items()])


@click.group(
    cls=VerbGroup,
    help=_HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, help="Print the version.")
@format_option()
@click.pass_context
def aotc(ctx: click.Context, version: bool, form: str) -> None:
    """The root of the command line; its help is `_HELP`."""
    if version:
        output.emit(_versions() if form == "json" else {}, f"aotc {__version__}", form)
        ctx.exit()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    elif form != "text":
        raise click.UsageError("--format belongs after the verb", ctx)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code of the process."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with warnings.catch_warnings():
        warnings.showwarning = failure.show_warnings(arguments)
        said = " ".join(arguments)
        for start, end in redaction.find_secrets(said):
            redaction.remember(said[start:end])
        with options.hold_secrets():
            return _main(arguments)


def _main(arguments: list[str]) -> int:
    """Run the command line and flush standard output; return the exit code."""
    try:
        code = _attempt(arguments)
        # Here and not at exit, where a closed pipe could no longer be caught.
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _close_quietly()


def _attempt(arguments: list[str]) -> int:
    """Run the command line; report any exception as an error message; return the exit
    code.
    """
    try:
        with termination():
            return _dispatch(arguments)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return failure.report(error, arguments)


def _dispatch(arguments: list[str]) -> int:
    """Run click's command line without its own error messages; return the exit code."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(aotc, {}, "aotc", COMPLETION_VARIABLE, instruction)
    try:
        with aotc.make_context("aotc", list(arguments)) as context:
            aotc.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return 0


def _close_quietly() -> int:
    """Redirect standard output after a broken pipe (`aotc ops | head`); return the exit
    code.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13


def _versions() -> dict[str, object]:
    """Return the versions of aotc, Python and IREE as JSON."""
    from aotc.cli.doctor import package_version

    return {
        "schema": "aotc.version/1",
        "aotc": __version__,
        "python": sys.version.split()[0],
        "iree_compiler": package_version("iree-base-compiler"),
        "iree_runtime": package_version("iree-base-runtime"),
    }


if __name__ == "__main__":
    sys.exit(main())
