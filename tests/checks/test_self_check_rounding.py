"""What rounding alone may change of results, and what it may not hide."""

from functools import partial

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import reference
from aotc.checks.judging import Rounding, judge
from aotc.checks.rounding import noises
from aotc.core import dtypes
from aotc.dialects import OPS
from aotc.tracing.assembly import trace
from tests.checks.building import build
from tests.checks.models import SENSITIVE, refused_build


def test_what_rounding_alone_carries_apart_is_no_mismatch(model):
    model.write_text(SENSITIVE)
    (row,) = build(model).self_checks
    (result,) = row.results
    assert result.distance.error > 1e-4
    assert result.passed


# near 0, rounding decides whether the root of what is chaotic is a number
OPEN = SENSITIVE.replace("    for", "    plain = np.tanh(x)\n    for").replace(
    "return x", "return np.sqrt(x), plain"
)


def test_elements_that_rounding_leaves_open_are_left_out(model):
    model.write_text(OPEN)
    (row,) = build(model).self_checks
    root, plain = row.results
    assert 1e-4 < root.distance.error < float("inf")
    assert plain.distance.error < 1e-5
    assert row.checked


def test_an_open_result_hides_no_wrong_one(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    model.write_text(OPEN)
    assert "graph.tanh" in refused_build(model).message


def test_modules_in_the_folder_of_the_user_are_not_ours(model, monkeypatch):
    model.write_text(SENSITIVE.replace("range(12)", "range(1)"))
    for name in ("pickle", "resource", "signal"):
        (model.parent / f"{name}.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(model.parent)
    (row,) = build(model).self_checks
    assert row.checked


def test_noise_leaves_exact_results_alone():
    from aotc.checks.rounding import _is_exact

    x = np.float32([0.25, -1.5, 3.3])
    assert _is_exact(-x[::-1], [x])
    assert _is_exact(np.floor(x), [x])
    assert not _is_exact(x * np.float32(0.3), [x])


# A decoder as exporters write it: what is hidden has the least number added to it, by
# a mask of integers and by a causal one, which together hide all from some rows.
MASKED = """
import aotc
import aotc.numpy as np
import numpy
from aotc import nn

weights = aotc.Weights({"w": numpy.random.default_rng(0).normal(size=(8, 8)) / 3})


@aotc.entry(x=aotc.Spec((2, 12, 8), "f32"), mask=aotc.Spec((2, 12), "i64"))
def least(weights, x, mask):
    low = numpy.finfo("f4").min
    return attend(weights, x, (1.0 - mask.astype("f32"))[:, None] * low, low)


@aotc.entry(x=aotc.Spec((2, 12, 8), "f32"), mask=aotc.Spec((2, 12), "i64"))
def infinite(weights, x, mask):
    low = -numpy.inf
    return attend(weights, x, np.where(mask[:, None] > 0, 0.0, low), low)


def attend(weights, x, hidden, low):
    causal = np.arange(12)[:, None] >= np.arange(12)
    for _ in range(2):
        y = nn.layer_norm(x) @ weights["w"].astype("f32")
        scores = np.where(causal, y @ np.swapaxes(y, 1, 2), low) + hidden
        x = x + nn.softmax(scores) @ y
    return x
"""


def test_decoders_with_masks_that_hide_all_from_a_row_are_checked(model):
    model.write_text(MASKED)
    for row in build(model).self_checks:
        assert row.checked
        assert not row.unchecked
        assert row.farthest.rounding_ulp < 1e4  # no number is as good as open


def test_noise_leaves_the_largest_number_finite_and_alone():
    most = np.finfo(np.float32).max
    noise = next(noises())
    x = np.float32([most, -most, np.inf, *[most / 2, 1] * 50])
    moved = noise._disturb(x)
    assert (moved[:3] == x[:3]).all()
    assert np.isfinite(moved[3:]).all()
    assert (moved[3:] != x[3:]).mean() > 0.5


SERIES = {
    "random numbers in series": (
        1 - np.random.default_rng(7).random(1_000_000).astype(np.float32),
        lambda x: np.cumsum(x)[-1],
    ),
    "one number in eight lanes": (
        np.full(16384, 0.1, np.float32),
        lambda x: np.cumsum(x.reshape(-1, 8), axis=0)[-1].sum(),
    ),
}


@pytest.mark.parametrize("name", SERIES)
def test_a_long_sum_in_series_is_no_mismatch_and_a_lost_term_is_one(name):
    x, added = SERIES[name]

    @aotc.entry(x=aotc.Spec(("n",), "f32"))
    def total(x):
        return anp.sum(x)

    module = trace([total], {}).module
    expected = reference.evaluate(module, "total", [x])

    def verdict(found):
        noisy = partial(reference.evaluate, module, "total", [x])
        rounding = Rounding(expected, lambda noise: noisy(with_op=noise))
        return judge(["total"], [np.float32(found)], expected, rounding)[0]

    in_series = added(x)
    assert abs(in_series - expected[0]) > 32 * np.spacing(expected[0])
    assert verdict(in_series).passed
    assert not verdict(x[: -(x.size // 128)].sum()).passed


@aotc.entry(x=aotc.Spec((4, "n"), "f32"), y=aotc.Spec(("n", 3), "f32"))
def sums(x, y):
    product = x @ y
    return {
        "product": product,
        "sums of them": anp.sum(product * 0.25, axis=1),
        "cut off": anp.tanh(anp.sum(x, axis=1)),
    }


@pytest.mark.parametrize(
    ("row", "passed"),
    [
        ([3e38, 3e38, -3e38, -3e38], True),
        ([1e38, 1, 1e38, -1e38], False),
        ([np.inf, 1, 2, 3], False),
        ([1, 2, 3, 4], False),
    ],
)
def test_a_sum_that_overflows_in_some_order_may_be_anything_and_no_other(row, passed):
    module = trace([sums], {}).module
    given = [np.float32([row] * 4), np.ones((4, 3), np.float32)]
    with np.errstate(all="ignore"):
        right = reference.evaluate(module, "sums", given)
        noisy = partial(reference.evaluate, module, "sums", given)
        rounding = Rounding(right, lambda noise: noisy(with_op=noise))
        for other in (np.nan, 0.0):
            found = [np.full_like(each, other) for each in right]
            verdicts = judge([""] * 3, found, right, rounding)
            assert [each.passed for each in verdicts] == [passed] * 3


@aotc.entry(x=aotc.Spec(("n",), "f32"))
def tail(x):
    return aotc.nn.gelu(x)


@pytest.mark.parametrize(("number", "passed"), [(-5.3, True), (-4.0, False)])
def test_gelu_may_be_zero_only_where_one_plus_erf_has_one_digit(number, passed):
    x, module = np.full(4, number, np.float32), trace([tail], {}).module
    right = reference.evaluate(module, "tail", [x])
    noisy = partial(reference.evaluate, module, "tail", [x])
    rounding = Rounding(right, lambda noise: noisy(with_op=noise))
    (verdict,) = judge(["tail"], [np.zeros(4, np.float32)], right, rounding)
    assert verdict.passed == passed


@aotc.entry(x=aotc.Spec(("n",), "f32"))
def certain(x):
    return aotc.nn.log_softmax(x)


@pytest.mark.parametrize(("ulps_of_one", "passed"), [(1, True), (2000, False)])
def test_the_logarithm_of_nearly_one_may_be_off_by_last_places_of_one(
    ulps_of_one, passed
):
    x, module = np.float32([0, -16, -17]), trace([certain], {}).module
    right = reference.evaluate(module, "certain", [x])
    noisy = partial(reference.evaluate, module, "certain", [x])
    rounding = Rounding(right, lambda noise: noisy(with_op=noise))
    found = right[0] - np.float32([ulps_of_one, 0, 0]) * np.finfo("f4").eps
    (verdict,) = judge(["certain"], [found], right, rounding)
    assert verdict.passed == passed


def test_sums_of_each_image_s_own_number_are_no_mismatch_with_sums_in_series():
    """The gradient of a bias before a ReLU and the mean over an image, channels last.

    Its terms are alike along the axes of the sum, and differ from channel to channel:
    added up in series, which NumPy does, they are rounded all one way.
    """

    @aotc.entry(x=aotc.Spec(("n", 16, 16, 24), "f32"))
    def total(x):
        return anp.sum(x, axis=(0, 1, 2))

    module = trace([total], {}).module
    rng = np.random.default_rng(7)
    numbers = rng.random((64, 1, 1, 24), np.float32)
    x = np.where(rng.random((64, 16, 16, 24)) < 0.5, numbers, np.float32(0))
    expected = reference.evaluate(module, "total", [x])

    def verdict(found):
        noisy = partial(reference.evaluate, module, "total", [x])
        rounding = Rounding(expected, lambda noise: noisy(with_op=noise))
        return judge(["total"], [found.astype(np.float32)], expected, rounding)[0]

    exact, in_series = x.sum((0, 1, 2), dtype=np.float64), x.sum((0, 1, 2))
    assert np.array_equal(expected[0], exact.astype(np.float32))
    assert not np.allclose(in_series, exact, rtol=32 * np.finfo("f4").eps, atol=0)
    assert verdict(in_series).passed
    assert not verdict(x[:-1].sum((0, 1, 2))).passed


@aotc.entry(x=aotc.Spec(("n",), "f32"), y=aotc.Spec(("n",), "bf16"))
def compared(x, y):
    one = anp.sin(x) ** 2 + anp.cos(x) ** 2
    lost = anp.sum(x) - anp.sum(x[::-1])
    return {
        "open": [
            one == 1,
            one < 1,
            anp.where(one != 1, 2.0, -3.0),
            lost == 0,
            lost.astype("bool"),
        ],
        "strict": [one == 2, x == 0, one != one, y == 0.5, anp.max(y) == y],
    }


def test_only_comparisons_that_rounding_decides_are_open():
    module = trace([compared], {}).module
    rng = np.random.default_rng(7)
    x = rng.standard_normal(67).astype(np.float32)
    y = (rng.integers(120, 136, 67) / 256).astype(dtypes.to_numpy("bf16"))
    right = reference.evaluate(module, "compared", [x, y])
    wide = x.astype(np.float64)
    one = (np.sin(wide) ** 2).astype("f") + (np.cos(wide) ** 2).astype("f")
    assert 0 < np.mean((one == 1) != right[0]) < 0.5
    compiled = [
        one == 1,
        one < 1,
        np.where(one != 1, np.float32(2), np.float32(-3)),
        ~right[3],
        ~right[4],
    ]

    def verdicts(found):
        noisy = partial(reference.evaluate, module, "compared", [x, y])
        rounding = Rounding(right, lambda noise: noisy(with_op=noise))
        return [v.passed for v in judge([""] * len(right), found, right, rounding)]

    assert verdicts([*compiled, *right[5:]]) == [True] * 10
    assert verdicts([*compiled, *(~x for x in right[5:])]) == [True] * 5 + [False] * 5
