"""Agreement of a peer with aotc, by the outputs of one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aotc.core import dtypes
from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.evidence.messages import Outputs
from aotc.evidence.peers.engine import Array
from aotc.evidence.peers.matching import match_outputs

# the largest difference allowed, in parts of the largest element; others are exact
TOLERANCES = {"f64": 1e-6, "f32": 1e-3, "f16": 1e-2, "bf16": 4e-2}


@dataclass(frozen=True)
class Agreement:
    """The distance of a peer's outputs from those of one of aotc's contenders.

    Args:
        reference: name of that contender.
        error: the largest difference of an output, in parts of its largest element.
        tolerance: the largest of those that were allowed.
    """

    reference: str
    error: float
    tolerance: float

    def to_json(self) -> JsonObject:
        """Return the fields by name."""
        return dict(vars(self))


def require_agreement(
    peer: str, found: Outputs, reference: str, expected: Outputs
) -> Agreement:
    """Compare a peer's outputs with aotc's; raise if they differ beyond the tolerance.

    Args:
        peer: its name.
        found: its outputs.
        reference: the name of a contender of aotc.
        expected: the outputs of that.

    Raises:
        InputError: `peer-mismatch`, `peer-differs`.
    """
    names = [name for name, _ in expected]
    places = match_outputs(peer, [name for name, _ in found], names)
    errors, allowed = [0.0], [0.0]
    for (name, wanted), place in zip(expected, places, strict=True):
        array = found[place][1]
        dtype = dtypes.canonical_dtype(wanted.dtype)
        what = f"{dtype}{list(wanted.shape)}"
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            got = f"{array.dtype}{list(array.shape)}"
            raise _differs(peer, reference, f"expected {what} as {name}; got {got}")
        tolerance = TOLERANCES.get(dtype, 0.0)
        error = relative_error(array, wanted)
        if not error <= tolerance:
            raise _differs(
                peer,
                reference,
                f"{name}, {what}, differs by {error:.1e} of its largest element, "
                f"where {tolerance:.0e} is allowed",
            )
        errors.append(error)
        allowed.append(tolerance)
    return Agreement(reference, max(errors), max(allowed))


def relative_error(found: Array, expected: Array) -> float:
    """Return the largest difference relative to the largest expected element.

    Elements that are not finite have to be the same.
    """
    x, y = (each.astype(np.float64).ravel() for each in (found, expected))
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return float("inf")
    x, y = x[finite], y[finite]
    largest = np.abs(y).max(initial=0.0)
    worst = float(np.abs(x - y).max(initial=0.0))
    return worst / float(largest) if largest else worst


def _differs(peer: str, reference: str, how: str) -> InputError:
    """Return the error for a peer whose outputs differ; `how` says in what."""
    return InputError(
        "peer-differs",
        f"{peer} computes something else than {reference} in the first call: {how}",
        hint="name a file of the same model, with the same weights",
    )


def describe(agreements: Sequence[tuple[str, Agreement]]) -> str:
    """Return a sentence on how far the peers' outputs differ from aotc's.

    Args:
        agreements: of peers, at least one, by their names.
    """
    said = ", ".join(f"{name} {each.error:.1e}" for name, each in agreements)
    return (
        f"peers compute what {agreements[0][1].reference} does: outputs of the first "
        f"call differ, in parts of the largest element, by at most: {said} (allowed: "
        f"{', '.join(f'{name} {most:.0e}' for name, most in TOLERANCES.items())}, "
        "others none)"
    )
