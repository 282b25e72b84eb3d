"""The public names of `aotc.linalg`: those that each file states in `__all__`."""

from aotc.linalg.factorizing import *
from aotc.linalg.matrix_exponential import *
from aotc.linalg.norms import *
from aotc.linalg.shared import *
from aotc.linalg.solving import *
from aotc.tracing.calls import publish

publish(globals())
