"""`aotc completion`: the script that completes verbs and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from aotc.cli import output
from aotc.cli.verb import COMPLETION_VARIABLE, verb

_CLASSES = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@verb(
    'eval "$(aotc completion bash)"                              in ~/.bashrc',
    'eval "$(aotc completion zsh)"                               in ~/.zshrc',
    "aotc completion fish > ~/.config/fish/completions/aotc.fish",
)
@click.argument("shell", type=click.Choice(tuple(_CLASSES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    script = _CLASSES[shell](ctx.find_root().command, {}, "aotc", COMPLETION_VARIABLE)
    output.print_answer(script.source())
