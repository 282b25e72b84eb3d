"""Every case of every function beside its peer."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cases import Case, pairs, single
from .outcomes import Outcome, ours, theirs, verdict
from .parameters import NOT_COMPARED, has_signed_zeros
from .peers import given, peer_of
from .settings import bases, public_functions

FAMILIES = ("numpy", "linalg", "fft", "special", "nn", "complexes")


@dataclass(frozen=True)
class Compared:
    """A case with the outcomes of aotc and of a peer, and the verdict."""

    case: Case
    library: str
    verdict: str
    our: Outcome
    their: Outcome

    def __str__(self) -> str:
        return (
            f"{self.verdict}: {self.case}\n    ours {self.our.told}"
            f"\n    {self.library} {self.their.told}"
        )


def compared(
    libraries: frozenset[str], only: str = "", drawn: int = 0, seed: int = 0
) -> Iterator[Compared]:
    """Yield the comparisons of all cases of functions whose names contain `only`.

    Args:
        libraries: the peers to compare with.
        only: a part of a name.
        drawn: how many cases with two edges of each call, instead of those with one.
        seed: of what is drawn.
    """
    for family in FAMILIES:
        for name, function in public_functions(family).items():
            if (
                only in name
                and name not in NOT_COMPARED
                and peer_of(name, libraries) is not None
            ):
                signature = inspect.signature(function)
                draw = random.Random(f"{seed} {name}")
                for base in bases(name, signature):
                    found = (
                        pairs(signature, base, draw, drawn)
                        if drawn
                        else single(signature, base)
                    )
                    for case in filter(is_bounded, found):
                        each = compare(function, signature, case, libraries)
                        if each is not None:
                            yield each


def compare(
    function: Any, signature: inspect.Signature, case: Case, libraries: frozenset[str]
) -> Compared | None:
    """Call aotc's and the peer's function; None if the peer lacks the arguments."""
    peer = peer_of(case.function, libraries)
    assert peer is not None
    library, their_function = peer
    ordered = {
        p: case.arguments[p] for p in signature.parameters if p in case.arguments
    }
    bound = inspect.BoundArguments(signature, ordered)  # type: ignore[arg-type]
    kwargs = {
        name: given(library, value)
        for name, value in bound.kwargs.items()
        if not _is_default(value, signature.parameters[name].default)
    }
    args = given(library, bound.args)
    their = theirs(their_function, args, kwargs)
    if their.code == "lacking":
        return None
    our = ours(function, bound.args, bound.kwargs)
    dtypes = frozenset(_dtypes(list(case.arguments.values())))
    signed = has_signed_zeros(case.function)
    found = verdict(our, their, dtypes, signed)
    if found in ("differs", "looser") and gives_floats(our):
        # by the rule that functions of real numbers take integers as f32
        args, kwargs = integers_as_floats(args), integers_as_floats(kwargs)
        other = theirs(their_function, args, kwargs)
        again = verdict(our, other, dtypes, signed)
        found, their = (again, other) if again == "same" else (found, their)
    return Compared(case, library, found, our, their)


def is_bounded(case: Case) -> bool:
    """Return whether NumPy's call ends with little memory; `bincount` may not."""
    edges = " ".join(what for _, what in case.edges)
    if case.function == "numpy.bincount":
        return re.search("largest|extremes", edges) is None
    if case.function.startswith("linalg."):
        return re.search("infinit|NaN|extremes|largest number", edges) is None
    return True


def gives_floats(our: Outcome) -> bool:
    """Return whether a result has an f32 array."""
    return any(x.dtype == "f4" for x in our.leaves or ())


def integers_as_floats(value: Any) -> Any:
    """Return arguments with integer and bool arrays converted to f32."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iub":
        return value.astype("f4")
    if type(value) in (list, tuple):
        return type(value)(map(integers_as_floats, value))
    if type(value) is dict:
        return {name: integers_as_floats(part) for name, part in value.items()}
    return value


def _is_default(value: Any, default: Any) -> bool:
    """Return whether an argument equals its parameter's default."""
    return value is default or (
        isinstance(value, (int, float, str, bool))
        and type(value) is type(default)
        and repr(value) == repr(default)
    )


def _dtypes(value: Any) -> Iterator[str]:
    """Yield the dtypes of all arrays in an argument."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _dtypes(part)
    elif hasattr(value, "dtype"):
        yield str(np.asarray(getattr(value, "_data", value)).dtype)
