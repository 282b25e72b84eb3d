"""Layers and losses as functions: parameters are arguments, never hidden state.

Images are N, spatial…, C ("NHWC"); kernels are spatial…, C / groups, F ("HWIO").
Losses take predictions (or scores, logits) and targets in one dtype, and `reduction`:
"none" for a loss for each element or example, "mean" or "sum" for a scalar; another one
raises `bad-reduction`. Elementwise losses need both in one shape, they do not broadcast
(`shape-mismatch`). All functions of real numbers take integers as f32; gates and losses
keep the dtype of floats.

The functions are defined by family in this folder; `initializers` has the first values
of parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotc.core.deferring import lazy_attributes

if TYPE_CHECKING:
    from aotc.nn.namespace import *  # noqa: F403

__getattr__, __dir__ = lazy_attributes(__name__, "aotc.nn.namespace")
