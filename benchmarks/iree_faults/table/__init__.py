"""All faults of IREE that aotc avoids."""

from ..fault import Fault
from . import costly, refused, runtime, wrong

FAULTS: tuple[Fault, ...] = (
    *wrong.ROWS,
    *refused.ROWS,
    *costly.ROWS,
    *runtime.ROWS,
)
