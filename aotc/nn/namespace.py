"""The public names of `aotc.nn`: those that each file states in `__all__`."""

from aotc.nn.activations import *
from aotc.nn.attending import *
from aotc.nn.convolving import *
from aotc.nn.distances import *
from aotc.nn.layers import *
from aotc.nn.losses import *
from aotc.nn.low_rank import *
from aotc.nn.normalizing import *
from aotc.nn.pooling import *
from aotc.nn.quantized_weights import *
from aotc.nn.quantizing import *
from aotc.nn.ragged import *
from aotc.nn.recurrent import *
from aotc.nn.resizing import *
from aotc.nn.routing import *
from aotc.nn.sampling import *
from aotc.nn.shared import *
from aotc.nn.sparse_updates import *
from aotc.tracing.calls import publish

publish(globals())
