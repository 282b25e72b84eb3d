"""The whole check of programs: built together, run, and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotc import reference

from .building import Built, Settings, built
from .certifying import certified
from .failures import Failure
from .jax_peer import compare_with_jax, examples
from .judging import Judgement, judge, rounding_of
from .programs import Program
from .running import Runner


@dataclass(frozen=True)
class Checked:
    """The outcome of one program: its failure, if any, and counts.

    Args:
        program: that was checked.
        failure: what is wrong with it.
        refusal: whether `failure` is only a refusal of aotc, by its own code.
        elements: of its results, over all sizes.
        open: those that rounding may change at will.
        in_jax: whether JAX has computed the same.
        certified: derivatives whose certificates hold.
        unreached: derivatives that have none, as the inputs do not lead to them.
    """

    program: Program
    failure: Failure | None
    elements: int = 0
    open: int = 0
    in_jax: bool = False
    certified: int = 0
    unreached: int = 0


def check(
    programs: Sequence[Program],
    runner: Runner,
    jax: Any = None,
    settings: Settings = Settings(),  # noqa: B008 - it is frozen
    certify: bool = False,
) -> Iterator[Checked]:
    """Compile and run programs; yield the outcome of each, in no particular order.

    Args:
        programs: to be compiled together.
        runner: that calls them.
        jax: the library of `executing.jax_library`, to compare with as well.
        settings: of the compiler.
        certify: whether the gradients of those that are right are certified, too.
    """
    verdicts = (
        Checked(programs[number], found)
        if isinstance(found, Failure)
        else _judged(found, runner, jax)
        for number, found in built(programs, runner, settings)
    )
    return _with_certificates(list(verdicts)) if certify else verdicts


def _with_certificates(verdicts: list[Checked]) -> Iterator[Checked]:
    """Yield the outcomes, with those of certificates added for right programs."""
    right = [each for each in verdicts if each.failure is None]
    found = iter(certified([each.program for each in right]))
    for each in verdicts:
        if each.failure is not None:
            yield each
            continue
        said = next(found)
        yield replace(
            each,
            failure=said.failure,
            certified=said.measured,
            unreached=said.unreached,
        )


def _judged(each: Built, runner: Runner, jax: Any) -> Checked:
    """Run a compiled program on examples and compare with the reference, perhaps
    JAX.
    """
    elements, left_open = 0, 0
    for sizes in each.program.sizes:
        arrays = examples(each.program, sizes)
        found = runner.call(each.vmfb, each.entry, arrays)
        if isinstance(found, Failure):
            return Checked(each.program, found)
        wanted = _wanted(each, arrays)
        if isinstance(wanted, Failure):
            return Checked(each.program, wanted)
        if wanted is None:
            continue
        judgement = judge(found, *wanted)
        if judgement.wrong:
            failure = Failure("differs", _said(judgement, sizes))
            return Checked(each.program, failure)
        elements += judgement.elements
        left_open += judgement.open
    failure = compare_with_jax(each.program, jax) if jax else None
    if isinstance(failure, Failure):
        return Checked(each.program, failure)
    in_jax = failure == "agrees"
    return Checked(each.program, None, elements, left_open, in_jax)


def _wanted(each: Built, arrays: list[Any]) -> tuple[Any, Any] | Failure | None:
    """Return the reference's results and their rounding; None if undefined.

    None where the program means nothing: the largest of no elements.
    """
    module, name = each.reference, each.entry.name
    try:
        wanted = reference.evaluate(module, name, arrays)
        rounding = rounding_of(module, name, arrays, wanted)
    except Exception as error:
        if "zero-size array to reduction" in str(error):
            return None
        if "attempt to get arg" in str(error):
            return None
        return Failure("evaluates", f"{type(error).__name__}: {error}")
    return wanted, rounding


def _said(judgement: Judgement, sizes: dict[str, int]) -> str:
    """Describe a wrong result and the sizes it occurred at."""
    where = f" with sizes {sizes}" if sizes else ""
    return f"compiled, {judgement.wrong}{where}"
