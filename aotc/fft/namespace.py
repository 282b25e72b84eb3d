"""The public names of `aotc.fft`: those that each file states in `__all__`."""

from aotc.fft.numbers import *
from aotc.fft.short_time import *
from aotc.fft.transforms import *
from aotc.tracing.calls import publish

publish(globals())
