"""A call that works of every public function, and a model in a file."""

import numpy as np
import pytest

from aotc import collectives, complexes, fft, optim
from aotc import numpy as anp
from tests.aotc.dumps import MODEL


def given(*args, **kwargs):
    """The arguments of a call."""
    return args, kwargs


rng = np.random.default_rng(0)


def floats(*shape):
    return rng.uniform(0.1, 0.9, shape).astype("f4")


x, y, line, cube = floats(3, 4), floats(3, 4), floats(6), floats(2, 4, 4)
square, image = floats(3, 3) + 3 * np.eye(3, dtype="f4"), floats(1, 8, 8, 4)
whole = np.array([[1, 2, 0, 1], [0, 1, 2, 1], [2, 0, 1, 0]], "i4")
ids = np.array([0, 2, 1], "i4")
labels = np.array([0, 3, 1], "i4")
signs = np.array([1, -1, 1], "f4")
mask = x > 0.5
key = np.array([0, 7], "u4")
z = complexes.Complex(anp.asarray(x), anp.asarray(y))
devices = collectives.Axis("data", 2)
descent, schedule = optim.sgd(0.1), optim.linear_schedule(0.1, 0.0, 10)


def each(family, names, *args, **kwargs):
    """Return a call for each of several functions."""
    return {f"{family}.{name}": given(*args, **kwargs) for name in names.split()}


UNARY = """
    abs absolute acos acosh all amax amin any arccos arccosh arcsin arcsinh arctan
    arctanh argmax argmin argsort around array asarray asin asinh atan atanh atleast_1d
    atleast_2d atleast_3d average cbrt ceil clip cos cosh count_nonzero cumlogsumexp
    cummax cummin cumprod cumsum deg2rad degrees diag diagflat diagonal diff ediff1d exp
    exp2 expm1 fabs fix flip fliplr flipud floor frexp gradient histogram
    histogram_bin_edges isfinite isinf isnan isneginf isposinf log log10 log1p log2
    logical_not matrix_transpose max mean median min modf nan_to_num nanargmax nanargmin
    nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar
    ndim negative ones_like permute_dims positive prod ptp rad2deg radians ravel
    reciprocal rint rot90 round rsqrt shape sign signbit sin sinc sinh size sort sqrt
    square squeeze std sum tan tanh trace transpose trapezoid tril triu trunc var
    zeros_like
"""
BINARY = """
    add allclose append arctan2 atan2 broadcast_arrays copysign divide divmod equal
    float_power floor_divide fmax fmin fmod greater greater_equal heaviside hypot
    isclose isin kron less less_equal linear_recurrence logaddexp logaddexp2 logical_and
    logical_or logical_xor maximum meshgrid minimum mod multiply nextafter not_equal
    outer pow power remainder subtract true_divide vdot inner
"""
OPTIMIZERS = """
    adadelta adafactor adagrad adam adamax adamaxw adamw lamb lion nadam nadamw rmsprop
    sgd
"""
SCALED = """
    scale_by_adadelta scale_by_adam scale_by_adamax scale_by_factored_rms scale_by_lion
    scale_by_param_block_norm scale_by_param_block_rms scale_by_rms scale_by_rss
    scale_by_stddev scale_by_trust_ratio
"""
ACTIVATIONS = """
    celu elu geglu gelu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh
    leaky_relu log_sigmoid log_softmax logsumexp mish relu relu6 selu sigmoid silu
    soft_shrink soft_sign softmax softmin softplus softsign squareplus stop_gradient
    swiglu swish tanh_shrink l2_normalize layer_norm rms_norm
"""
PAIR_LOSSES = """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_similarity focal_loss
    hinge_loss huber_loss kl_divergence l1_loss mse_loss poisson_nll_loss smooth_l1_loss
"""

CALLS = {
    **each("numpy", UNARY, x),
    **each("numpy", BINARY, x, y),
    **each("numpy", "bitwise_and bitwise_or bitwise_xor left_shift right_shift "
        "bitwise_left_shift bitwise_right_shift", whole, whole),
    **each("numpy", "bitwise_count bitwise_invert bitwise_not count_leading_zeros "
        "invert", whole),
    "numpy.arange": given(2, 9, 3, "i32"),
    "numpy.argpartition": given(x, 1),
    "numpy.partition": given(x, 1),
    "numpy.array_split": given(line, 4),
    "numpy.split": given(line, 3),
    "numpy.dsplit": given(cube, 2),
    "numpy.hsplit": given(x, 2),
    "numpy.vsplit": given(x, 3),
    "numpy.astype": given(x, "i32"),
    "numpy.bincount": given(ids, length=3),
    "numpy.bitcast": given(x, "i32"),
    "numpy.block": given([[x, x], [x, y]]),
    "numpy.broadcast_shapes": given((3, 1), (1, 4)),
    "numpy.broadcast_to": given(x, (2, 3, 4)),
    "numpy.choose": given(whole, [x, y, x]),
    "numpy.column_stack": given([x, y]),
    "numpy.compress": given([True, False, True], x, 0),
    "numpy.concatenate": given([x, y]),
    "numpy.convolve": given(line, line),
    "numpy.correlate": given(line, line),
    "numpy.cross": given(square, square),
    "numpy.cumulative_prod": given(line),
    "numpy.cumulative_sum": given(line),
    "numpy.delete": given(x, 1, 0),
    "numpy.diag_indices": given(3),
    "numpy.digitize": given(x, np.array([0.2, 0.5], "f4")),
    "numpy.dot": given(x, square[:, 0:1].repeat(4, 0)[:4]),
    "numpy.dot_general": given(x, y, ((1,), (1,)), ((0,), (0,))),
    "numpy.dstack": given([x, y]),
    "numpy.dynamic_slice": given(x, ids[:2], (2, 2)),
    "numpy.dynamic_update_slice": given(x, y[:2, :2], ids[:2]),
    "numpy.einsum": given("ij,ij->i", x, y),
    "numpy.expand_dims": given(x, 1),
    "numpy.eye": given(3),
    "numpy.fromfunction": given(lambda i, j: i * j, (3, 4)),
    "numpy.full": given((2, 3), 1.5),
    "numpy.full_like": given(x, 2),
    "numpy.geomspace": given(1.0, 8.0, 4),
    "numpy.getitem": given(x, (1, slice(None))),
    "numpy.hstack": given([x, y]),
    "numpy.identity": given(3),
    "numpy.indices": given((2, 3)),
    "numpy.insert": given(x, 1, 0.5, 0),
    "numpy.ldexp": given(x, whole),
    "numpy.lexsort": given([line, line]),
    "numpy.linspace": given(0.0, 1.0, 5),
    "numpy.logspace": given(0.0, 1.0, 5),
    "numpy.matmul": given(square, square),
    "numpy.moveaxis": given(cube, 0, 2),
    "numpy.nanpercentile": given(x, 50.0),
    "numpy.nanquantile": given(x, 0.5),
    "numpy.percentile": given(x, 50.0),
    "numpy.quantile": given(x, 0.5),
    "numpy.ones": given((2, 3)),
    "numpy.zeros": given((2, 3)),
    "numpy.pad": given(x, ((1, 1), (0, 2))),
    "numpy.polyval": given(line, x),
    "numpy.put_along_axis": given(x, whole, y, 1),
    "numpy.ravel_multi_index": given((ids, ids), (3, 3)),
    "numpy.repeat": given(x, 2, 0),
    "numpy.reshape": given(x, (4, 3)),
    "numpy.resize": given(x, (2, 5)),
    "numpy.roll": given(x, 1, 0),
    "numpy.rollaxis": given(cube, 2),
    "numpy.searchsorted": given(np.array([0.2, 0.5], "f4"), x),
    "numpy.select": given([mask, mask], [x, y]),
    "numpy.stack": given([x, y]),
    "numpy.swapaxes": given(x, 0, 1),
    "numpy.take": given(x, ids, 0),
    "numpy.take_along_axis": given(x, whole, 1),
    "numpy.tensordot": given(x, y, 2),
    "numpy.tile": given(x, (2, 1)),
    "numpy.top_k": given(x, 2),
    "numpy.tri": given(3),
    "numpy.tril_indices": given(3),
    "numpy.triu_indices": given(3),
    "numpy.unravel_index": given(ids, (2, 3)),
    "numpy.vander": given(line, 3),
    "numpy.vstack": given([x, y]),
    "numpy.where": given(mask, x, y),
    "numpy.unstack": given(x),
    **each("numpy", "argwhere flatnonzero nonzero unique", whole, size=4),
    **each("numpy", "intersect1d setdiff1d union1d", line, line, size=6),
    **each("numpy", "bartlett blackman hamming hanning empty", 5),
    **each("numpy", "copy corrcoef cov empty_like unwrap", x),
    **each("numpy", "tril_indices_from triu_indices_from", x),
    "numpy.finfo": given("f32"),
    "numpy.iinfo": given("i32"),
    **each("numpy", "gcd lcm", whole, whole),
    **each("numpy", "array_equal vecdot", x, y),
    "numpy.concat": given([x, y]),
    "numpy.diag_indices_from": given(square),
    "numpy.extract": given(mask, x, size=4),
    "numpy.interp": given(x, np.sort(line), line),
    "numpy.ix_": given(ids, ids),
    "numpy.kaiser": given(5, 2.0),
    "numpy.matvec": given(square, square[0]),
    "numpy.vecmat": given(square[0], square),
    **each("nn", ACTIVATIONS, x),
    **each("nn", PAIR_LOSSES, x, y),
    **each("nn", "adaptive_avg_pool adaptive_max_pool avg_pool max_pool sum_pool "
        "depth_to_space pixel_shuffle pixel_unshuffle space_to_depth group_norm "
        "local_response_norm", image, 2),
    **each("nn", "global_avg_pool global_max_pool instance_norm", image),
    "nn.attention": given(image, image, image),
    "nn.batch_norm": given(x, x[0], y[0]),
    "nn.batch_norm_training": given(x, x[0], y[0]),
    "nn.conv": given(image, floats(3, 3, 4, 2)),
    "nn.conv1d": given(floats(1, 8, 4), floats(3, 4, 2)),
    "nn.conv2d": given(image, floats(3, 3, 4, 2)),
    "nn.conv3d": given(floats(1, 4, 4, 4, 2), floats(2, 2, 2, 2, 1)),
    "nn.conv_general_dilated": given(image, floats(3, 3, 4, 2)),
    "nn.conv_transpose": given(image, floats(3, 3, 4, 2)),
    "nn.cosine_embedding_loss": given(x, y, signs),
    "nn.cross_entropy": given(x, labels),
    "nn.nll_loss": given(x, labels),
    "nn.dense": given(x, floats(4, 2)),
    "nn.dequantize": given(whole.astype("i1"), 0.5),
    "nn.dropout": given(key, x, 0.5),
    "nn.embedding": given(x, ids),
    "nn.fake_quantize": given(x, 0.5),
    "nn.gaussian_nll_loss": given(x, y, x),
    "nn.global_lp_pool": given(image, 2.0),
    "nn.grid_sample": given(image, floats(1, 5, 5, 2)),
    "nn.gru": given(floats(5, 3, 4), floats(4, 6), floats(2, 6)),
    "nn.gru_cell": given(x, floats(3, 2), floats(4, 6), floats(2, 6)),
    "nn.gumbel_softmax": given(key, x),
    "nn.integer_conv": given(
        image.astype("i1"), floats(3, 3, 4, 2).astype("i1")
    ),
    "nn.lora": given(lambda params, x: x, rank=2, alpha=4.0),
    "nn.sparse_update": given(lambda params, x: x, layers="*", memory=1000),
    "nn.lp_pool": given(image, 2.0, 2),
    "nn.lstm": given(floats(5, 3, 4), floats(4, 8), floats(2, 8)),
    "nn.lstm_cell": given(x, floats(3, 2), floats(3, 2), floats(4, 8), floats(2, 8)),
    **each("nn", "hinge_embedding_loss soft_margin_loss", x, y),
    "nn.margin_ranking_loss": given(x, y, x),
    "nn.pairwise_distance": given(x, y),
    "nn.mixture_of_experts": given(
        lambda xs: xs, floats(2, 5, 4), floats(2, 5, 3), k=2, capacity=4
    ),
    "nn.multi_head_attention": given(
        floats(1, 3, 4), *(floats(4, 2, 2) for _ in range(3)), floats(2, 2, 4)
    ),
    "nn.one_hot": given(ids, 3),
    "nn.prelu": given(x, floats(4)),
    "nn.quantization_scale": given(-1.0, 1.0),
    "nn.quantize": given(x, 0.5),
    "nn.quantized_conv": given(
        image.astype("i1"), floats(3, 3, 4, 2).astype("i1"), 0.5, 0.5
    ),
    "nn.quantized_matmul": given(
        whole.astype("i1"), whole.T.astype("i1").copy(), 0.5, 0.5
    ),
    "nn.ragged_dot": given(floats(5, 4), floats(2, 4, 3), [2, 3]),
    "nn.resize": given(image, 4),
    "nn.rotary_embedding": given(image),
    "nn.scope": given("layer"),
    "nn.simple_rnn": given(floats(5, 3, 4), floats(4, 2), floats(2, 2)),
    "nn.simple_rnn_cell": given(x, floats(3, 2), floats(4, 2), floats(2, 2)),
    "nn.threshold": given(x, 0.5, 0.0),
    "nn.triplet_margin_loss": given(x, y, x),
    **each("linalg", "cho_factor cholesky cond det diagonal eigh eigvalsh expm inv lu "
        "lu_factor matrix_norm matrix_rank matrix_transpose norm pinv qr slogdet svd "
        "svdvals trace vector_norm", square),
    **each("linalg", "cross lstsq matmul solve solve_triangular tensordot", square,
           square),
    "linalg.outer": given(line, line),
    "linalg.block_diag": given(x, y),
    "linalg.cho_solve": given((square, True), square),
    "linalg.lu_solve": given((square, ids), square),
    "linalg.matrix_power": given(square, 3),
    "linalg.multi_dot": given([square, square, square]),
    "linalg.tensorinv": given(square, 1),
    "linalg.tensorsolve": given(square, square[0]),
    **each("complexes", "absolute angle arccos arccosh arcsin arcsinh arctan arctanh "
        "as_complex cbrt conj cos cosh exp exp2 expit expm1 log log10 log1p log2 rsqrt "
        "sign sin sinh sqrt square tan tanh", z),
    **each("complexes", "arctan2 equal not_equal power", z, z),
    "complexes.polar": given(x, y),
    **each("fft", "dct fft fft2 fftn fftshift hfft idct ifft ifft2 ifftn ifftshift "
        "ihfft irfft irfft2 irfftn rfft rfft2 rfftn as_complex", cube),
    **each("fft", "absolute angle conj exp", z),
    "fft.stft": given(line, 4),
    "fft.istft": given(fft.stft(line, 4), 4),
    "fft.fftfreq": given(5),
    "fft.rfftfreq": given(5),
    "fft.polar": given(x, y),
    **each("special", "digamma entr erf erfc erfinv expit gammaln i0 i0e i1 i1e "
        "log_ndtr logit logsumexp ndtr ndtri psi", x),
    **each("special", "betaln xlog1py xlogy", x, y),
    "special.polygamma": given(2, x),
    **each("random", "bits cauchy exponential gumbel laplace logistic normal "
        "rademacher uniform", key, (2, 3)),
    **each("random", "chisquare gamma loggamma t", key, x),
    **each("random", "geometric lognormal pareto poisson rayleigh", key, x),
    "random.triangular": given(key, 0.1, 0.2, 0.3),
    "random.weibull_min": given(key, 0.1, 0.2),
    "random.maxwell": given(key, (2, 3)),
    "random.binomial": given(key, 5, x),
    "random.multivariate_normal": given(key, square[0], square),
    "random.orthogonal": given(key, 3),
    "random.bernoulli": given(key, 0.5, (2, 3)),
    "random.beta": given(key, x, y),
    "random.categorical": given(key, x),
    "random.choice": given(key, line, (2,)),
    "random.dirichlet": given(key, line),
    "random.fold_in": given(key, 3),
    "random.key": given(3),
    "random.permutation": given(key, line),
    "random.randint": given(key, (2, 3), 0, 9),
    "random.split": given(key, 3),
    "random.stochastic_round": given(key, x),
    "random.truncated_normal": given(key, -1.0, 1.0, (2, 3)),
    "control.associative_scan": given(anp.add, x),
    "control.cond": given(True, anp.exp, anp.sin, x),
    "control.fori_loop": given(0, 3, lambda i, carried: anp.exp(carried), x),
    "control.map": given(anp.exp, x),
    "control.reduce": given(anp.add, x),
    "control.reduce_window": given("max", x, (2, 2)),
    "control.scan": given(lambda c, e: (anp.add(c, e), c), x[0], x),
    "control.switch": given(1, [anp.exp, anp.sin], x),
    "control.while_loop": given(
        lambda c: anp.any(anp.isnan(anp.asarray(c, "f32"))), anp.zeros_like, x
    ),
    "solvers.dense_solve": given(lambda v: anp.multiply(v, 2), line),
    "solvers.fixed_point": given(anp.cos, line),
    "solvers.linear_solve": given(lambda v: anp.multiply(v, 2), line),
    "solvers.root": given(lambda v: anp.subtract(anp.square(v), 0.5), line),
    "collectives.all_gather": given(x, devices),
    "collectives.all_reduce": given(x, devices),
    "collectives.all_to_all": given(whole[:2], devices),
    "collectives.axis_index": given(devices),
    "collectives.permute": given(x, devices, [(0, 1)]),
    "collectives.reduce_scatter": given(whole[:2], devices),
    "collectives.send": given(x, devices, 0, 1),
    "debug.barrier": given(x),
    "debug.check": given(x > 0, "all are positive"),
    "debug.print": given("{} and {}", x, whole),
    "transforms.grad": given(anp.sum),
    "transforms.value_and_grad": given(anp.sum),
    "transforms.vjp": given(anp.sin, x),
    "transforms.jvp": given(anp.sin, (x,), (y,)),
    "transforms.hessian": given(anp.sum),
    **each("transforms", "jacfwd jacrev", anp.sin),
    "transforms.hvp": given(anp.sum, (x,), (y,)),
    "transforms.linearize": given(anp.sin, x),
    "transforms.vmap": given(anp.sin),
    "transforms.mixed_precision": given(anp.sin),
    **each("optim", OPTIMIZERS, 0.1),
    **each("optim", "identity set_to_zero"),
    **each("optim", "clip clip_by_block_rms clip_by_global_norm", 1.0),
    **each("optim", "ema trace", 0.9),
    "optim.add_decayed_weights": given(1e-4, mask=[True, False]),
    "optim.apply_if_finite": given(descent, 3),
    "optim.dynamic_loss_scale": given(descent, 8.0, 3, 2.0, 1.0),
    "optim.apply_updates": given(x, y),
    "optim.chain": given(descent, descent),
    "optim.constant_schedule": given(0.1),
    "optim.cosine_decay_schedule": given(0.1, 10),
    "optim.exponential_decay": given(0.1, 10, 0.5),
    "optim.global_norm": given({"a": x}),
    "optim.incremental_update": given(x, y, 0.1),
    "optim.join_schedules": given([schedule, schedule], [5]),
    "optim.linear_schedule": given(0.1, 0.0, 10),
    "optim.masked": given(descent, {"a": True}),
    "optim.piecewise_constant_schedule": given(0.1, {5: 0.5}),
    "optim.polynomial_schedule": given(0.1, 0.0, 2, 10),
    "optim.scale": given(0.1),
    "optim.scale_by_learning_rate": given(0.1),
    "optim.scale_by_schedule": given(schedule),
    "optim.stateless": given(lambda updates, params: updates),
    "optim.warmup_constant_schedule": given(0.0, 0.1, 5),
    "optim.warmup_cosine_decay_schedule": given(0.0, 0.1, 5, 10),
    "optim.warmup_exponential_decay_schedule": given(0.0, 0.1, 5, 10, 0.5),
    **each("optim", SCALED),
}  # fmt: skip


@pytest.fixture(scope="session")
def calls():
    """Arguments that work, by the name of the function."""
    return CALLS


@pytest.fixture
def source(tmp_path):
    """A model of two entries."""
    file = tmp_path / "pair.py"
    file.write_text(MODEL)
    return file
