"""Kinds of steps: which function, of which values, with which settings.

Each form is a function of a `Scope`, which it adds steps to. Slices with steps, arrays
of constants, views and values that are read several times are common on purpose: that
is where compilers go wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .scope import Refused, Scope, Value

Form = Callable[[Scope], Any]

# ---- elementwise --------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Split a text into words."""
    return text.split()


def each(names: str, low: float, high: float) -> dict[str, tuple[float, float]]:
    """Return a dict from function names to their common domain."""
    return dict.fromkeys(words(names), (low, high))


# Functions of floats, and from where to where they are smooth and tame.
UNARY = {
    **each("abs absolute arcsinh arctan asinh atan cbrt cos deg2rad exp2", -1.2, 1.2),
    **each("expm1 fabs negative positive radians sin sinc sinh sign", -1.2, 1.2),
    **each("square tan tanh cosh exp nan_to_num", -1.2, 1.2),
    **each("degrees rad2deg", -0.1, 0.1),
    **each("floor ceil trunc fix rint round", -9, 9),
    **each("log log2 log10 log1p sqrt rsqrt reciprocal", 0.3, 5),
    **each("arcsin arccos arctanh asin acos atanh", -0.8, 0.8),
    **each("arccosh acosh", 1.2, 5),
}
NN_UNARY = words("""
    celu elu gelu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu
    log_sigmoid mish relu relu6 selu sigmoid silu soft_shrink soft_sign softplus
    softsign squareplus swish tanh_shrink
""")
SPECIAL_UNARY = {
    **each("erf erfc expit i0e i1e ndtr log_ndtr", -2, 2),
    **each("digamma gammaln psi", 0.4, 5),
    **each("logit ndtri", 0.1, 0.9),
    **each("erfinv", -0.8, 0.8),
    **each("entr", 0.1, 2),
}
PREDICATES = words("isfinite isnan isinf isneginf isposinf signbit logical_not")
FREE_BINARY = words("""
    add subtract multiply maximum minimum fmax fmin arctan2 hypot copysign logaddexp
    logaddexp2
""")
BINARY: dict[str, tuple[float, float] | None] = {
    **dict.fromkeys(FREE_BINARY),
    **each("divide true_divide", 0.5, 3.0),
    **each("power pow float_power", 0.5, 2.0),
    **each("fmod remainder mod floor_divide", 0.7, 3.0),
}
COMPARISONS = words("equal not_equal less less_equal greater greater_equal")
INTEGER_BINARY = words("""
    add subtract multiply maximum minimum bitwise_and bitwise_or bitwise_xor gcd
""")
INTEGER_UNARY = words("abs negative sign square invert bitwise_not bitwise_count")


def is_float(value: Value) -> bool:
    """Return whether a value is of floats."""
    return value.is_float


def is_integer(value: Value) -> bool:
    """Return whether a value is of integers."""
    return not value.is_float and value.dtype != "bool"


def has_axes(value: Value) -> bool:
    """Return whether a value is no scalar."""
    return value.rank > 0


def unary(s: Scope) -> Any:
    """Emit an elementwise function of one value."""
    x = s.pick(is_float)
    table = s.one_of(["np", "np", "nn", "special"])
    if table == "nn":
        return s.emit(f"nn.{s.one_of(NN_UNARY)}", s.within(x, -3, 3))
    domains = UNARY if table == "np" else SPECIAL_UNARY
    name = s.one_of(list(domains))
    return s.emit(f"{table}.{name}", s.within(x, *domains[name]))


def like(s: Scope, x: Value) -> Value:
    """Return another value of the same dtype, whose shape may broadcast."""
    others = [v for v in s.values if v.dtype == x.dtype and v.source != x.source]
    fitting = [v for v in others if v.kind.shape[-1:] == x.kind.shape[-1:]]
    return s.one_of(fitting if fitting and s.chance(0.8) else others or [x])


def binary(s: Scope) -> Any:
    """Emit a function of two values, or of a value and a number."""
    x = s.pick(is_float)
    name = s.one_of(list(BINARY))
    y: Any = like(s, x)
    if s.chance(0.2):
        y = s.one_of([0.5, 2.0, -1.5])
    domain = BINARY[name]
    if domain is not None:
        y = abs(y) if isinstance(y, float) else s.within(y, *domain)
        if "pow" in name:
            x = s.within(x, *domain)
    return s.emit(f"np.{name}", *((x, y) if s.chance(0.7) or domain else (y, x)))


def whole(s: Scope) -> Any:
    """Emit a function of integers."""
    x = s.pick(is_integer)
    if s.chance(0.3):
        return s.emit(f"np.{s.one_of(INTEGER_UNARY)}", x)
    if s.chance(0.3):
        name = s.one_of(["floor_divide", "remainder", "left_shift", "right_shift"])
        return s.emit(f"np.{name}", x, s.one_of([1, 2, 3]))
    return s.emit(f"np.{s.one_of(INTEGER_BINARY)}", x, like(s, x))


def far(s: Scope) -> Any:
    """Emit a periodic function of large arguments, or a power with a large exponent.

    They are made of integers, which are the same in every order of computation: of a
    number that is rounded in two ways, such functions have two values.
    """
    x = s.emit("np.astype", s.pick(is_integer), '"float32"')
    if s.chance(0.3):
        base = s.emit("np.add", s.emit("np.abs", x), 1.0)
        return s.emit("np.power", base, s.one_of([-7.5, 3.25, 12.5]))
    far = s.emit("np.multiply", x, s.one_of([977.5, 126264.5, 1e7, 3.2e22]))
    return s.emit(f"np.{s.one_of(['sin', 'cos'])}", far)


def compared(s: Scope) -> Any:
    """Emit a comparison, and perhaps a use of its mask."""
    x = s.pick(lambda v: v.dtype != "bool")
    if s.chance(0.2) and x.is_float:
        mask = s.emit(f"np.{s.one_of(PREDICATES)}", x)
    else:
        other = s.one_of([0.25, like(s, x)]) if x.is_float else like(s, x)
        mask = s.emit(f"np.{s.one_of(COMPARISONS)}", x, other)
    if s.chance(0.3):
        mask = s.emit(f"np.logical_{s.one_of(['or', 'and', 'xor'])}", mask, mask)
    if s.chance(0.3):
        return s.emit("np.astype", mask, f'"{s.one_of(["float32", "int32"])}"')
    if s.chance(0.3):
        return s.emit(f"np.{s.one_of(['sum', 'any', 'all', 'argmax'])}", mask)
    return s.emit("np.where", mask, x, s.one_of([0, like(s, x)]))


def clipped(s: Scope) -> Any:
    """Emit bounds by numbers or other values."""
    x = s.pick(is_float)
    bounds = s.one_of([("-0.5", "0.5"), ("None", "0.25"), ("-0.25", "None")])
    return s.emit("np.clip", x, *bounds)


def converted(s: Scope) -> Any:
    """Emit a cast to another dtype, and perhaps back."""
    x = s.pick()
    floats = ["float32", "float32", "float64", "float16", "bfloat16"]
    target = s.one_of([*floats, "int32", "int8", "uint8", "bool"])
    if target == "uint8" and x.dtype != "bool":
        x = s.emit("np.abs", x) if x.dtype != "u8" else x
    there = s.emit("np.astype", x, f'"{target}"')
    if s.chance(0.5) and not there.is_float:
        return s.emit("np.astype", there, '"float32"')
    return there


# ---- along axes ---------------------------------------------------------------------

REDUCTIONS = words("""
    sum sum prod mean mean max min amax amin var std ptp median nansum nanmean nanmax
    nanmin nanprod nanvar nanstd
""")
COUNTS = words("argmax argmin count_nonzero any all nanargmax nanargmin")
CUMULATIVE = words("""
    cumsum cumprod cummax cummin cumlogsumexp nancumsum nancumprod sort flip argsort
    diff unwrap gradient
""")
NN_ALONG = words("softmax log_softmax softmin l2_normalize layer_norm rms_norm")


def axis_of(s: Scope, x: Value) -> int:
    """Return a random axis of a value."""
    if not x.rank:
        raise Refused
    return int(s.rng.integers(-x.rank, x.rank))


def reduced(s: Scope) -> Any:
    """Emit a reduction of one, several or all axes."""
    x = s.pick(lambda v: v.rank > 0 and v.dtype != "bool")
    name = s.one_of(REDUCTIONS if x.is_float else ["sum", "max", "min", "prod"])
    options = []
    if s.chance(0.75):
        several = x.rank > 1 and s.chance(0.2) and not name.startswith("nan")
        options.append(f"axis={(0, x.rank - 1) if several else axis_of(s, x)}")
    if s.chance(0.4):
        options.append("keepdims=True")
    return s.emit(f"np.{name}", x, *options)


def counted(s: Scope) -> Any:
    """Emit a function that gives integers or bools along an axis."""
    x = s.pick(has_axes)
    return s.emit(f"np.{s.one_of(COUNTS)}", x, f"axis={axis_of(s, x)}")


def running(s: Scope) -> Any:
    """Emit a cumulative function along an axis."""
    x = s.pick(lambda v: v.rank > 0 and v.is_float)
    if s.chance(0.4):
        name = s.one_of(NN_ALONG)
        axes = "axes=-1" if name.endswith("_norm") else f"axis={axis_of(s, x)}"
        return s.emit(f"nn.{name}", x, *([axes] if s.chance(0.8) else []))
    return s.emit(f"np.{s.one_of(CUMULATIVE)}", x, f"axis={axis_of(s, x)}")


def log_sums(s: Scope) -> Any:
    """Emit a sum of exponentials."""
    x = s.pick(lambda v: v.rank > 0 and v.is_float)
    module = s.one_of(["nn", "special"])
    return s.emit(f"{module}.logsumexp", x, f"axis={axis_of(s, x)}")


# ---- moving elements ----------------------------------------------------------------


def moved(s: Scope) -> Any:
    """Emit a function that reorders or reshapes elements."""
    x = s.pick(has_axes)
    a, b = axis_of(s, x), axis_of(s, x)
    order = tuple(int(i) for i in s.rng.permutation(x.rank))
    options: list[tuple[Any, ...]] = [
        ("np.transpose", x), ("np.transpose", x, order), ("np.flip", x, a),
        ("np.flip", x), ("np.roll", x, s.one_of([1, -2]), a), ("np.swapaxes", x, a, b),
        ("np.moveaxis", x, a, b), ("np.ravel", x), ("np.reshape", x, (-1,)),
        ("np.reshape", x, "(-1, 1)"), ("np.reshape", x, "(1, -1)"),
        ("np.expand_dims", x, a), ("np.squeeze", x), ("np.tile", x, s.one_of([2, 3])),
        ("np.repeat", x, 2, a), ("np.broadcast_to", x, f"(2, *{x.source}.shape)"),
        ("np.tril", x, s.one_of([-1, 0, 1])), ("np.triu", x, s.one_of([-1, 0, 1])),
        ("np.diagonal", x), ("np.diag", x), ("np.fliplr", x), ("np.rot90", x),
        ("np.atleast_3d", x), ("np.matrix_transpose", x), ("np.trace", x),
        ("np.array_split", x, 2, a), ("np.resize", x, "(3, 4)"),
        ("np.reshape", x, f"({x.source}.shape[0], -1)"), ("np.diagflat", x),
        ("np.pad", x, 1, f'"{s.one_of(["edge", "wrap", "reflect", "symmetric"])}"'),
        ("np.pad", x, 1), ("np.pad", x, f"((0, 1),) * {x.rank}"),
    ]  # fmt: skip
    return s.emit(*s.one_of(options))


def slice_source(s: Scope, size: Any) -> str:
    """Return the source of a random slice along an axis; most have steps."""
    steps = ["::2", "::-1", "::3", "::-2", "1::2", ":1", "1:", "-2:", ":-1", ":", "0:0"]
    weights = [6, 4, 2, 2, 2, 1, 2, 1, 2, 2, 0.2]
    chosen = s.rng.choice(len(steps), p=[w / sum(weights) for w in weights])
    if isinstance(size, int) and size == 0:
        return ":"
    return steps[chosen]


def key_of(s: Scope, x: Value) -> str:
    """Return the source of a random index into a value."""
    parts = []
    for size in x.kind.shape:
        draw = s.rng.random()
        if draw < 0.15:
            parts.append(s.one_of(["0", "-1"]))
        elif draw < 0.2:
            parts.append("None")
        else:
            parts.append(slice_source(s, size))
    if s.chance(0.1):
        parts = ["...", parts[-1]]
    return ", ".join(parts)


def sliced(s: Scope) -> Any:
    """Emit an index into a value."""
    x = s.pick(has_axes)
    return s.emit("getitem", x, key_of(s, x))


def taken(s: Scope) -> Any:
    """Emit a gather at known or computed indices."""
    x = s.pick(has_axes)
    axis = axis_of(s, x)
    positions = s.one_of(["[0, 0]", "[-1, 0]", "numpy.array([0, -1, 0])"])
    if s.chance(0.4):
        return s.emit("np.take", x, positions, axis)
    if s.chance(0.5):
        order = s.emit(s.one_of(["np.argsort", "np.argsort"]), x, f"axis={axis}")
        return s.emit("np.take_along_axis", x, order, axis)
    best = s.emit(s.one_of(["np.argmax", "np.argmin"]), x, f"axis={axis}")
    index = s.emit("np.expand_dims", best, axis)
    return s.emit("np.take_along_axis", x, index, axis)


def updated(s: Scope) -> Any:
    """Emit an update `x.at[…]` of any kind."""
    x = s.pick(lambda v: v.rank > 0 and v.dtype != "bool")
    key = key_of(s, x)
    if s.chance(0.25):
        key = s.one_of(["numpy.array([0, 0])", "numpy.array([-1, 0])"])
    method = s.one_of(["set", "add", "multiply", "min", "max", "get"])
    if method == "get":
        return s.emit("at.get", x, key)
    if s.chance(0.5):
        return s.emit(f"at.{method}", x, key, s.one_of([0, 2]))
    part = s.emit("getitem", x, key)
    if x.is_float:
        part = s.emit("np.cos", part)
    return s.emit(f"at.{method}", x, key, part)


def joined(s: Scope) -> Any:
    """Emit a concatenation or stack of values or their parts."""
    x = s.pick(lambda v: 0 < v.rank < 4)
    axis = axis_of(s, x)
    others = [v for v in s.values if v.dtype == x.dtype and v.rank == x.rank]
    if s.chance(0.6):
        y = s.emit("getitem", x, ", ".join([":"] * (axis % x.rank) + [s.one_of(
            ["::2", "::-1", "1:", "::3", ":1"])]))  # fmt: skip
        if y.is_float and s.chance(0.5):
            y = s.emit("np.sin", y)
    else:
        y = s.one_of(others)
    pair = [x, y] if s.chance(0.5) else [y, x]
    if s.chance(0.3):
        pair.append(s.one_of(others))
    listed = f"[{', '.join(v.source for v in pair)}]"
    names = ["concatenate", "concatenate", "concatenate", "stack", "hstack", "vstack"]
    name = s.one_of(names)
    return s.emit(f"np.{name}", listed, *([axis] if "stack" not in name else []))


# ---- constants ----------------------------------------------------------------------


def created(s: Scope) -> Any:
    """Emit a constant array in sizes of a value, and perhaps a reduction of it."""
    x = s.pick(has_axes)
    size, dtype = f"{x.source}.shape[{axis_of(s, x)}]", s.one_of(["float32", "int32"])
    quoted = f'"{x.dtype if x.is_float else dtype}"'
    shape = s.one_of(
        [f"{x.source}.shape", f"({size}, 4)", f"(3, {size})", f"({size},)"]
    )
    options: list[tuple[Any, ...]] = [
        ("np.ones", shape, quoted), ("np.zeros", shape, quoted),
        ("np.full", shape, 1.5 if "f" in quoted else 3, quoted),
        ("np.arange", size, quoted), ("np.eye", size, f"dtype={quoted}"),
        ("np.ones_like", x), ("np.zeros_like", x), ("np.full_like", x, 2),
        ("np.tri", size), ("np.identity", size), ("np.indices", f"({size}, 2)"),
        ("np.linspace", 0.0, 1.0, 5), ("np.hanning", 5),
    ]  # fmt: skip
    made = s.emit(*s.one_of(options))
    draw = s.rng.random()
    if draw < 0.45 and made.dtype != "bool":
        name = s.one_of(["sum", "sum", "mean", "max", "cumsum", "prod"])
        return s.emit(f"np.{name}", made, f"axis={axis_of(s, made)}")
    if draw < 0.75:
        same = [v for v in s.values if v.dtype == made.dtype]
        name = s.one_of(["add", "multiply", "subtract"])
        return s.emit(f"np.{name}", made, s.one_of(same))
    return made


def random_numbers(s: Scope) -> Any:
    """Emit a random draw in the shape of a value."""
    x = s.pick(has_axes)
    name = s.one_of(["uniform", "normal", "gumbel", "bernoulli", "exponential"])
    key = f"random.key({s.one_of([0, 7])})"
    extra = [0.5] if name == "bernoulli" else []
    return s.emit(f"random.{name}", key, *extra, f"{x.source}.shape")


# ---- products -----------------------------------------------------------------------


def product(s: Scope) -> Any:
    """Emit a matrix product."""
    x = s.pick(lambda v: v.rank >= 1 and v.is_float)
    if x.data.size and abs(x.data.astype("f8")).max() > 2:
        x = s.emit("np.tanh", x)
    y = like(s, x)
    if y.data.size and abs(y.data.astype("f8")).max() > 2:
        y = s.emit("np.tanh", y)
    across = f"np.matrix_transpose({y.source})"
    options: list[tuple[Any, ...]] = [
        ("np.matmul", x, across), ("np.matmul", across, x), ("np.outer", x, y),
        ("np.dot", x, y), ("np.inner", x, y), ("np.vdot", x, y), ("np.kron", x, y),
        ("np.einsum", '"...i,...i->..."', x, y), ("np.tensordot", x, y, 1),
        ("np.einsum", '"ij,kj->ik"', x, y), ("np.einsum", '"ij,ij->j"', x, y),
        ("np.vecdot", x, y), ("np.convolve", x, "numpy.array([1.0, 2.0], 'f4')"),
        ("nn.attention", *(f"{v.source}[..., None, None]" for v in (x, y, y))),
    ]  # fmt: skip
    return s.emit(*s.one_of(options))


LOSSES = words("""
    binary_cross_entropy_with_logits cosine_similarity hinge_loss huber_loss l1_loss
    mse_loss smooth_l1_loss soft_margin_loss
""")


def loss(s: Scope) -> Any:
    """Emit a loss of two values of one shape."""
    x = s.pick(lambda v: v.is_float and v.rank > 0)
    same = [v for v in s.values if v.kind == x.kind]
    return s.emit(f"nn.{s.one_of(LOSSES)}", x, s.one_of(same))
