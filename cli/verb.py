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
    """Click command with examples in its help; only its answer goes to standard
    output.
    """

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
        """Parse arguments; raise if a single-valued option is given twice."""
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
        """Run the verb; other text printed meanwhile goes to standard error."""
        if self.needs_settings:
            options.require_readable()
        with output.reserved_for_answers():
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples without wrapping, so that they can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _has_one(option: click.Option) -> bool:
    """Return whether an option takes exactly one value."""
    return not (option.multiple or option.is_flag or option.count)


class FilePath(click.Path):
    """Parameter type: a non-empty path, as an unset shell variable would give an empty
    one.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path; raise a usage error for an empty or unsuitable one."""
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
    """Parameter type: the path of a private key; the key itself would be visible to
    all.
    """

    name = "key"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the path; raise a usage error, or `key-exposed` if it is a key's
        content.
        """
        from aotc.artifacts.signers import require_no_content

        if not str(value):
            self.fail("expected a private key, got an empty text", param, ctx)
        return require_no_content(str(value))


def sign_option(help: str) -> Callable[[_Function], _Function]:
    """Return a decorator for `--sign KEY`, as argument `key`."""
    return click.option("--sign", "key", type=PrivateKey(), metavar="KEY", help=help)


def require_check_option(help: str) -> Callable[[_Function], _Function]:
    """Return a decorator for the repeatable `--require-check TARGET`, as `required`.

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
    """Return the targets that a text names, or `all`."""
    from aotc.machine.target import Target

    return ["all"] if text == "all" else [str(each) for each in Target.named(text)]


class OutputFile(FilePath):
    """Parameter type: a file to write; checked for writability before the work.

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
        """Return the path; raise if it is unsuitable or cannot be written."""
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
    """Parameter type: a number within a range, never NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Parse the number; raise a usage error if it is not in the range."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is no number", param, ctx)
        return number


class MemorySize(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: a number of bytes, such as `512MB`, `1.5GiB` or `4096`."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Parse the number of bytes; raise a usage error for other texts."""
        try:
            return options.bytes_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def verb(
    *examples: str, needs_settings: bool = True
) -> Callable[[Callable[..., None]], Verb]:
    """Return a decorator that makes a function the verb of its name; its docstring is
    the help.

    Args:
        examples: commands, shown at the end of the help.
        needs_settings: refuse to run while a setting of the environment is unreadable.
    """
    return click.command(cls=Verb, examples=examples, needs_settings=needs_settings)


def format_option(*names: str) -> Callable[[_Function], _Function]:
    """Return a decorator for `--format`, one of `names` (default: the first), as
    `form`.
    """
    return click.option(
        "--format",
        "form",
        type=click.Choice(names or ("text", "json")),
        default=names[0] if names else "text",
        help="How to print the answer.",
        show_default=True,
    )


def quiet_option() -> Callable[[_Function], _Function]:
    """Return a decorator for `--quiet`, as argument `quiet`."""
    return click.option(
        "-q", "--quiet", is_flag=True, help="Do not tell of progress on standard error."
    )


def combine_options(
    name: str,
    options: Sequence[Callable[[_Function], _Function]],
    fields: Collection[str],
    make: Callable[[dict[str, Any]], Any],
) -> Callable[[_Function], _Function]:
    """Return a decorator that passes several options as one argument made by `make`.

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
    """Return a decorator for the repeatable `--trust PUB`, as argument `keys`."""
    return click.option(
        "--trust",
        "keys",
        multiple=True,
        metavar="PUB",
        type=FilePath(),
        help="Trust this public key, and not the development key.",
    )


def variant_options() -> Callable[[_Function], _Function]:
    """Return a decorator for `--target`, `--no-fallback` and `--threads`."""
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
    """Return the trusted keys of `--trust`; by default the user's development key."""
    from aotc.artifacts.trust import Trust

    return Trust.of(*keys) if keys else Trust.default()
