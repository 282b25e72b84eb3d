"""Functions of other namespaces that networks use, too."""

from aotc.nn import initializers
from aotc.numpy.exponential import softplus
from aotc.special.log_sums import logsumexp
from aotc.tracing.source_locations import scope

__all__ = ["initializers", "logsumexp", "scope", "softplus"]
