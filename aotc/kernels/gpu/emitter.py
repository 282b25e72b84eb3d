"""Chooses the form of a term, plans it for a chip and writes its kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aotc.core.numerics import STRICT
from aotc.dialects.movement.nests import COPY
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Size
from aotc.kernels.gpu import (
    attention,
    elements,
    products,
    rows,
    scatter,
    selection,
    updates,
)
from aotc.kernels.gpu.kernel import (
    GpuKernel,
    Writing,
    needs_long_integers,
    symbol_count,
    write_text,
)
from aotc.kernels.gpu.lifting import CannotLiftError
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.terms import Term


@dataclass(frozen=True)
class GpuKernelForm:
    """A form of terms with a kernel template: how to match, plan and write it.

    Args:
        takes: whether a term is of it.
        plan: the schedule of a term on a chip.
        programs: how many there are of a term and a schedule.
        write: writes the body of the kernel.
    """

    takes: Callable[[Term], bool]
    plan: Callable[[Term, Gpu], Any]
    programs: Callable[[Term, Any], Size]
    write: Callable[[Writing, Any], None]


# of those that take a term, the first
FORMS = {
    "attention": GpuKernelForm(
        lambda term: attention.parts_of(term) is not None,
        attention.plan,
        attention.programs,
        attention.write,
    ),
    "product": GpuKernelForm(
        lambda term: bool(products.groups_of(term)),
        products.plan,
        products.programs,
        products.write,
    ),
    "scatter": GpuKernelForm(
        lambda term: scatter.parts_of(term) is not None,
        scatter.plan,
        scatter.programs,
        scatter.write,
    ),
    "rows": GpuKernelForm(
        lambda term: rows.anchor_of(term) is not None,
        rows.plan,
        rows.programs,
        rows.write,
    ),
    "selection": GpuKernelForm(
        lambda term: selection.anchor_of(term) is not None,
        selection.plan,
        selection.programs,
        selection.write,
    ),
    "elements": GpuKernelForm(
        lambda term: all(each.nest.combine == COPY for each in term.statements),
        elements.plan,
        elements.programs,
        elements.write,
    ),
    "updates": GpuKernelForm(
        lambda term: all(each.nest.combine == COPY for each in term.statements),
        updates.plan,
        updates.programs,
        updates.write,
    ),
}


@dataclass(frozen=True)
class NoTermKernel:
    """The reason why a term has no GPU kernel.

    Args:
        why: in words.
    """

    why: str


def emit(
    term: Term, name: str, machine: Gpu, numerics: str = STRICT
) -> GpuKernel | NoTermKernel:
    """Plan and write a term's kernel for a chip; return it, or why there is none.

    Args:
        term: of a region.
        name: of the kernel's function.
        machine: the chip.
        numerics: what results may be.
    """
    with term.function.context, known_contracts(contracts_of(term.function)):
        found = (name for name, x in FORMS.items() if x.takes(term))
        form = next(found, None)
        if form is None:
            return NoTermKernel("no form of kernels has its loops")
        schedule = FORMS[form].plan(term, machine)
    return emit_planned(term, name, form, schedule, machine.precision(numerics))


def emit_planned(
    term: Term, name: str, form_name: str, schedule: Any, precision: str
) -> GpuKernel | NoTermKernel:
    """Write a term's kernel in a form and schedule; return it, or why there is none.

    Args:
        term: of a region.
        name: of the kernel's function.
        form_name: that the kernel is to have, a key of `FORMS`.
        schedule: of that form.
        precision: of products of f32, as Triton names it.
    """
    form = FORMS[form_name]
    with term.function.context, known_contracts(contracts_of(term.function)):
        if not form.takes(term):
            return NoTermKernel(f"with what is around it, it is no {form_name}")
        is_large = needs_long_integers(term)
        try:
            text = write_text(
                name,
                term,
                precision,
                lambda writing: form.write(writing, schedule),
                is_large=is_large,
            )
        except CannotLiftError as error:
            return NoTermKernel(f"no code for {error}")
        return GpuKernel(
            name,
            text,
            form.programs(term, schedule),
            symbol_count(term),
            schedule,
            schedule.warps,
            getattr(schedule, "stages", 1),
            is_large,
            precision,
        )
