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

from aotc.nn import initializers
from aotc.nn.activations import (
    celu,
    elu,
    geglu,
    gelu,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_shrink,
    soft_sign,
    softsign,
    squareplus,
    swiglu,
    swish,
    tanh_shrink,
    threshold,
)
from aotc.nn.attending import (
    attention,
    multi_head_attention,
    rotary_embedding,
)
from aotc.nn.convolving import (
    conv,
    conv1d,
    conv2d,
    conv3d,
    conv_general_dilated,
    conv_transpose,
)
from aotc.nn.distances import (
    cosine_embedding_loss,
    cosine_similarity,
    hinge_embedding_loss,
    hinge_loss,
    margin_ranking_loss,
    pairwise_distance,
    soft_margin_loss,
    triplet_margin_loss,
)
from aotc.nn.layers import (
    dense,
    dropout,
    embedding,
    one_hot,
    stop_gradient,
)
from aotc.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    focal_loss,
    gaussian_nll_loss,
    huber_loss,
    kl_divergence,
    l1_loss,
    mse_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from aotc.nn.normalizing import (
    batch_norm,
    batch_norm_training,
    group_norm,
    gumbel_softmax,
    instance_norm,
    l2_normalize,
    layer_norm,
    local_response_norm,
    log_softmax,
    rms_norm,
    softmax,
    softmin,
)
from aotc.nn.pooling import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    global_avg_pool,
    global_lp_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    sum_pool,
)
from aotc.nn.quantizing import (
    dequantize,
    fake_quantize,
    integer_conv,
    quantization_scale,
    quantize,
    quantized_conv,
    quantized_matmul,
)
from aotc.nn.ragged import ragged_dot
from aotc.nn.recurrent import (
    gru,
    gru_cell,
    lstm,
    lstm_cell,
    simple_rnn,
    simple_rnn_cell,
)
from aotc.nn.resizing import (
    depth_to_space,
    pixel_shuffle,
    pixel_unshuffle,
    resize,
    space_to_depth,
)
from aotc.nn.routing import Routing, mixture_of_experts
from aotc.nn.sampling import grid_sample
from aotc.numpy.exponential import softplus
from aotc.special.log_sums import logsumexp
from aotc.tracing.calls import guard
from aotc.tracing.source_locations import scope

__all__ = [
    "Routing",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "attention",
    "avg_pool",
    "batch_norm",
    "batch_norm_training",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_general_dilated",
    "conv_transpose",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dense",
    "depth_to_space",
    "dequantize",
    "dropout",
    "elu",
    "embedding",
    "fake_quantize",
    "focal_loss",
    "gaussian_nll_loss",
    "geglu",
    "gelu",
    "global_avg_pool",
    "global_lp_pool",
    "global_max_pool",
    "glu",
    "grid_sample",
    "group_norm",
    "gru",
    "gru_cell",
    "gumbel_softmax",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "hinge_embedding_loss",
    "hinge_loss",
    "huber_loss",
    "initializers",
    "instance_norm",
    "integer_conv",
    "kl_divergence",
    "l1_loss",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "local_response_norm",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "lp_pool",
    "lstm",
    "lstm_cell",
    "margin_ranking_loss",
    "max_pool",
    "mish",
    "mixture_of_experts",
    "mse_loss",
    "multi_head_attention",
    "nll_loss",
    "one_hot",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "quantization_scale",
    "quantize",
    "quantized_conv",
    "quantized_matmul",
    "ragged_dot",
    "relu",
    "relu6",
    "resize",
    "rms_norm",
    "rotary_embedding",
    "scope",
    "selu",
    "sigmoid",
    "silu",
    "simple_rnn",
    "simple_rnn_cell",
    "smooth_l1_loss",
    "soft_margin_loss",
    "soft_shrink",
    "soft_sign",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "space_to_depth",
    "squareplus",
    "stop_gradient",
    "sum_pool",
    "swiglu",
    "swish",
    "tanh_shrink",
    "threshold",
    "triplet_margin_loss",
]


guard(globals(), __all__)
