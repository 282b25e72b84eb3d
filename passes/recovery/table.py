"""The patterns: what exporters write in parts, and the op that it is.

One row for each way of writing it. A row names what it captures: `x` and `scale` of the
type of the result, numbers such as `epsilon`, attributes such as `axes`. Factors and
terms are matched in the order written: those that few graphs have come first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, pi, sqrt
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.patterns.terms import (
    Capture,
    Mean,
    Number,
    Reciprocal,
    Term,
    any_of,
    call,
    product,
    square,
    total,
)
from aotc.mlir import Value

Captured = Mapping[str, Any]


@dataclass(frozen=True)
class Pattern:
    """What is written in parts, and the op that takes its place.

    Args:
        name: of what is recovered.
        term: what is matched.
        build: the value in its place; None if what was captured does not fit the op.
    """

    name: str
    term: Term
    build: Callable[[Builder, Captured], Value | None]


X, SCALE, SHIFT = Capture("x"), Capture("scale"), Capture("shift")

# ---- normalisation ------------------------------------------------------------------

_CENTERED = total(0.0, X, minus=(Mean(X),))
_SQUARES_LESS_SQUARE = total(0.0, Mean(square(X)), minus=(square(Mean(X)),))
_VARIANCE = any_of(
    Mean(square(_CENTERED)),
    call("maximum", Number(0.0), _SQUARES_LESS_SQUARE),  # as Flax writes it
    _SQUARES_LESS_SQUARE,
)


def _inverse_root(variance: Term) -> Term:
    inner = total("epsilon", variance)
    return any_of(
        call("rsqrt", inner),
        Reciprocal(call("sqrt", inner)),
        call("power", inner, Number(-0.5)),
        Reciprocal(call("power", inner, Number(0.5))),
    )


_BY_DEVIATION = _inverse_root(_VARIANCE)
_BY_ROOT_MEAN_SQUARE = _inverse_root(Mean(square(X)))


def _normal(b: Builder, c: Captured, *, centered: bool) -> Value:
    epsilon, axes = c["epsilon"], c["axes"]
    return b.normalize(c["x"], axes=axes, epsilon=epsilon, centered=centered)[0]


def _layer_norm(b: Builder, c: Captured) -> Value:
    return _normal(b, c, centered=True)


def _rms_norm(b: Builder, c: Captured) -> Value:
    return _normal(b, c, centered=False)


def _scaled_layer_norm(b: Builder, c: Captured) -> Value:
    return b.multiply(_layer_norm(b, c), c["scale"])


def _scaled_rms_norm(b: Builder, c: Captured) -> Value:
    return b.multiply(_rms_norm(b, c), c["scale"])


def _shifted_layer_norm(b: Builder, c: Captured) -> Value:
    return b.add(_scaled_layer_norm(b, c), c["shift"])


# x * (scale / deviation) + (shift - mean * (scale / deviation)), as
# tf.nn.batch_normalization writes it
_AS_BATCH_NORM = total(
    0.0,
    product(1.0, _BY_DEVIATION, X, SCALE),
    SHIFT,
    minus=(product(1.0, _BY_DEVIATION, Mean(X), SCALE),),
)

# ---- activations --------------------------------------------------------------------


def _times_share(share: Term) -> Term:
    """x (1 + share) / 2."""
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
_LOGISTIC = product(1.0, Reciprocal(total(1.0, call("exp", product(-1.0, X)))))

# ---- softmax ------------------------------------------------------------------------

_LARGEST = call("reduce_max", X, axes="axes")
_HIGHEST = any_of(_LARGEST, call("maximum", Number(-inf), _LARGEST))
_POWERS = call("exp", total(0.0, X, minus=(_HIGHEST,)))
_POWER_SUM = call("reduce_sum", _POWERS, axes="axes")
_SOFTMAX = product(1.0, _POWERS, Reciprocal(_POWER_SUM))
_LOG_SOFTMAX = total(0.0, X, minus=(_HIGHEST, call("log", _POWER_SUM)))


def _softmax(b: Builder, c: Captured) -> Value | None:
    return b.softmax(c["x"], axis=c["axes"][0]) if len(c["axes"]) == 1 else None


def _log_softmax(b: Builder, c: Captured) -> Value | None:
    return b.log_softmax(c["x"], axis=c["axes"][0]) if len(c["axes"]) == 1 else None


PATTERNS = (
    Pattern("layer norm", product(1.0, _BY_DEVIATION, _CENTERED), _layer_norm),
    Pattern(
        "layer norm with a scale",
        product(1.0, _BY_DEVIATION, _CENTERED, SCALE),
        _scaled_layer_norm,
    ),
    Pattern("layer norm as a batch norm", _AS_BATCH_NORM, _shifted_layer_norm),
    Pattern("RMS norm", product(1.0, _BY_ROOT_MEAN_SQUARE, X), _rms_norm),
    Pattern(
        "RMS norm with a scale",
        product(1.0, _BY_ROOT_MEAN_SQUARE, X, SCALE),
        _scaled_rms_norm,
    ),
    Pattern("gelu", _EXACT_GELU, lambda b, c: b.gelu(c["x"], form="exact")),
    Pattern("gelu by tanh", _TANH_GELU, lambda b, c: b.gelu(c["x"], form="tanh")),
    Pattern("logistic", _LOGISTIC, lambda b, c: b.logistic(c["x"])),
    Pattern("softmax", _SOFTMAX, _softmax),
    Pattern("log softmax", _LOG_SOFTMAX, _log_softmax),
)
