"""The kinds of calls that a function was called with → a signed bundle."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from aotc.artifacts import Signer
from aotc.artifacts.signers import signer_of
from aotc.core.writing import make_folder
from aotc.errors import InputError
from aotc.errors.system import translate_system_errors
from aotc.just_in_time.compiling import write_bundle
from aotc.just_in_time.shapes import Sizes, symbolic_sizes
from aotc.just_in_time.signature import CallSignature
from aotc.just_in_time.tracing import TracedSpecialization, Tracer
from aotc.machine.target import Target
from aotc.pipeline.output import default_name
from aotc.pipeline.specializations import (
    ask_for_specializations,
    complete_specializations,
)
from aotc.programs.program import Title


@translate_system_errors()
def export_bundle(
    trace: Tracer,
    calls: Mapping[CallSignature, int],
    path: Path,
    *,
    key: Signer | Path | str | None = None,
    targets: str | Sequence[Target | str] = (),
) -> Path:
    """Write a signed bundle with an entry for the sizes of all calls so far.

    The entry takes the sizes of all of them, by symbols, and has code of its own for
    the eight that were most frequent.

    Args:
        trace: the function.
        calls: that it was called with, and how often.
        path: of the bundle, `name.aotc`, whose name is that of the program; or of a
            folder to write `NAME-1.0.0.aotc` into.
        key: to sign with; by default AOTC_SIGNING_KEY, else the user's development
            key.
        targets: to compile for; by default `Target.default()`.

    Raises:
        InputError: `no-call`: there are none; `several-forms`: they differ in more than
            sizes, which one entry cannot; or code was made for values of calls, or for
            sizes that only some of them have.
    """
    alike = calls_alike(trace.name, calls)
    first = alike[0]
    leaves = [
        np.zeros(n, kind) for n, kind in zip(first.shapes, first.dtypes, strict=True)
    ]
    sizes = symbolic_sizes([each.shapes for each in alike], first.names)
    values = trace.values(first, leaves, {})
    traced = trace(first, sizes or first.shapes, values)
    if traced.check is not None:
        raise InputError(
            "several-forms",
            f"{trace.name}: code was made for values of calls, which an entry has not: "
            + "; ".join(map(str, traced.check.guards)),
            hint="make the value a static argument",
        )
    for call in alike:
        if not traced.takes(call, lambda: []):
            raise _undecided_calls(traced, call)
    program = traced.program
    ask_for_specializations(program, _most_frequent(traced.sizes, calls))
    complete_specializations(program)
    name = default_name(path) if path.suffix == ".aotc" else trace.name
    program.title = Title(name, "1.0.0")
    signer = signer_of(key)
    chosen = Target.listed(targets) or Target.default()
    make_folder(path.parent if path.suffix == ".aotc" else path)
    bundle, _ = write_bundle(program, chosen, path, signer)
    return bundle


def _undecided_calls(traced: TracedSpecialization, call: CallSignature) -> InputError:
    """Return the error for a call for whose sizes a branch in Python would differ."""
    numbers = [n for shape in traced.sizes for n in shape]
    decided = ", ".join(map(str, traced.guards)) or f"for the sizes {numbers}"
    return InputError(
        "several-forms",
        f"{traced.entry}: Python decided on sizes ({decided}), and otherwise for the "
        f"call of {call}",
        hint="export a function of its own for each kind of call, or choose with "
        "aotc.numpy.where or aotc.control.cond",
    )


def calls_alike(owner: str, calls: Iterable[CallSignature]) -> list[CallSignature]:
    """Return the calls if they differ in sizes alone, so that one entry can take them.

    Args:
        owner: how messages call the function.
        calls: that it was called with.

    Raises:
        InputError: `no-call`: there are none; `several-forms`: they differ in more than
            sizes.
    """
    forms: dict[Hashable, list[CallSignature]] = {}
    for call in calls:
        forms.setdefault(call.form, []).append(call)
    if not forms:
        raise InputError(
            "no-call", f"{owner}: expected calls before it is exported; got none"
        )
    if len(forms) > 1:
        listed = "; ".join(str(each[0]) for each in forms.values())
        raise InputError(
            "several-forms",
            f"{owner}: expected calls that differ in sizes alone; got {listed}",
            hint="export a function of its own for each, or leave other calls out",
        )
    (alike,) = forms.values()
    return alike


def _most_frequent(
    sizes: Sizes, calls: Mapping[CallSignature, int]
) -> list[dict[str, int]]:
    """Return the symbols' values in the eight most frequent calls."""
    often = sorted(calls, key=lambda call: -calls[call])[:8]
    return [found for call in often if (found := _symbol_values(sizes, call))]


def _symbol_values(sizes: Sizes, call: CallSignature) -> dict[str, int]:
    """Return a call's value of each symbol in `sizes`, by the symbol's name."""
    pairs = zip(sizes, call.shapes, strict=True)
    return {
        size.name: given
        for spec, shape in pairs
        for size, given in zip(spec, shape, strict=True)
        if not isinstance(size, int)
    }
