"""Functions that rearrange and join axes, of values that may be padded."""

from __future__ import annotations

from aotc import numpy as np
from aotc.importers.common.padded.op_rules import by_op_rules

expand = by_op_rules(np.broadcast_to)
reshape = by_op_rules(np.reshape)
stack = by_op_rules(np.stack)
