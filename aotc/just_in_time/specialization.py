"""Specialization of code to certain calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aotc.just_in_time.shapes import Sizes, bound_sizes
from aotc.just_in_time.signature import CallForm, CallSignature
from aotc.just_in_time.trace_guards import TraceSizeGuard, ValueCheck, Values
from aotc.tracing.snapshots import Snapshot


@dataclass(frozen=True)
class Specialization:
    """The calls that code is specialized to: their form, sizes and guards.

    Args:
        entry: the name of the function in it.
        form: of the calls.
        sizes: of the Specs that it was traced for.
        check: of the values that the trace looked at; None where it looked at none.
        captured: what the function reads besides its arguments, as it was when it was
            traced; None where it reads nothing.
        guards: of the sizes that it decided on.
    """

    entry: str
    form: CallForm
    sizes: Sizes
    check: ValueCheck | None
    captured: Snapshot | None = field(default=None, kw_only=True)
    guards: tuple[TraceSizeGuard, ...] = field(default=(), kw_only=True)

    def takes(self, call: CallSignature, values: Callable[[], Values]) -> bool:
        """Return whether a call has the form, sizes and guarded values of the code.

        Args:
            call: what it is like.
            values: gives those of its arguments, as `Tracer.values` has them.
        """
        if call.form != self.form:
            return False
        bound = bound_sizes(self.sizes, call.shapes)
        if bound is None or not all(guard.holds(bound) for guard in self.guards):
            return False
        if self.captured is not None and not self.captured.holds():
            return False
        return self.check is None or self.check.holds(values())
