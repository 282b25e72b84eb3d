"""Errors of the command line: the printed text, and the exit code.

| code | meaning                                             |
|------|-----------------------------------------------------|
| 0    | ok                                                  |
| 1    | the answer is no: something was found               |
| 2    | usage, configuration or input                       |
| 3    | compile failed                                      |
| 4    | verification failed                                 |
| 5    | environment: missing extra, toolchain, driver       |
| 70   | a bug in aotc                                       |
| 130  | interrupted (143: told to end by SIGTERM)           |
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence

import click

from aotc.cli import github, layout, output
from aotc.cli.interrupts import CommandInterrupted
from aotc.core import options
from aotc.core.installation import install_command
from aotc.errors import AotcError, InputError, SetupError
from aotc.errors.redaction import redact
from aotc.errors.system import system_error

INTERRUPTED = 130

# top-level module → the extra of aotc that installs it; "" is aotc itself
_EXTRAS = {
    "iree.compiler": "compiler",
    "torch_mlir": "compiler",
    "ml_dtypes": "compiler",
    "torch": "torch",
    "onnx": "onnx",
    "jax": "jax",
    "iree.runtime": "",
    "iree": "",
    "numpy": "",
    "cryptography": "",
    "safetensors": "",
}


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Print `error` for people on standard error and return the exit code.

    With ``--format json`` standard output gets the error as its one JSON document, and
    with ``--format github`` as an annotation.
    """
    if isinstance(error, CommandInterrupted):
        _tell(_for_people(str(error)))
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _tell("interrupted")
        return INTERRUPTED
    diagnosed = _diagnose(error)
    if _wants("json", arguments):
        _tell(json.dumps(diagnosed.to_json(), indent=2), err=False)
    if _wants("github", arguments):
        _tell(github.of_error(diagnosed, arguments), err=False)
    if _debug():
        _tell("".join(traceback.format_exception(error)).rstrip("\n"))
    _tell(_for_people(str(diagnosed), _label()))
    return diagnosed.exit_code


def _tell(text: str, err: bool = True) -> None:
    """Print `text` with secrets removed; ignore an output that cannot be written."""
    try:
        click.echo(redact(text), err=err)
    except BrokenPipeError:
        raise
    except OSError:  # such as a full disk behind the stream
        output.discard(sys.stderr if err else sys.stdout)


def show_warnings(arguments: Sequence[str]) -> Callable[..., None]:
    """Return a warning hook that prints one line, and a GitHub annotation if asked
    for.
    """

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = redact(str(message))
        if _wants("github", arguments):
            output.print_answer(github.of_warning(text, arguments))
        click.echo(_for_people(text, "warning:"), err=True)

    return show


def _for_people(text: str, label: str = "") -> str:
    """Return text escaped and wrapped for standard error, behind a label."""
    said = output.escape_control_characters(f"{click.unstyle(label)} {text}".lstrip())
    said = layout.wrap(said, layout.width_of(sys.stderr))
    return label + said.removeprefix(click.unstyle(label))


def _diagnose(error: BaseException) -> AotcError:
    """Convert any exception to an `AotcError` to report."""
    if isinstance(error, AotcError):
        return error
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, ModuleNotFoundError) and _third_party(error.name):
        return _missing(error.name or "")
    if (refused := system_error(error)) is not None:
        return refused
    if isinstance(error, ImportError) and _third_party(error.name or "a library"):
        return _broken_module(error)
    return _bug(error)


def _usage(error: click.ClickException) -> InputError:
    """Convert click's usage error to an `InputError`."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "aotc"
    return InputError(
        "usage", error.format_message().rstrip("."), hint=f"{command} --help"
    )


def _third_party(name: str | None) -> bool:
    """Return whether a module's name is not aotc's: a missing one of aotc is a bug."""
    return bool(name) and str(name).split(".")[0] != "aotc"


def _missing(name: str) -> SetupError:
    """Return the error of a missing module, with the extra that installs it."""
    known = [m for m in _EXTRAS if name == m or name.startswith(f"{m}.")]
    if not known:
        return SetupError(
            "missing-module",
            f"the module {name!r} is not installed",
            hint="install it in the environment that aotc runs in",
        )
    return SetupError(
        "missing-extra",
        f"this needs the module {name!r}, which is not installed",
        hint=install_command(_EXTRAS[max(known, key=len)]),
    )


def _broken_module(error: ImportError) -> SetupError:
    """Return the error for a module that is installed but cannot be loaded."""
    return SetupError(
        "broken-module",
        f"the module {error.name or 'of a library'} cannot be loaded: {error}",
        hint="install it again, in a version for this system",
    )


def _bug(error: BaseException) -> AotcError:
    """Return the error for an unexpected exception; save its traceback to a file."""
    return AotcError(
        "internal",
        f"this is a bug in aotc: {type(error).__name__}: {error}",
        hint=f"please report it with the traceback in {_save_traceback(error)}",
    )


def _save_traceback(error: BaseException) -> str:
    """Write the traceback to a temporary file; return its path for the message."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="aotc-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(redact("".join(traceback.format_exception(error))))
    except OSError:  # nothing can be written: it is printed instead
        return "what AOTC_DEBUG=1 prints"
    return file.name


def _wants(form: str, arguments: Sequence[str]) -> bool:
    """Return whether unparsed arguments have `--format FORM`: parsing itself may have
    failed.
    """
    pairs = zip(arguments, arguments[1:], strict=False)
    return f"--format={form}" in arguments or ("--format", form) in pairs


def _debug() -> bool:
    """Return whether AOTC_DEBUG is set; False if its value is invalid."""
    try:
        return bool(options.get("AOTC_DEBUG"))
    except InputError:  # which is what the error is about
        return False


def _label() -> str:
    """Return the label `error:`, coloured on a terminal."""
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    return click.style("error:", fg="red", bold=True) if colour else "error:"
