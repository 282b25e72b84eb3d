"""The public names of `aotc.optim`: those that each file states in `__all__`."""

from aotc.optim.adaptive import *
from aotc.optim.clipping import *
from aotc.optim.factored import *
from aotc.optim.loss_scaling import *
from aotc.optim.masking import *
from aotc.optim.moments import *
from aotc.optim.numbers import *
from aotc.optim.optimizers import *
from aotc.optim.scaling import *
from aotc.optim.schedules import *
from aotc.optim.transformation import *
from aotc.optim.wrapping import *
from aotc.tracing.calls import publish

publish(globals())
