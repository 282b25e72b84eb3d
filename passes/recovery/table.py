"""Patterns of ops that exporters write in parts, with the op of each.

One row for each way of writing it. A row names what it captures: `x` and `scale` of the
type of the result, numbers such as `epsilon`, attributes such as `axes`. Factors and
terms are matched in the order written: those that few graphs have come first. Examples
are written with `forms.py`.
"""

from __future__ import annotations

from math import inf, pi, sqrt

from aotc.dialects.builder import Builder
from aotc.dialects.patterns.rows import Captured, RewriteRow
from aotc.dialects.patterns.terms import (
    CaptureTerm,
    MeanTerm,
    NumberTerm,
    ReciprocalTerm,
    Term,
    X,
    any_of,
    call,
    product,
    square,
    total,
)
from aotc.dialects.rules.samples import f32
from aotc.mlir import Value
from aotc.passes.recovery import forms

SCALE, SHIFT = CaptureTerm("scale"), CaptureTerm("shift")
_LINES = f32(4, 8)

# ---- normalisation ------------------------------------------------------------------

_CENTERED = total(0.0, X, minus=(MeanTerm(X),))
_SQUARES_LESS_SQUARE = total(0.0, MeanTerm(square(X)), minus=(square(MeanTerm(X)),))
_VARIANCE = any_of(
    MeanTerm(square(_CENTERED)),
    call("maximum", NumberTerm(0.0), _SQUARES_LESS_SQUARE),  # as Flax writes it
    _SQUARES_LESS_SQUARE,
)


def _inverse_root(variance: Term) -> Term:
    """Return a term that matches 1 / sqrt(variance + epsilon) in any spelling."""
    inner = total("epsilon", variance)
    return any_of(
        call("rsqrt", inner),
        ReciprocalTerm(call("sqrt", inner)),
        call("power", inner, NumberTerm(-0.5)),
        ReciprocalTerm(call("power", inner, NumberTerm(0.5))),
    )


_BY_DEVIATION = _inverse_root(_VARIANCE)
_BY_ROOT_MEAN_SQUARE = _inverse_root(MeanTerm(square(X)))


def _normal(b: Builder, m: Captured, *, centered: bool) -> Value:
    """Emit a `normalize` op from the captures; return its normalized result."""
    return b.normalize(m.x, axes=m.axes, epsilon=m.epsilon, centered=centered)[0]


# x * (scale / deviation) + (shift - mean * (scale / deviation)), as
# tf.nn.batch_normalization writes it
_AS_BATCH_NORM = total(
    0.0,
    product(1.0, _BY_DEVIATION, X, SCALE),
    SHIFT,
    minus=(product(1.0, _BY_DEVIATION, MeanTerm(X), SCALE),),
)

# ---- activations --------------------------------------------------------------------


def _times_share(share: Term) -> Term:
    """Return a term that matches x (1 + share) / 2."""
    return any_of(
        product(0.5, total(1.0, share), X),
        product(1.0, total(0.5, product(0.5, share)), X),
    )


_ROOT_HALF = sqrt(0.5)
_EXACT_GELU = any_of(
    _times_share(call("erf", product(_ROOT_HALF, X))),
    product(0.5, call("erfc", product(-_ROOT_HALF, X)), X),  # as JAX writes it
)
_SLOPE, _CUBIC = sqrt(2 / pi), 0.044715
_TANH_GELU = _times_share(
    call(
        "tanh",
        any_of(
            product(_SLOPE, total(0.0, X, product(_CUBIC, X, X, X))),
            product(_SLOPE, X, total(1.0, product(_CUBIC, X, X))),
            total(0.0, product(_SLOPE, X), product(_SLOPE * _CUBIC, X, X, X)),
        ),
    )
)
_LOGISTIC = product(1.0, ReciprocalTerm(total(1.0, call("exp", product(-1.0, X)))))

# ---- softmax ------------------------------------------------------------------------

_LARGEST = call("reduce_max", X, axes="axes")
_HIGHEST = any_of(_LARGEST, call("maximum", NumberTerm(-inf), _LARGEST))
_POWERS = call("exp", total(0.0, X, minus=(_HIGHEST,)))
_POWER_SUM = call("reduce_sum", _POWERS, axes="axes")
_SOFTMAX = product(1.0, _POWERS, ReciprocalTerm(_POWER_SUM))
_LOG_SOFTMAX = total(0.0, X, minus=(_HIGHEST, call("log", _POWER_SUM)))


def _has_one_axis(m: Captured) -> bool:
    """Return whether the captured reduction is over one axis."""
    return len(m.axes) == 1


ROWS = (
    RewriteRow(
        "layer norm",
        product(1.0, _BY_DEVIATION, _CENTERED),
        lambda b, m: _normal(b, m, centered=True),
        given=(_LINES,),
        example=forms.layer_norm,
        near_miss=lambda b, x: forms.layer_norm(b, x, axis=0),
    ),
    RewriteRow(
        "layer norm with a scale",
        product(1.0, _BY_DEVIATION, _CENTERED, SCALE),
        lambda b, m: b.multiply(_normal(b, m, centered=True), m.scale),
        given=(_LINES, _LINES),
        example=lambda b, x, y: b.multiply(forms.layer_norm(b, x), y),
        near_miss=lambda b, x, y: b.multiply(forms.layer_norm(b, x, axis=0), y),
    ),
    RewriteRow(
        "layer norm as a batch norm",
        _AS_BATCH_NORM,
        lambda b, m: b.add(b.multiply(_normal(b, m, centered=True), m.scale), m.shift),
        given=(_LINES, _LINES, _LINES),
        example=lambda b, x, y, z: forms.batch_norm(b, x, y, z, forms.mean(b, x)),
        near_miss=lambda b, x, y, z: forms.batch_norm(b, x, y, z, forms.mean(b, y)),
    ),
    RewriteRow(
        "RMS norm",
        product(1.0, _BY_ROOT_MEAN_SQUARE, X),
        lambda b, m: _normal(b, m, centered=False),
        given=(_LINES,),
        example=forms.rms_norm,
        near_miss=forms.by_root_sum,
    ),
    RewriteRow(
        "RMS norm with a scale",
        product(1.0, _BY_ROOT_MEAN_SQUARE, X, SCALE),
        lambda b, m: b.multiply(_normal(b, m, centered=False), m.scale),
        given=(_LINES, _LINES),
        example=lambda b, x, y: b.multiply(forms.rms_norm(b, x), y),
        near_miss=lambda b, x, y: b.multiply(forms.by_root_sum(b, x), y),
    ),
    RewriteRow(
        "gelu",
        _EXACT_GELU,
        lambda b, m: b.gelu(m.x, form="exact"),
        given=(_LINES,),
        example=forms.gelu,
        near_miss=lambda b, x: forms.gelu(b, x, factor=0.7),
    ),
    RewriteRow(
        "gelu by tanh",
        _TANH_GELU,
        lambda b, m: b.gelu(m.x, form="tanh"),
        given=(_LINES,),
        example=forms.tanh_gelu,
        near_miss=lambda b, x: forms.tanh_gelu(b, x, cubic=0.05),
    ),
    RewriteRow(
        "logistic",
        _LOGISTIC,
        lambda b, m: b.logistic(m.x),
        given=(_LINES,),
        example=forms.logistic,
        near_miss=lambda b, x: forms.logistic(b, x, one=2.0),
    ),
    RewriteRow(
        "softmax",
        _SOFTMAX,
        lambda b, m: b.softmax(m.x, axis=m.axes[0]),
        given=(_LINES,),
        example=lambda b, x: forms.share(b, b.exp(forms.subtract_max(b, x))),
        near_miss=lambda b, x: forms.share(b, b.exp(x)),
        where=_has_one_axis,
    ),
    RewriteRow(
        "log softmax",
        _LOG_SOFTMAX,
        lambda b, m: b.log_softmax(m.x, axis=m.axes[0]),
        given=(_LINES,),
        example=lambda b, x: forms.log_share(
            b, forms.subtract_max(b, x), b.exp(forms.subtract_max(b, x))
        ),
        near_miss=lambda b, x: forms.log_share(b, x, b.exp(x)),
        where=_has_one_axis,
    ),
)
