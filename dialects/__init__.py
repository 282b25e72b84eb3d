"""The graph dialect: ops by family, each a class with all its rules.

`OPS` holds every op by name, in the order of its families. `context()` is the one
owner of the MLIR context into which the dialect is loaded. `matrix()` is the op × rule
table that `aotc ops` prints.
"""

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.dialects.table import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.dialects.table")
