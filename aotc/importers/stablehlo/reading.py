"""StableHLO → MLIR modules: from text, bytecode and portable artifacts.

MLIR's readers kill the process on some damaged files, so a process of its own reads a
file first: this module, run as a program.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from types import ModuleType

from aotc.errors import InputError
from aotc.errors.exit_status import exit_cause
from aotc.errors.system import raise_system_error
from aotc.mlir import in_generic_form, ir, provide_dialect, stablehlo
from aotc.processes.running import run_python

BYTECODE = b"ML\xefR"  # how MLIR bytecode begins
_PORTABLE = re.compile(rb"ML\xefR.{1,9}?StableHLO_v(\d+\.\d+\.\d+)\0", re.DOTALL)
_ESCAPED = re.compile(r"(?:\\[89A-F][0-9A-F])+")  # how MLIR prints what is not ASCII
_DEEPEST = 64  # nesting of regions
_SECONDS = 600  # that reading takes at most
_LONGEST_REASON = 300  # characters of a parser's message


@cache
def _context() -> ir.Context:
    """Return the MLIR context, kept for the process, that StableHLO is parsed in."""
    context = ir.Context()
    context.allow_unregistered_dialects = True  # of attributes that are not looked at
    stablehlo().register_dialect(context)
    for name in ("stablehlo", "chlo", "vhlo", "sdy"):
        provide_dialect(name, ModuleType(name))
    return context


def parse(source: bytes | str, name: str) -> ir.Module:
    """Return the verified module in StableHLO text, bytecode or a portable artifact.

    Args:
        source: the contents of a file; or a text, which is not suspected of damage.
        name: what messages call it.

    Raises:
        InputError: it is damaged, of another version, or for several devices.
    """
    try:
        if isinstance(source, bytes):
            _require_survival(source)
        module = _read(source if isinstance(source, bytes) else source.encode(), name)
    except Exception as error:  # whatever the parser finds wrong
        raise_system_error(error, name)
        raise InputError(
            "bad-file",
            f"'{name}' cannot be read as StableHLO: {_reason(error)}",
            hint="give StableHLO as text (.mlir), bytecode (.mlirbc) or a jax.export "
            "artifact (.jax), or IR that `aotc build --dump` has written",
        ) from error
    _require_one_device(module, name)
    return module


def _require_survival(data: bytes) -> None:
    """Refuse a module that crashes the parser, by parsing it in a child process
    first.
    """
    done = run_python("-m", __name__, given=data, seconds=_SECONDS)
    if done.code < 0:
        cause = exit_cause(done.code)
        raise ValueError(f"it is damaged or too deep, its reader dies of {cause}")


def _read(data: bytes, name: str) -> ir.Module:
    """Parse and verify a module; refuse one nested too deeply or with invalid
    strings.
    """
    module = _parse(data, name)
    module.operation.verify()
    text = module.operation.get_asm(
        print_generic_op_form=True, enable_debug_info=True, large_elements_limit=16
    )
    if re.search(rf"^ {{{2 * _DEEPEST}}}", text, re.MULTILINE):
        raise ValueError(f"regions are nested deeper than {_DEEPEST}")
    for escaped in _ESCAPED.findall(text):
        bytes.fromhex(escaped.replace("\\", "")).decode()
    return module


def _parse(data: bytes, name: str) -> ir.Module:
    """Parse a module's text, bytecode or portable artifact."""
    portable = _PORTABLE.match(data)
    with _context() as context, ir.Location.unknown():
        if portable is not None:
            _require_version(portable.group(1).decode(), name)
            found: ir.Module = stablehlo().deserialize_portable_artifact(context, data)
            return found
        if data.startswith(BYTECODE):
            return ir.Module.parse(data)
        return ir.Module.parse(_readable(data.decode()))


def _readable(text: str) -> str:
    """Return the text in generic form if it uses CHLO, which has no parser here."""
    return in_generic_form(text) if re.search(r"[^\"@\w]chlo\.\w", text) else text


def _require_version(version: str, name: str) -> None:
    """Refuse a portable artifact of a version that the bindings cannot read."""
    bounds = stablehlo().get_minimum_version(), stablehlo().get_current_version()
    least, most = (tuple(map(int, bound.split("."))) for bound in bounds)
    if not least <= tuple(map(int, version.split("."))) <= most:
        raise InputError(
            "unsupported-version",
            f"'{name}' is a portable artifact of StableHLO {version}; expected "
            f"{bounds[0]} to {bounds[1]}",
            hint="export it with a version of the exporter that fits",
        )


def _require_one_device(module: ir.Module, name: str) -> None:
    """Refuse a module for several devices."""
    attributes = module.operation.attributes
    for key in ("mhlo.num_partitions", "mhlo.num_replicas"):
        count = ir.IntegerAttr(attributes[key]).value if key in attributes else 1
        if count != 1:
            raise InputError(
                "many-devices",
                f"'{name}' is for {count} devices ({key}); expected one",
                hint="export the function of one device",
            )


def _reason(error: Exception) -> str:
    """Return an MLIR parser's error message without its notes."""
    text = str(error).replace("Unable to parse module assembly:\n", "")
    text = " ".join(text.split(" note: ")[0].split())
    return text[:_LONGEST_REASON] or type(error).__name__


def main_function(module: ir.Module, name: str) -> str:
    """Return the name of the module's entry function.

    Raises:
        InputError: there is no function, or several and none of them is `main`.
    """
    from aotc.importers.stablehlo.interpreter import functions_of

    functions = functions_of(module)
    public = [
        each
        for each, operation in functions.items()
        if "sym_visibility" not in operation.attributes
        or ir.StringAttr(operation.attributes["sym_visibility"]).value == "public"
    ]
    if "main" in functions:
        return "main"
    if len(public) != 1:
        raise InputError(
            "no-entries",
            f"'{name}' has no function 'main'; its public functions are "
            f"{', '.join(public) or 'none'}",
            hint="give a StableHLO module, or IR that `aotc build --dump` has written",
        )
    return public[0]


if __name__ == "__main__":
    _read(sys.stdin.buffer.read(), "module")
