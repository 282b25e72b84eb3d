"""A hundred right programs that are hostile to a check of what was compiled.

Sums that cancel, ties that decide, rows of which nothing is seen, numbers near overflow
and below the normal ones, half floats, no elements, NaN and infinities: what a wrong
notion of rounding calls a miscompilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import aotc
import aotc.numpy as np
from aotc import control, linalg, nn

from .planting import check

_PER_BUILD = 34

Program = tuple[Callable[..., Any], Mapping[str, tuple[tuple[Any, ...], str]]]


def _of(shape: tuple[Any, ...] = (6, 40), dtype: str = "f32") -> dict[str, Any]:
    """Return the input specs of a program of one array."""
    return {"x": (shape, dtype)}


def _pair(shape: tuple[Any, ...] = (6, 40), dtype: str = "f32") -> dict[str, Any]:
    """Return the input specs of a program of two arrays."""
    return {"x": (shape, dtype), "y": (shape, dtype)}


def _iterated(x: Any) -> Any:
    """Iterate the logistic map, which amplifies rounding errors."""
    for _ in range(30):
        x = 3.9 * x * (1.0 - x)
    return x


def _newton(x: Any) -> Any:
    """Return square roots by Newton's method."""
    root = np.abs(x) + 1.0
    for _ in range(8):
        root = 0.5 * (root + np.abs(x) / root)
    return root


def _running_product(x: Any) -> Any:
    """Return cumulative products by a scan."""
    return control.scan(lambda c, e: (c * e, c), np.ones(()), x)[1]


def _masked(x: Any, y: Any) -> Any:
    """Return a softmax of scores masked by -inf."""
    scores = np.where(y > 0.5, x, -np.inf)
    return nn.softmax(scores)


_POOLS = ((2, 2), (2, 2))

# ---- of f32 -------------------------------------------------------------------------

_CANCELLING: dict[str, Program] = {
    "difference_of_squares": (lambda x, y: x * x - y * y, _pair()),
    "sum_less_itself": (lambda x: np.sum(x, 1) - np.sum(x[:, ::-1], 1), _of()),
    "naive_variance": (
        lambda x: np.mean((x + 1000.0) ** 2, 1) - np.mean(x + 1000.0, 1) ** 2,
        _of(),
    ),
    "one_less_cosine": (lambda x: (1.0 - np.cos(x * 1e-3)) / 1e-6, _of()),
    "root_difference": (lambda x: np.sqrt(x * x + 1e8) - 1e4, _of()),
    "large_and_back": (lambda x: (x + 1e8) - 1e8, _of()),
    "exp_less_one": (lambda x: (np.exp(x * 1e-6) - 1.0) * 1e6, _of()),
    "sine_of_large": (lambda x: np.sin(x * 1e6), _of()),
    "product_less_itself": (lambda x, y: x @ y.T - (y @ x.T).T, _pair((9, 40))),
    "alternating_sum": (
        lambda x: np.sum(x * np.where(np.arange(1000) % 2 == 0, 1.0, -1.0), 1),
        _of((3, 1000)),
    ),
    "third_difference": (lambda x: np.diff(x, 3), _of((3, 50))),
    "inverse_of_ill_conditioned": (
        lambda x: linalg.solve(x @ x.T + 1e-5 * np.eye(7), x[:, 0]),
        _of((7, 3)),
    ),
    "determinant": (lambda x: linalg.det(x @ x.T), _of((6, 4))),
    "chaos": (_iterated, _of()),
    "newton": (_newton, _of()),
    "long_sum": (lambda x: np.sum(x), _of(("n",))),
    "long_mean_of_columns": (lambda x: np.mean(x, 0), _of((20000, 3))),
    "mean_of_pixels": (lambda x: np.mean(x, (1, 2)), _of((2, 60, 60, 5))),
    "sum_of_equal": (lambda x: np.sum(np.broadcast_to(x, (5000, 40)), 0), _of((40,))),
    "running_sum": (lambda x: np.cumsum(x, 1), _of((2, 3000))),
    "running_product": (lambda x: np.cumprod(x, 1), _of((3, 60))),
    "scanned_product": (_running_product, _of((60,))),
    "standard_deviation": (lambda x: np.std(x + 100.0, 1), _of()),
    "norm_of_nearly_equal": (lambda x: nn.layer_norm(x * 1e-4 + 10.0), _of()),
    "norm_of_large": (lambda x: nn.layer_norm(x * 1e15), _of()),
}

_TIES: dict[str, Program] = {
    "argmax": (lambda x: np.argmax(x, 1), _of()),
    "argmax_of_rounded_sums": (lambda x: np.argmax(np.cumsum(x, 1), 1), _of()),
    "argmax_of_probabilities": (
        lambda x: np.argmax(nn.softmax(x * 1e-7), 1),
        _of(),
    ),
    "argmin_of_squares": (lambda x: np.argmin(np.square(x), 1), _of()),
    "sort": (lambda x: np.sort(x, 1), _of()),
    "argsort": (lambda x: np.argsort(x, 1), _of()),
    "argsort_of_sums": (lambda x: np.argsort(x @ x.T, 1), _of((9, 40))),
    "top": (lambda x: np.top_k(x, 7), _of()),
    "top_of_products": (lambda x, y: np.top_k(x @ y.T, 3), _pair((12, 20))),
    "median": (lambda x: np.median(x, 1), _of()),
    "unequal": (lambda x: x / 3.0 * 3.0 == x, _of()),
    "sum_to_one": (lambda x: np.sum(nn.softmax(x), 1) == 1.0, _of()),
    "circle": (lambda x: np.sin(x) ** 2 + np.cos(x) ** 2 >= 1.0, _of()),
    "rounded": (lambda x: np.round(x * 2.0), _of()),
    "rounded_products": (lambda x, y: np.round(x @ y.T), _pair((9, 20))),
    "floor_of_quotient": (lambda x: np.floor(x / 0.1), _of()),
    "remainder": (lambda x: np.fmod(x, 0.1), _of()),
    "quantised": (
        lambda x: np.clip(np.round(x / 0.05), -128, 127).astype("i8"),
        _of(),
    ),
    "quantised_sums": (
        lambda x: np.round(np.sum(x, 1) / np.max(np.abs(x))).astype("i32"),
        _of(),
    ),
    "whole_numbers": (lambda x: (x * 100.0).astype("i32"), _of()),
    "step_of_difference": (
        lambda x: np.where(np.mean(x, 1) > np.sum(x, 1) / 40.0, 1.0, -1.0),
        _of(),
    ),
    "gradient_of_greatest": (
        lambda x: aotc.grad(lambda x: np.sum(np.max(x, 1)))(x),
        _of(),
    ),
    "gradient_of_relu": (
        lambda x: aotc.grad(lambda x: np.sum(nn.relu(x) * x))(x),
        _of(),
    ),
    "table_of_positions": (
        lambda x: np.take(x[0], np.argmax(x, 1), axis=0),
        _of(),
    ),
}

_ODD: dict[str, Program] = {
    "rows_that_see_nothing": (
        lambda x: nn.softmax(np.where(x > 2.0, x, -np.inf)),
        _of(),
    ),
    "little_is_seen": (_masked, _pair()),
    "attention_to_nothing": (
        lambda q, mask: nn.attention(q, q, q, mask=mask),
        {"q": ((1, 20, 2, 8), "f32"), "mask": ((1, 1, 20, 20), "bool")},
    ),
    "attention_with_bias": (
        lambda q, bias: nn.attention(q, q, q, bias=bias),
        {"q": ((2, 20, 2, 8), "f32"), "bias": ((2, 1, 20, 20), "f32")},
    ),
    "sharp_attention": (
        lambda q: nn.attention(q * 30.0, q * 30.0, q),
        {"q": ((1, 20, 2, 8), "f32")},
    ),
    "decoder_step": (
        lambda q, k, mask: nn.attention(q, k, k, mask=mask),
        {
            "q": ((2, 1, 4, 16), "f32"),
            "k": ((2, 70, 2, 16), "f32"),
            "mask": ((2, 1, 1, 70), "bool"),
        },
    ),
    "sharp_softmax": (lambda x: nn.softmax(x * 1e4), _of()),
    "log_softmax_of_large": (lambda x: nn.log_softmax(x * 1e6), _of()),
    "entropy": (
        lambda x: -np.sum(nn.softmax(x) * nn.log_softmax(x), 1),
        _of(),
    ),
    "log_of_negative": (lambda x: np.log(x), _of()),
    "root_of_negative": (lambda x: np.sqrt(x), _of()),
    "root_of_difference": (lambda x: np.sqrt(1.0 - np.tanh(x * 6.0) ** 2), _of()),
    "root_near_zero": (lambda x: np.sqrt(np.sin(x) ** 2 + np.cos(x) ** 2 - 1.0), _of()),
    "division_by_zero": (lambda x: 1.0 / np.round(x), _of()),
    "zero_by_zero": (lambda x: np.round(x) / np.round(x), _of()),
    "infinities": (lambda x: np.exp(x * 100.0), _of()),
    "infinity_less_infinity": (
        lambda x: np.exp(x * 200.0) - np.exp(x * 300.0),
        _of(),
    ),
    "near_overflow": (lambda x: np.sum(x * 1e38, 1), _of()),
    "products_near_overflow": (
        lambda x, y: (x * 1e19) @ (y * 1e19).T,
        _pair((5, 40)),
    ),
    "mean_near_overflow": (lambda x: np.mean(x * 3e37, 1), _of()),
    "below_normal": (lambda x: x * 1e-30 * 1e-10, _of()),
    "grown_from_below_normal": (lambda x: x * 1e-38 * 1e-2 * 1e38, _of()),
    "small_beside_large": (
        lambda x: np.concatenate([x * 1e20, x * 1e-20], 1),
        _of(),
    ),
    "power_of_zero": (lambda x: np.round(x) ** np.round(x), _of()),
    "arctangent_of_zeros": (lambda x: np.arctan2(np.round(x), x - x), _of()),
    "greatest_with_nan": (lambda x: np.max(np.log(x), 1), _of()),
    "pool_of_nan": (lambda x: nn.max_pool(np.log(x), *_POOLS), _of((1, 8, 8, 20))),
    "normal_of_zeros": (lambda x: x / np.sqrt(np.sum(x * x, 1))[:, None], _of()),
    "no_rows": (lambda x: np.sum(x, 1), _of((aotc.Dim("n", min=0), 40))),
    "no_columns": (lambda x: np.sum(x, 1), _of((4, aotc.Dim("n", min=0)))),
    "nothing": (lambda x: np.tanh(x), _of((0, 3))),
    "loss": (
        lambda x, k: (
            -np.take_along_axis(nn.log_softmax(x * 20.0), np.abs(k)[:, None] % 40, 1)
        ),
        {"x": ((6, 40), "f32"), "k": ((6,), "i32")},
    ),
    "integers": (
        lambda k, m: (k * m + (k >> 3), k // m, k % m),
        {"k": ((30,), "i32"), "m": ((30,), "i32")},
    ),
    "meeting_updates": (
        lambda x, k: np.zeros(9).at[k].add(x),
        {"x": ((300,), "f32"), "k": ((300,), "i32")},
    ),
    "lengths": (
        lambda x, n: np.mean(np.where(np.arange(40) < n[:, None], x, 0.0), 1),
        {"x": ((6, 40), "f32"), "n": ((6,), "i32")},
    ),
}


def _of_halves(dtype: str) -> dict[str, Program]:
    """Return programs in half precision, by name."""
    named: dict[str, Program] = {
        "sum": (lambda x: np.sum(x, 1), _of((4, 1000), dtype)),
        "mean": (lambda x: np.mean(x, 0), _of((300, 5), dtype)),
        "product": (lambda x, y: x @ y.T, _pair((9, 70), dtype)),
        "cancelling": (lambda x: (x + 1.0) - 1.0, _of(dtype=dtype)),
        "softmax": (lambda x: nn.softmax(x * 9.0), _of(dtype=dtype)),
        "norm": (lambda x: nn.layer_norm(x + 9.0), _of(dtype=dtype)),
        "argmax": (lambda x: np.argmax(x + 3.0, 1), _of(dtype=dtype)),
        "argsort": (lambda x: np.argsort(x, 1), _of(dtype=dtype)),
    }
    return {f"{dtype}_{name}": program for name, program in named.items()}


PROGRAMS: dict[str, Program] = {
    **_CANCELLING,
    **_TIES,
    **_ODD,
    **_of_halves("f16"),
    **_of_halves("bf16"),
}


def entries(build: int) -> dict[str, Any]:
    """Return the entries of one of the builds, by name."""
    names = list(PROGRAMS)[build * _PER_BUILD : (build + 1) * _PER_BUILD]
    return {name: _entry(name) for name in names}


def _entry(name: str) -> Any:
    """Return a program as an entry."""
    compute, inputs = PROGRAMS[name]
    specs = {key: aotc.Spec(shape, dtype) for key, (shape, dtype) in inputs.items()}
    source = f"lambda {', '.join(inputs)}: _compute({', '.join(inputs)})"
    entry = eval(source, {"_compute": compute})  # an entry has arguments with names
    entry.__name__ = name
    return aotc.entry(**specs)(entry)


def alarms() -> dict[str, str]:
    """Build all right programs; return the self-check's false alarms by name."""
    found: dict[str, str] = {}
    for build in range(-(-len(PROGRAMS) // _PER_BUILD)):
        found |= check(
            "from benchmarks.planted_faults.hostile import entries\n\n"
            f"globals().update(entries({build}))"
        )
    return {name: said for name, said in found.items() if said}
