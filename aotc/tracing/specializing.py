"""`aotc.specialize`: a value of the call, for which code is made."""

from __future__ import annotations

from typing import Any

from aotc.tracing.call_values import guarded_value
from aotc.tracing.conversion import lift


def specialize(x: object) -> Any:
    """Return the value of `x` in the traced call, and specialize the code to it.

    In a function of `aotc.jit`, a guard checks each later call: where the value is
    another one, the function is traced and compiled for that. For flags, modes and
    small tables on which Python decides.

    Args:
        x: an array of at most 1024 elements, traced or not.

    Returns:
        A Python number for a scalar, else a NumPy array that is not to be changed.

    Raises:
        InputError: `no-call`: an entry of a model is traced, or the body of a loop or
            branch; `large-guard`: there are too many elements.
    """
    array = lift(x)
    data = array._known if array._known is not None else guarded_value(array)
    return data.item() if data.ndim == 0 else data
