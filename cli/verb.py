"""Shared parts of verbs: help that ends with examples, and common options."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aotc.cli import output
from aotc.core import options
from aotc.core.writing import is_stream, write_error
from aotc.errors.redaction import has_secret
from aotc.errors.system import cannot_write

if TYPE_CHECKING:
    from aotc.artifacts.trust import Trust

# How a shell's completion script asks the command for words.
COMPLETION_VARIABLE = "_AOTC_COMPLETE"

# where the context keeps the arguments of a verb as they were given
ARGUMENTS = "aotc.arguments"

_Function = TypeVar("_Function", bound=Callable[..., object])


class Verb(click.Command):
    """A command whose help ends with examples, and whose output is its answer."""

    def __init__(
        self,
        *args: Any,
        examples: tuple[str, ...],
        needs_settings: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.needs_settings = needs_settings

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an option of one value that is given twice: one would be ignored."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(order).items():
            if times > 1 and isinstance(option, click.Option) and _has_one(option):
                raise click.UsageError(
                    f"{option.opts[-1]} is given {times} times, and takes one value",
                    ctx,
                )
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; text printed meanwhile is not taken for the answer."""
        if self.needs_settings:
            options.require_readable()
        with output.reserved_for_answers():
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples unwrapped, as a wrapped command cannot be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _has_one(option: click.Option) -> bool:
    return not (option.multiple or option.is_flag or option.count)


class FilePath(click.Path):
    """A path that is not empty: an unset variable of a script is no folder."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """The path, or a usage error."""
        if not str(value):
            self.fail("expected a path, got an empty text", param, ctx)
        if "\0" in str(value):
            self.fail("expected a path, got a text with a NUL character", param, ctx)
        if has_secret(str(value)):
            self.fail("expected a path, got a private key", param, ctx)
        return super().convert(value, param, ctx)


# endings of files of arrays that others read by their ending
_FORMS = {".npy", ".npz", ".safetensors", ".json", ".jsonl", ".csv", ".txt"}


class PrivateKey(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: the path of a private key, never its content, which all processes
    could read.
    """

    name = "key"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """The place, a usage error, or `key-exposed`."""
        from aotc.artifacts.signers import require_no_content

        if not str(value):
            self.fail("expected a private key, got an empty text", param, ctx)
        return require_no_content(str(value))


def sign_option(help: str) -> Callable[[_Function], _Function]:
    """`--sign KEY`, as argument `key`."""
    return click.option("--sign", "key", type=PrivateKey(), metavar="KEY", help=help)


def require_check_option(help: str) -> Callable[[_Function], _Function]:
    """`--require-check TARGET`, which may be repeated, as argument `required`.

    The names of targets, each of a set by itself, or `all`.
    """
    return click.option(
        "--require-check",
        "required",
        multiple=True,
        metavar="TARGET",
        callback=lambda _, __, given: tuple(
            name for text in given for name in _names_of_targets(text)
        ),
        help=help,
    )


def _names_of_targets(text: str) -> list[str]:
    from aotc.machine.target import Target

    return ["all"] if text == "all" else [str(each) for each in Target.named(text)]


class OutputFile(FilePath):
    """A file to write, whose folder takes it: checked before the work and not after.

    Args:
        form: the ending of the files that are written, if there is one form alone: a
            name that promises another one is refused.
        only: whether a name that promises none is, too, as the file is read by it.
    """

    def __init__(self, form: str | None = None, *, only: bool = False) -> None:
        super().__init__(dir_okay=False)
        self._form, self._only = form, only

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """The path, a usage error, or that the machine does not let it be written."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if is_stream(path) and os.access(path, os.W_OK):
            return path
        is_another = path.suffix != self._form
        if self._form and is_another and (self._only or path.suffix in _FORMS):
            expected = f"expected a {self._form} file, which is what is written"
            self.fail(f"{expected}; got {str(path)!r}", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r}", param, ctx)
        if (reason := write_error(path.parent)) is not None:
            raise cannot_write(path, reason)
        return path


class NumberRange(click.FloatRange):
    """A number within a range; NaN, which no comparison keeps out, is in none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """The number, or a usage error."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is no number", param, ctx)
        return number


class MemorySize(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes, such as `512MB`, `1.5GiB` or `4096`."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The number of bytes, or a usage error."""
        try:
            return options.bytes_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def verb(
    *examples: str, needs_settings: bool = True
) -> Callable[[Callable[..., None]], Verb]:
    """Make a function the verb of its name; its docstring is the help.

    Args:
        examples: commands, shown at the end of the help.
        needs_settings: refuse to run while a setting of the environment is unreadable.
    """
    return click.command(cls=Verb, examples=examples, needs_settings=needs_settings)


def format_option(*names: str) -> Callable[[_Function], _Function]:
    """`--format` with one of `names`, the first by default, as argument `form`."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(names or ("text", "json")),
        default=names[0] if names else "text",
        help="How to print the answer.",
        show_default=True,
    )


def quiet_option() -> Callable[[_Function], _Function]:
    """`--quiet`, as argument `quiet`."""
    return click.option(
        "-q", "--quiet", is_flag=True, help="Do not tell of progress on standard error."
    )


def combine_options(
    name: str,
    options: Sequence[Callable[[_Function], _Function]],
    fields: Collection[str],
    make: Callable[[dict[str, Any]], Any],
) -> Callable[[_Function], _Function]:
    """Return a decorator that passes several options as one argument.

    Args:
        name: of the argument.
        options: made by `click.option`, in the order of the help.
        fields: the arguments that they give.
        make: the value of the argument, from those by name.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(**given: Any) -> Any:
            said = {field: given.pop(field) for field in fields}
            return function(**{name: make(said)}, **given)

        for option in reversed(options):
            call = option(call)
        return call  # type: ignore[return-value]

    return decorate


def trust_option() -> Callable[[_Function], _Function]:
    """`--trust PUB`, which may be given several times, as argument `keys`."""
    return click.option(
        "--trust",
        "keys",
        multiple=True,
        metavar="PUB",
        type=FilePath(),
        help="Trust this public key, and not the development key.",
    )


def variant_options() -> Callable[[_Function], _Function]:
    """`--target`, `--no-fallback` and `--threads`: the code that runs, and how."""
    shared = (
        click.option(
            "--target", help="Use this variant, not the best one for the machine."
        ),
        click.option(
            "--no-fallback",
            "fallback",
            flag_value=False,
            default=True,
            help="Fail where the processor would run what has code for an accelerator "
            "too.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(1, options.MAX_THREADS),
            help="Threads to compute with.",
        ),
    )

    def decorate(function: _Function) -> _Function:
        for option in reversed(shared):
            function = option(function)
        return function

    return decorate


def trust(keys: tuple[str, ...]) -> Trust:
    """Return the keys of `--trust`, or the user's development key."""
    from aotc.artifacts.trust import Trust

    return Trust.of(*keys) if keys else Trust.default()
