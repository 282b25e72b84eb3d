"""The public names of `aotc.random`: those that each file states in `__all__`."""

from aotc.random.counts import *
from aotc.random.distributions import *
from aotc.random.drawing import *
from aotc.random.gammas import *
from aotc.random.rounding import *
from aotc.random.threefry import *
from aotc.random.transformed import *
from aotc.random.vectors import *
from aotc.tracing.calls import publish

publish(globals())
