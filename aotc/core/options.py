"""Table of all `AOTC_*` environment variables.

Read a knob with `options.get("AOTC_DUMP")`; `aotc doctor` prints the table, with what
cannot be read of it and with names that are unknown. To every other verb a value that
cannot be read is an error, also if the verb would not read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from aotc.errors import InputError
from aotc.errors.redaction import has_secret

WEIGHTS_MODES = ("private", "mapped")
SELF_CHECK_MODES = ("auto", "full", "off")
CHECK_MODES = ("off", "first", "always")
# IREE_TASK_TOPOLOGY_MAX_GROUP_COUNT in iree/task/topology.h: of a larger number IREE
# makes this one without a word.
MAX_THREADS = 256


@dataclass(frozen=True)
class Option:
    """An environment variable: its parser, its default and its help.

    Args:
        is_secret: its text may be a secret: it is shown to nobody, and the processes
            that aotc starts do not inherit it.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    help: str
    is_secret: bool = False


def _flag(text: str) -> bool:
    """Parse a boolean: 1, true, 0, false or an empty text."""
    values = {"1": True, "true": True, "0": False, "false": False, "": False}
    return values[text.lower()]


_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9,
    "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip


def bytes_of(text: str) -> int:
    """Parse a number of bytes, such as `512MB`, `1.5GiB` or `4096`.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(
        r"([0-9]{1,20}(?:\.[0-9]{1,20})?) *([a-z]*)", text.strip().lower()
    )
    if not found or found[2] not in _UNITS:
        raise ValueError(f"expected a size such as 512MB or 1.5GiB, got {text[:60]!r}")
    return int(Fraction(found[1]) * _UNITS[found[2]])


def _count(text: str) -> int:
    """Parse a positive integer."""
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text.strip()):
        raise ValueError
    return int(text)


def _thread_count(text: str) -> int:
    """Parse a number of threads."""
    count = _count(text)
    if count > MAX_THREADS:
        raise ValueError
    return count


def _weights(text: str) -> str:
    """Parse a mode of WEIGHTS_MODES."""
    return {mode: mode for mode in WEIGHTS_MODES}[text]


def _self_check(text: str) -> str:
    """Parse a mode of SELF_CHECK_MODES."""
    return {mode: mode for mode in SELF_CHECK_MODES}[text]


def _check(text: str) -> str:
    """Parse a mode of CHECK_MODES."""
    return {mode: mode for mode in CHECK_MODES}[text]


def _paths_by_arch(text: str) -> dict[str, str]:
    """Parse `ARCH=PATH,…` into paths by architecture."""
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    if not all(arch.strip() and path.strip() for arch, _, path in pairs):
        raise ValueError
    return {arch.strip(): path.strip() for arch, _, path in pairs}


_TABLE = [
    Option("AOTC_DUMP", str, None, "folder to write the IR of every stage and pass to"),
    Option("AOTC_PRINT_AFTER", str, None, "print the IR after this pass, or `all`"),
    Option("AOTC_VERIFY_EACH", _flag, False, "verify the IR after every pass"),
    Option(
        "AOTC_EAGER",
        _flag,
        False,
        "execute models op by op: `aotc run model.py` calls its Python code",
    ),
    Option("AOTC_DEBUG", _flag, False, "show Python tracebacks with every error"),
    Option(
        "AOTC_SIGNING_KEY",
        str,
        None,
        "private key that `build` signs with: file, env:NAME, fd:N, or its content",
        is_secret=True,
    ),
    Option("AOTC_HOME", str, None, "folder for the development key and trust store"),
    Option(
        "AOTC_SELF_CHECK",
        _self_check,
        "auto",
        f"self-check of builds: {', '.join(SELF_CHECK_MODES)}",
    ),
    Option(
        "AOTC_CHECK",
        _check,
        "first",
        "calls of code that is made when it is called (jit, hybrid programs), which "
        f"are compared with the reference evaluator: {', '.join(CHECK_MODES)}",
    ),
    Option(
        "AOTC_PYTHONS",
        _paths_by_arch,
        {},
        "ARCH=PATH,…: Pythons that self-checks run code of other processors with",
    ),
    Option("AOTC_TARGETS", str, "cpu", "what builds are for that name no --target"),
    Option("AOTC_CACHE", str, None, "folder that builds keep results in, or off"),
    Option("AOTC_CACHE_SIZE", bytes_of, 4 << 30, "bytes that are kept there at most"),
    Option(
        "AOTC_THREADS",
        _thread_count,
        None,
        f"threads that a loaded model computes with, 1 to {MAX_THREADS}",
    ),
    Option("AOTC_HUGE_PAGES", _flag, True, "load large weights into huge pages"),
    Option(
        "AOTC_WEIGHTS",
        _weights,
        "private",
        f"memory that loaded weights lie in: {', '.join(WEIGHTS_MODES)}",
    ),
    Option(
        "AOTC_GROUP",
        str,
        None,
        "the rank of a process and its sockets to others, which aotc run --ranks sets",
    ),
    Option("AOTC_JOBS", _count, None, "compiler worker processes that run at a time"),
]

OPTIONS = {option.name: option for option in _TABLE}


def get(name: str) -> Any:
    """Return the parsed value of an environment variable, or its default.

    Raises:
        InputError: the environment holds a value that cannot be read, or a private key
            in a variable that is not for one.
    """
    option = OPTIONS[name]
    text = _held.get(name, os.environ.get(name))
    if text is None:
        return option.default
    if not option.is_secret and has_secret(text):
        raise InputError(
            "bad-option",
            f"{name} holds a private key",
            hint=f"it is for: {option.help}",
        )
    try:
        return option.parse(text)
    except (ValueError, KeyError):
        raise InputError(
            "bad-option", f"{name}={text[:60]!r} cannot be read", hint=option.help
        ) from None


# ---- secrets ------------------------------------------------------------------------

# Variables with secrets: those of the table, and others that a user has named.
_secret_names = {option.name for option in _TABLE if option.is_secret}
# Their values, while `hold_secrets` keeps them out of the environment.
_held: dict[str, str] = {}
_holding = False


def take_secret(name: str) -> str | None:
    """Return a secret variable's value, and hide it from child processes from then
    on.
    """
    _secret_names.add(name)
    if _holding and name in os.environ:
        _held[name] = os.environ.pop(name)
    return _held.get(name, os.environ.get(name))


@contextmanager
def hold_secrets() -> Iterator[None]:
    """Hide secrets from `os.environ`, which model code can read, within the `with`
    block.
    """
    global _holding
    before, _holding = _holding, True
    try:
        for name in _secret_names:
            take_secret(name)
        yield
    finally:
        _holding = before
        if not _holding:
            os.environ.update(_held)
            _held.clear()


def child_environment() -> dict[str, str]:
    """Return the environment for child processes: without secrets."""
    return {k: value for k, value in os.environ.items() if k not in _secret_names}


def require_readable() -> None:
    """Refuse environment variables of aotc whose values cannot be parsed.

    Raises:
        InputError: `bad-option`.
    """
    for name in OPTIONS:
        get(name)


@contextmanager
def override(name: str, value: str | None) -> Iterator[None]:
    """Set an environment variable within the `with` block (for tests)."""
    before = os.environ.get(OPTIONS[name].name)
    _assign(name, value)
    try:
        yield
    finally:
        _assign(name, before)


def _assign(name: str, value: str | None) -> None:
    """Set or remove an environment variable."""
    _held.pop(name, None)
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
