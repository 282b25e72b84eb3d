"""The public names of `aotc.numpy`: those that each file states in `__all__`."""

from aotc.numpy.bits import *
from aotc.numpy.broadcasting import *
from aotc.numpy.constants import *
from aotc.numpy.contracting import *
from aotc.numpy.counting import *
from aotc.numpy.creation import *
from aotc.numpy.cumulative import *
from aotc.numpy.diagonals import *
from aotc.numpy.dividing import *
from aotc.numpy.dynamic import *
from aotc.numpy.elementwise import *
from aotc.numpy.exponential import *
from aotc.numpy.finding import *
from aotc.numpy.gathering import *
from aotc.numpy.indexing import *
from aotc.numpy.interpolating import *
from aotc.numpy.joining import *
from aotc.numpy.limits import *
from aotc.numpy.nan_reducing import *
from aotc.numpy.ordering import *
from aotc.numpy.padding import *
from aotc.numpy.predicates import *
from aotc.numpy.products import *
from aotc.numpy.quantiles import *
from aotc.numpy.reducing import *
from aotc.numpy.rounding import *
from aotc.numpy.second_names import *
from aotc.numpy.sequences import *
from aotc.numpy.shaping import *
from aotc.numpy.statistics import *
from aotc.numpy.tapers import *
from aotc.numpy.trigonometric import *
from aotc.tracing.calls import publish

publish(globals())
