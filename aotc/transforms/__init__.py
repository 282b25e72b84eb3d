"""Function transformations: functions of the graph until the autodiff pass writes them.

They may be nested in any order.
"""

from __future__ import annotations

from aotc.tracing.calls import guard
from aotc.transforms.derivatives import (
    grad,
    hvp,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from aotc.transforms.jacobians import hessian, jacfwd, jacrev
from aotc.transforms.mapping import vmap
from aotc.transforms.precision import mixed_precision

__all__ = [
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "mixed_precision",
    "value_and_grad",
    "vjp",
    "vmap",
]

guard(globals(), __all__)
