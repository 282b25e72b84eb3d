"""The public names of `aotc.special`: those that each file states in `__all__`."""

from aotc.special.bessel import *
from aotc.special.functions import *
from aotc.special.log_sums import *
from aotc.tracing.calls import publish

publish(globals())
