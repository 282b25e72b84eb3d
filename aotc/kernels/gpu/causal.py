"""Finds which keys of an attention no row sees: those behind the last that one may.

What a causal mask hides are scores of -infinity, whatever they were, so that blocks
of them need not be computed: they add nothing to a sum, and raise no maximum.
"""

from __future__ import annotations

from math import inf

import numpy as np

from aotc.dialects.movement.views import Stride, View, merge
from aotc.dialects.ops.creation import Constant, Iota
from aotc.dialects.ops.selection import Compare, Select
from aotc.kernels.terms import Apply, Expression, Read, Statement


def last_seen(highest: Statement) -> View | None:
    """Return a view whose elements are each row's last visible key; None if unmasked.

    It has the loops over scores as its axes, and may be behind all keys. None where
    scores do not end with a causal mask.

    Args:
        highest: the maximum of the scores of a row, over its keys.
    """
    (scores,) = highest.factors
    loops = highest.nest.combined_loops
    if len(loops) != 1 or not (isinstance(scores, Apply) and len(scores.operands) == 3):
        return None
    seen, _, hidden = scores.operands
    is_mask = isinstance(scores.op, Select) and _is_lowest(hidden)
    if not (is_mask and isinstance(seen, Apply) and isinstance(seen.op, Compare)):
        return None
    last, key = map(_positions, seen.operands)
    if seen.op.direction != "ge" or last is None or key is None:
        return None
    is_of_row = all(stride.repeats for stride in last.axes[loops[0]])
    return last if is_of_row and _is_index(key, loops[0]) else None


def _is_lowest(x: Expression) -> bool:
    """Return whether an expression is the constant -infinity."""
    if not (isinstance(x, Read) and isinstance(x.op, Constant)):
        return False
    return bool(np.all(np.asarray(x.op.value) == -inf))


def _positions(x: Expression) -> View | None:
    """Return an iota's read as a view of the sequence 0, 1, …; None for other reads."""
    view = x.view if isinstance(x, Read) and isinstance(x.op, Iota) else None
    if view is None or view.fill is not None:
        return None
    assert isinstance(x, Read)
    assert isinstance(x.op, Iota)
    along = x.op.axis
    axes = [
        merge(
            Stride(each.size, 0, each.step)
            if each.axis == along
            else Stride(each.size, None, 0)
            for each in own
        )
        for own in view.axes
    ]
    return View((view.source[along],), tuple(axes), (view.begin[along],))


def _is_index(view: View, loop: int) -> bool:
    """Return whether a view of the sequence 0, 1, … gives the index of a loop."""
    steps = [
        (number, each.step)
        for number, own in enumerate(view.axes)
        for each in own
        if not each.repeats
    ]
    return view.begin == (0,) and steps == [(loop, 1)]
