"""Running totals, reductions over chosen elements, and scans by functions."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc
import aotc.numpy as anp
from aotc import control, nn, reference
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from tests.comparing import near

few = settings(max_examples=40, deadline=None)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)
EXACT = st.integers(-16, 16).map(lambda n: np.float32(n / 8))
exact = hnp.arrays(np.float32, SHAPES, elements=EXACT)
full = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4), elements=EXACT
)


# ---- running totals -----------------------------------------------------------------

RUNNING = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}


@pytest.mark.parametrize("name", RUNNING)
@few
@given(exact, st.booleans(), st.data())
def test_running_totals_agree_with_accumulate(name, x, reverse, data):
    axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    flat, number = (x.ravel(), 0) if axis is None else (x, axis)
    turned = np.flip(flat, number) if reverse else flat
    y = RUNNING[name].accumulate(turned, number)
    wanted = np.flip(y, number) if reverse else y
    near(getattr(anp, name)(x, axis, reverse=reverse), wanted, 1e-5)


def test_totals_of_bools_count_and_small_integers_wrap():
    near(anp.cumsum(np.array([True, False, True])), [1, 1, 2])
    assert anp.cumsum(np.array([100, 100], "i1")).dtype == "i8"
    near(anp.cumsum(np.array([100, 100], "i1")), [100, -56])
    near(anp.cumulative_sum([1, 2], include_initial=True), [0, 1, 3])
    near(anp.cumulative_prod([[2, 3]], axis=1, include_initial=True), [[1, 2, 6]])


def test_nan_is_left_out_of_totals_that_say_so():
    x = np.array([1, np.nan, 3], "f")
    near(anp.nancumsum(x), np.nancumsum(x))
    near(anp.nancumprod(x), np.nancumprod(x))


def test_a_recurrence_forgets_at_the_rate_of_its_factor():
    x = np.array([[1.0, 2.0, 3.0]], "f")
    near(anp.linear_recurrence(0.5, x, 1), [[1, 2.5, 4.25]])
    near(anp.linear_recurrence(0.5, x, 1, reverse=True), [[2.75, 3.5, 3]])


# ---- reductions ---------------------------------------------------------------------

CHOSEN = {"sum": {}, "prod": {}, "max": {"initial": -3.0}, "min": {"initial": 3.0},
          "any": {}, "all": {}}  # fmt: skip


@pytest.mark.parametrize("name", CHOSEN)
@few
@given(exact, st.booleans(), st.data())
def test_only_chosen_elements_count(name, x, keepdims, data):
    axis = data.draw(st.sampled_from([None, 0, -1]))
    options = {"where": x > 0, "keepdims": keepdims, **CHOSEN[name]}
    wanted = getattr(np, name)(x, axis, **options)
    near(getattr(anp, name)(x, axis, **options), wanted)


@pytest.mark.filterwarnings("ignore")
@few
@given(full, st.sampled_from([0, 1]))
def test_means_of_chosen_elements_agree_with_numpy(x, ddof):
    chosen = x > 0
    near(anp.mean(x, 0, where=chosen), np.mean(x, 0, where=chosen))
    wanted = np.var(x, 0, ddof=ddof, where=chosen)
    ours = np.asarray(anp.var(x, 0, ddof=ddof, where=chosen))
    enough = np.sum(chosen, 0) > ddof
    near(ours[enough], wanted[enough])
    weights = np.arange(1, len(x) + 1, dtype="f")
    near(anp.average(x, 0, weights), np.average(x, 0, weights))
    near(anp.ptp(x, 0), np.ptp(x, 0))
    near(anp.trapezoid(x, dx=0.5), 0.25 * (x[..., 1:] + x[..., :-1]).sum(-1))


NAN = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd",
       "nanargmax", "nanargmin"]  # fmt: skip


@pytest.mark.parametrize("name", NAN)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_nan_is_left_out_where_the_name_says_so(name, axis):
    x = np.array([[1, np.nan, 3], [-2, 5, np.nan], [0.5, 1, np.nan]], "f")
    x = x[:, :2] if name.startswith("nanarg") else x
    near(getattr(anp, name)(x, axis), getattr(np, name)(x, axis))


def test_spreads_without_nan_have_derivatives_that_leave_it_out_too():
    x = np.array([1.0, 2.0, np.nan, 4.0])

    @aotc.entry(x=aotc.Spec((4,), "f64"))
    def entry(x):
        return aotc.grad(anp.nanvar)(x)

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    (found,) = reference.evaluate(program.module, "entry", [x])
    near(found, 2 / 3 * np.where(np.isnan(x), 0, x - 7 / 3), 1e-15)


def test_the_extreme_of_nothing_but_nan_is_nan():
    x = np.full(3, np.nan, "f")
    for function in (anp.nanmax, anp.nanmin, anp.nanmean):
        assert np.isnan(np.asarray(function(x)))


def test_logsumexp_is_safe_at_infinities():
    x = np.array([[1000.0, 1001.0, 999.0], [-np.inf, -np.inf, -np.inf]], "f")
    y = nn.logsumexp(x, 1)
    near(y, [1001 + np.log(1 + np.exp(-1) + np.exp(-2)), -np.inf])
    near(nn.logsumexp(x[0], b=[0, 1, 0], keepdims=True), [1001])
    near(nn.logsumexp(x[:, :0], 1), [-np.inf, -np.inf])


# ---- functions of the user's --------------------------------------------------------


@pytest.mark.parametrize("size", range(8))
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_pairs_is_a_recurrence(size, reverse):
    rng = np.random.default_rng(size)
    a, x = rng.uniform(-1, 1, (2, 2, size)).astype("f")

    def both(one, other):
        return {"a": one["a"] * other["a"], "x": other["a"] * one["x"] + other["x"]}

    found = control.associative_scan(both, {"a": a, "x": x}, reverse, axis=1)
    near(found["x"], anp.linear_recurrence(a, x, 1, reverse=reverse))


@few
@given(full)
def test_a_reduction_keeps_the_order_of_the_elements(x):
    numbers = np.arange(x.shape[0], dtype="i4")
    last = control.reduce(lambda a, b: b, numbers)
    first = control.reduce(lambda a, b: a, numbers)
    assert (int(np.asarray(first)), int(np.asarray(last))) == (0, x.shape[0] - 1)
    near(control.reduce(anp.add, x, -1, initial=2.0), x.sum(-1) + 2)


@pytest.mark.parametrize("function", ["sum", "prod", "max", "min"])
def test_windows_slide_over_all_axes(function):
    x = np.random.default_rng(0).standard_normal((5, 6)).astype("f")
    view = np.lib.stride_tricks.sliding_window_view(x, (2, 3))[::2]
    wanted = getattr(np, function)(view, (-2, -1))
    near(control.reduce_window(function, x, (2, 3), (2, 1)), wanted)
    own = {"sum": anp.add, "prod": anp.multiply, "max": anp.maximum}
    if function in own:
        near(control.reduce_window(own[function], x, (2, 3), (2, 1)), wanted)
    same_size = control.reduce_window(function, x, (3, 2), padding="SAME")
    assert same_size.shape == x.shape


def test_windows_have_gaps_and_padding():
    x = np.arange(6, dtype="i4")
    near(control.reduce_window("max", x, (2,), dilation=(2,)), [2, 3, 4, 5])
    found = control.reduce_window("min", x, (2,), (2,), [(1, 1)])
    near(found, [0, 1, 3, 5])


def test_padding_of_windows_of_truths_is_neutral():
    x = np.array([True, False, False, True])
    for function, wanted in (("max", [1, 1, 0, 1, 1]), ("min", [1, 0, 0, 0, 1])):
        found = control.reduce_window(function, x, (2,), padding=[(1, 1)])
        np.testing.assert_array_equal(np.asarray(found), np.array(wanted, bool))


@pytest.mark.parametrize("function", ["min", "max"])
def test_padding_of_windows_never_wins_over_the_largest_integers(function):
    x = np.array([2**63 - 1, 5, -(2**63)], "i8")
    found = control.reduce_window(function, x, (3,), padding="SAME")
    ends = {"min": [5, -(2**63), -(2**63)], "max": [2**63 - 1, 2**63 - 1, 5]}
    np.testing.assert_array_equal(np.asarray(found), np.array(ends[function], "i8"))


X = np.ones((2, 3), "f")
BAD = {
    "axis of a total": lambda: anp.cumsum(X, 2),
    "no vector": lambda: anp.cumulative_sum(X),
    "axis of a recurrence": lambda: anp.linear_recurrence(X, X, 2),
    "no initial": lambda: anp.max(X, where=X > 0),
    "mask": lambda: anp.sum(X, where=X),
    "weights": lambda: anp.average(X, 0, np.ones(3)),
    "window": lambda: control.reduce_window("sum", X, (2,)),
    "padding": lambda: control.reduce_window(anp.add, X, (2, 2), padding="SAME"),
    "name": lambda: control.reduce_window("mean", X, (2, 2)),
    "function": lambda: control.associative_scan(lambda a, b: (a, b), X),
    "sizes": lambda: control.associative_scan(lambda a, b: a, (X, X[:1])),
    "nothing": lambda: control.reduce(anp.add, X[:0]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    with pytest.raises(InputError):
        BAD[name]()
