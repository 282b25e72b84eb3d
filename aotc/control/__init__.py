"""Control flow: branches and loops that the model decides when it runs.

Names and arguments are those of jax.lax. What a branch or a body reads from around it
is captured; what it carries is a pytree whose types stay the same. Where nothing is
traced the same functions run as Python loops, on arrays that have values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.control.flow import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.control.flow")
