"""SciPy's special functions on `Array`s, under the names of `scipy.special`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.special.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.special.namespace")
