"""The references of all ops of the dialect against what peers say of the same op.

The settings are the uses that the tests walk over (`tests/dialects/cases.py`): each op
in each of its dtypes, on random numbers, at edge values and with sizes 1 and 0.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from aotc.dialects import OPS, context
from aotc.dialects.graph import as_tuple, in_dtype
from aotc.dialects.table import family_of
from benchmarks.parity.agreement import Compared, asked, leaves
from benchmarks.parity.ops_jax import DEVICES, JAX, over_devices
from benchmarks.parity.ops_scipy import SCIPY
from benchmarks.parity.ops_torch import TORCH
from tests.dialects.cases import Case, cases_of

NO_PEER = {
    "dimension": "a size as a number, which peers know in Python",
    "attention_gradient": "a derivative, which peers write in other ops",
    "assert": "an effect without result",
    "print": "an effect without result",
}

KINDS = {  # by family; the others are exact
    **dict.fromkeys(("unary", "trigonometric", "special", "activation"), "elementwise"),
    **dict.fromkeys(
        ("reduction", "cumulative", "contraction", "fourier", "convolution", "pooling",
         "normalization", "attention"), "accumulated",
    ),
    **dict.fromkeys(("factorization", "spectrum"), "iterated"),
}  # fmt: skip
OP_KINDS = {
    **dict.fromkeys(
        ("negate", "abs", "sqrt", "stop_gradient", "argmax"), "exact"
    ),
    **dict.fromkeys(
        ("sign", "relu", "maximum", "minimum", "clamp", "reduce_max", "reduce_min",
         "cummax", "cummin", "max_pool", "scatter_max", "scatter_min"), "chosen",
    ),
    **dict.fromkeys(("power", "hypot"), "elementwise"),
    **dict.fromkeys(("gelu", "lgamma", "polygamma"), "cancelling"),
    **dict.fromkeys(("scatter_add", "scatter_mul"), "accumulated"),
}  # fmt: skip


def compared() -> Iterator[Compared]:
    """Yield every case of every op beside each peer."""
    for name in OPS:
        if name in DEVICES:
            yield from _over_devices(name)
        elif name not in NO_PEER:
            for case in cases_of(name):
                yield from _beside_peers(name, case)


def _beside_peers(name: str, case: Case) -> Iterator[Compared]:
    """Yield the reference results of one case beside each peer's."""
    for sizes in case.size_choices():
        arrays, attributes = case.arrays(sizes), case.attributes(sizes)
        with context(), np.errstate(all="ignore"):
            types = case.infer(sizes)
            found = as_tuple(case.cls.ref(*map(np.copy, arrays), **attributes))
        ours = [in_dtype(x, kind) for x, kind in zip(found, types, strict=True)]
        setting = f"{case.label} {sizes or ''}"
        kind = kind_of(name)
        for peer, table in (("jax", JAX), ("torch", TORCH), ("scipy", SCIPY)):
            if name in table:
                theirs, refusal = asked(peer, table[name], *arrays, **attributes)
                if peer == "scipy":  # which computes half precision in f32
                    theirs = _in_dtypes_of(ours, theirs)
                yield Compared("op", name, setting, peer, kind, ours, theirs, refusal)


def _in_dtypes_of(ours: list[Any], theirs: Any) -> list[Any]:
    """Return the peer's results cast to the dtypes of aotc's."""
    pairs = zip(ours, leaves(theirs), strict=False)
    with np.errstate(all="ignore"):
        return [y if y is None else np.asarray(y).astype(x.dtype) for x, y in pairs]


def kind_of(name: str) -> str:
    """Return the kind of an op, which determines its error limit."""
    return OP_KINDS.get(name, KINDS.get(family_of(OPS[name]), "exact"))


def _over_devices(name: str) -> Iterator[Compared]:
    """Yield a collective op's results beside JAX's."""
    rng = np.random.default_rng(0)
    for attributes, theirs in DEVICES[name]:
        for dtype in ("f4", "f8", "i4"):
            x = rng.normal(0, 5, (4, 8, 4)).astype(dtype)
            ours = OPS[name].across(x, **attributes)
            found, refusal = asked("jax", over_devices(theirs), x)
            setting = f"{attributes} {dtype}"
            yield Compared(
                "op", name, setting, "jax", "accumulated", ours, found, refusal
            )
