"""The public functions against those of the same name elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax.numpy as jnp
import jax.scipy.fft
import jax.scipy.linalg
import jax.scipy.special
import numpy as np
import scipy.fft
import scipy.linalg
import scipy.special
import torch

import aotc.fft
import aotc.linalg
import aotc.numpy
import aotc.special
from benchmarks.parity import settings, settings_libraries, settings_moving
from benchmarks.parity.agreement import Compared, asked
from benchmarks.parity.settings import Setting

OURS = {
    "numpy": aotc.numpy,
    "special": aotc.special,
    "linalg": aotc.linalg,
    "fft": aotc.fft,
}
# Where each peer has the functions of our packages; the first that has it counts.
PLACES = {
    "numpy": {
        "numpy": (np, scipy.special, scipy.linalg, scipy.fft),
        "jax": (jnp,),
        "torch": (torch, torch.special),
    },
    "special": {
        "numpy": (scipy.special,),
        "jax": (jax.scipy.special,),
        "torch": (torch.special,),
    },
    "linalg": {
        "numpy": (np.linalg, scipy.linalg),
        "jax": (jnp.linalg, jax.scipy.linalg),
        "torch": (torch.linalg,),
    },
    "fft": {
        "numpy": (np.fft, scipy.fft),
        "jax": (jnp.fft, jax.scipy.fft),
        "torch": (torch.fft,),
    },
}
# What a peer says in other words.
ADAPTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "argsort"): partial(np.argsort, stable=True),
    ("torch", "equal"): torch.eq,
}
FAMILIES = (
    settings.unary, settings.binary, settings.several, settings.reductions,
    settings.nan_reductions, settings.cumulative, settings.orders,
    settings.distributions, settings_moving.shapes, settings_moving.turns,
    settings_moving.repeats, settings_moving.joins, settings_moving.choices,
    settings_moving.diagonals, settings_moving.creations, settings_moving.products,
    settings_libraries.special, settings_libraries.linalg, settings_libraries.norms,
    settings_libraries.single_matrices, settings_libraries.fourier,
    settings_libraries.spectra,
)  # fmt: skip


def all_settings() -> Iterator[Setting]:
    """Yield the settings of all families, with the same numbers each time."""
    settings.rng = np.random.default_rng(0)
    for family in FAMILIES:
        yield from family()


def full_name(setting: Setting) -> str:
    """Return the setting's function name as a user writes it."""
    return f"{setting.package}.{setting.name}"


def ours_of(setting: Setting) -> Callable[..., Any]:
    """Return aotc's function of a setting."""
    return getattr(OURS[setting.package], setting.name)


def peer_of(setting: Setting, peer: str) -> tuple[str, Callable[..., Any]] | None:
    """Return (library, function) of a peer for a setting; None if it has none."""
    for place in PLACES[setting.package][peer]:
        if hasattr(place, setting.name):
            library = place.__name__.partition(".")[0]
            function = getattr(place, setting.name)
            return library, ADAPTED.get((library, setting.name), function)
    return None


def compared() -> Iterator[Compared]:
    """Yield each setting's results beside each peer's."""
    for setting in all_settings():
        ours = ours_of(setting)(*setting.args, **setting.kwargs)
        for peer in setting.peers:
            found = peer_of(setting, peer)
            if found is None:
                continue
            library, function = found
            theirs, refusal = asked(library, function, *setting.args, **setting.kwargs)
            name, label = full_name(setting), str(setting)
            yield Compared(
                "function", name, label, library, setting.kind, ours, theirs, refusal
            )
