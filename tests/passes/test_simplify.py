"""simplify: neutral elements, constants, inverse pairs, unused ops."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import control, debug, nn
from aotc.dialects.control import control_of
from aotc.dialects.functions.functions import functions_of, signature
from aotc.tracing.tracing import emit


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: x * 1.0, []),
        (lambda x: x + 0.0, []),
        (lambda x: x - 0.0, []),
        (lambda x: x / 1.0, []),
        (lambda x: anp.negative(-x), []),
        (lambda x: anp.transpose(anp.transpose(x)), []),
        (lambda x: anp.reshape(anp.reshape(x, (12,)), (3, 4)), []),
        (lambda x: x.astype("f32"), []),
        (lambda x: (x.sum(), x)[1], []),
        (lambda x: x * -1.0, ["negate"]),
        (
            lambda x: anp.tensordot(x, anp.exp(x), 0),
            ["exp", "broadcast", "broadcast", "multiply"],
        ),
    ],
)
def test_fires_on(model, function, left):
    small = model(function, "f32[3, 4]")
    small.keeps_meaning_under("simplify")
    assert small.ops == left


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2.0,
        lambda x: 1.0 - x,
        lambda x: 1.0 / x,
        lambda x: anp.transpose(x) + 1.0,
        lambda x: x.astype("f64"),
    ],
)
def test_leaves_alone(model, function):
    small = model(function, "f32[4, 4]")
    small.run("simplify")
    before = small.ops
    assert not small.run("simplify")
    assert small.ops == before != []


@pytest.mark.parametrize(("size", "left"), [(3, []), (300, ["exp"])])
def test_evaluates_small_constants_only(model, size, left):
    folded = model(lambda x: x + anp.exp(np.ones(size, "f")), f"f32[{size}]")
    folded.keeps_meaning_under("simplify")
    assert folded.ops == ["constant", *left, "add"]


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: x + anp.ones((3, 50)).sum(1)[:, None], 0),
        (lambda x: x + anp.full((3, 50), 2.0).max(), 0),
        (lambda x: anp.broadcast_to(x[:, None], (3, 9, 4)).min(1), 0),
        (lambda x: anp.broadcast_to(x[:, None], (3, 9, 4)).sum((1, 2)), 1),
        (lambda x: x + anp.ones(70000, "f16").sum().astype("f32"), 0),
        (lambda x: x + anp.ones(300, "i8").sum().astype("f32"), 0),
        (lambda x: x + anp.full(5, 2.0).prod(), 1),
    ],
)
def test_a_reduction_of_repeated_elements_is_none(model, function, left):
    small = model(function, "f32[3, 4]")
    small.keeps_meaning_under("simplify", "cse", "simplify")
    assert sum(op.startswith("reduce") for op in small.ops) == left


def test_the_mean_of_symbolic_ones_is_a_quotient(model):
    small = model(
        lambda x: x / anp.ones(x.shape).sum(1, keepdims=True),
        "f32[n, 4]",
        symbols=("n",),
    )
    small.keeps_meaning_under("simplify")
    assert "reduce_sum" not in small.ops


def test_a_padding_of_symbolic_size_is_not_taken_for_nothing(model):
    def function(x, y):
        return anp.concatenate([x, y], 0)[:, 1:]

    pads = model(function, "f32[n, 4]", "f32[m, 4]", symbols=("n", "m"))
    pads.keeps_meaning_under("simplify")


def test_a_padding_that_cuts_becomes_a_slice(model):
    def function(x):
        return emit("pad", x, low=(-1,), high=(2,), interior=(0,), value=5.0)

    cut = model(function, "f32[6]")
    cut.keeps_meaning_under("simplify")
    assert cut.ops == ["slice", "pad"]


@pytest.mark.parametrize(
    ("image", "window", "options", "left"),
    [
        ((2, 3, 4, 5), (2, 2), {"strides": 2}, 0),
        ((1, 1, 1, 2), (3, 3), {"strides": 3}, 0),
        ((2, 3, 4, 5), (4, 6), {"strides": 2}, 0),
        ((2, 3, 4, 5), (4, 4), {"strides": 2, "padding": 2}, 0),
        ((2, 5, 4, 5), (4, 4), {"strides": (4, 2), "output_padding": (3, 1)}, 0),
        ((2, 3, 4, 5), (2, 3), {"strides": (2, 1), "padding": ((0, 1), (1, 1))}, 0),
        ((2, 7, 3), (6,), {"strides": 3}, 0),
        ((2, 2, 3, 2, 3), (2, 2, 2), {"strides": (2, 1, 2)}, 0),
        ((0, 3, 4, 5), (2, 2), {"strides": 2}, 0),
        (("n", 3, 4, 5), (2, 2), {"strides": 2}, 0),
        # phases with unlike kernels, groups, holes, and sizes that may be zero
        ((2, 3, 4, 5), (3, 3), {"strides": 2}, 1),
        ((2, 3, 4, 5), (4, 4), {"strides": 2, "padding": 1}, 1),
        ((2, 3, 4, 4), (2, 2), {"strides": 2, "groups": 2}, 1),
        ((2, 3, 4, 5), (2, 2), {"strides": 2, "dilation": 3}, 1),
        ((2, 0, 4, 5), (4, 4), {"strides": 2}, 1),
        ((2, "n", 4, 5), (2, 2), {"strides": 2}, 1),
    ],
)
def test_a_transposed_convolution_multiplies_no_zeros(
    model, image, window, options, left
):
    channels = image[-1] // options.get("groups", 1)
    types = (
        f"f32[{', '.join(map(str, shape))}]"
        for shape in (image, (*window, channels, 4), (4,))
    )
    spread = model(
        lambda x, w, b: nn.conv_transpose(x, w, b, **options), *types, symbols=("n",)
    )
    spread.keeps_meaning_under("simplify")
    assert spread.ops.count("pad") == left
    assert spread.ops.count("conv_general") == 1
    assert not spread.run("simplify")


def test_zeros_that_are_read_elsewhere_or_are_none_stay(model):
    def function(x, w, value=0.0, low=1, padding=0):
        zeros = {"low": (0, low, 1, 0), "high": (0, 1, 1, 0), "interior": (0, 1, 1, 0)}
        padded = emit("pad", x, **zeros, value=value)
        return nn.conv(padded, w, padding=((padding, 0), (0, 0))), padded

    types = "f32[1, 3, 4, 2]", "f32[2, 2, 2, 3]"
    shared = model(function, *types)
    shared.keeps_meaning_under("simplify")
    assert shared.ops.count("pad") == 1
    assert "transpose" in shared.ops
    cut = {"low": -1, "padding": 2}  # which puts zeros where elements were
    for options in ({"value": 1.0}, {"low": 2}, {"low": -1}, cut):
        other = model(lambda x, w, given=options: function(x, w, **given), *types)
        other.keeps_meaning_under("simplify")
        assert "transpose" not in other.ops


def wrapped(i, n):
    """An index as importers write it: from the end, if it is negative."""
    return anp.where(i < 0, i + n, i)


def part(x, start, sizes, strides=None):
    strides = strides or (1,) * len(sizes)
    return emit("slice", x, start=start, sizes=sizes, strides=strides)


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda i: i - i, ["constant", "broadcast"]),
        (lambda i: i * 0, ["constant", "broadcast"]),
        (lambda i: anp.maximum(i, i) + anp.minimum(i, i), ["add"]),
        (lambda i: (i & i) | i, []),
        (lambda i: ~~i, []),
        (lambda i: anp.where(i == i, i, i + 1), []),
        (lambda i: anp.where(i != i, i + 1, i), []),
        (lambda i: anp.where(i > 2, i, i), []),
        (lambda i: anp.where((i > 2) & (i >= i), i, -i).sum() * 0, ["constant"]),
        (lambda i: anp.where((i > 2) | (i >= i), i, -i), []),
        (lambda i: i + wrapped(anp.arange(4), 9), ["iota", "broadcast", "add"]),
        (lambda i: wrapped(anp.maximum(i, 0), 9), ["constant", "broadcast", "maximum"]),
        (lambda i: anp.flip(anp.flip(i, 0), (0, 1)), ["reverse"]),
        (lambda i: anp.flip(i[:1], 0), ["slice"]),
        (lambda i: part(part(i, (1, 0), (2, 4)), (1, 1), (1, 2), (1, 2)), ["slice"]),
        (lambda i: anp.concatenate([i, i + 1])[1:2], ["slice"]),
        (lambda i: anp.concatenate([i, i[::-1] * 2])[:3], []),
        (lambda i: anp.concatenate([i[:0], i]), []),
        (lambda i: anp.broadcast_to(i[:, :, None], (3, 4, 5)).T[2], None),
        (lambda i: anp.broadcast_to(i[1, 2], (2, 6)).reshape((3, 4)) + i, None),
    ],
)
def test_integers_and_what_moves_them(model, function, left):
    small = model(function, "i32[3, 4]")
    small.keeps_meaning_under("simplify", "cse", "simplify")
    if left is not None:
        assert small.ops == left
    assert not small.run("simplify")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: x - x, "f32[3, 4]"),  # NaN, for NaN and infinity
        (lambda x: x * 0.0, "f32[3, 4]"),
        (lambda x: anp.where(x == x, x, 0.0), "f32[3, 4]"),
        (lambda x: wrapped(x, 9), "i32[3, 4]"),
        (lambda x: wrapped(anp.arange(4) - x, 9), "i32[3, 4]"),
        (lambda x: wrapped(anp.arange(200).astype("i8")[:4] - x, 9), "i8[3, 4]"),
        (lambda x: wrapped(x.astype("i64").astype("i8"), 9), "u8[3, 4]"),
        (lambda x: anp.concatenate([x, x + 1])[2:4] + 1, "i32[3, 4]"),
        (lambda x: (x & 3) | (x ^ 1), "i32[3, 4]"),
    ],
)
def test_leaves_what_could_be_otherwise(model, function, kind):
    small = model(function, kind)
    small.keeps_meaning_under("cse")
    before = small.ops
    small.keeps_meaning_under("simplify")
    assert set(small.ops) >= set(before) - {"broadcast", "constant", "cast"}


def test_an_index_counter_that_wraps_around_may_be_negative(model):
    small = model(lambda x: x + wrapped(anp.arange(300, dtype="i8"), 9), "i8[300]")
    small.keeps_meaning_under("simplify")
    assert "select" in small.ops


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: anp.take(x, anp.arange(4), axis=1), []),
        (lambda x: anp.take(x, anp.arange(3), axis=1), ["slice"]),
        (lambda x: x[:, anp.arange(4)[:, None] + 0 * x[0].astype("i32")], None),
        (lambda x: anp.take(x, np.arange(4)[None, :], axis=1), []),
        (lambda x: x[:, np.arange(2)[:, None], np.arange(5)], ["slice"]),
        (lambda x: x[anp.arange(3)[None], anp.arange(4)[:, None]], ["transpose"]),
        (lambda x: anp.take(anp.full(4, 2.0), x[0].astype("i32")), ["constant"]),
    ],
)
def test_what_is_read_in_order_is_moved(model, function, left):
    small = model(function, "f32[3, 4, 5]")
    small.keeps_meaning_under("simplify", "cse", "simplify")
    assert "gather" not in small.ops
    if left:
        assert [op for op in small.ops if op != "broadcast"] == left
    assert not small.run("simplify")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: anp.take(x, anp.arange(6), axis=1),  # the last one is read again
        lambda x: anp.take(x, anp.arange(3) + 1, axis=1),
        lambda x: x[anp.arange(3), anp.arange(3)],  # a diagonal
        lambda x: anp.take(x, anp.arange(3)[::-1], axis=1),
    ],
)
def test_what_is_read_in_another_order_is_gathered(model, function):
    small = model(function, "f32[3, 4, 5]")
    small.keeps_meaning_under("simplify", "cse", "simplify")
    assert "gather" in small.ops


def test_symbolic_positions_are_read_in_order(model):
    def function(x, table):
        rows, columns = (anp.arange(n, dtype="i64") for n in x.shape)
        return x[rows[:, None], columns], anp.take(table, columns, axis=0)

    small = model(function, "f32[n, m]", "f32[m, 2]", symbols=("n", "m"))
    small.keeps_meaning_under("simplify", "cse", "simplify")
    assert small.ops == []


def test_symbolic_positions_are_not_negative(model):
    def function(x):
        return x + wrapped(anp.arange(x.shape[0], dtype="i64"), x.shape[0])[:, None]

    small = model(function, "i64[n, 4]", symbols=("n",))
    small.keeps_meaning_under("simplify")
    assert small.ops == ["iota", "reshape", "broadcast", "add"]


def test_is_idempotent(model):
    mixed = model(
        lambda x: anp.exp(x * 1.0) + (2.0 + x * 0.5), "f32[n]", symbols=("n",)
    )
    assert mixed.run("simplify")
    assert not mixed.run("simplify")


def sizes_of_control(module):
    """How many values each control flow takes and returns, by its kind."""
    found = {}
    for function in functions_of(module).values():
        flow = control_of(function)
        if flow is not None:
            inputs, outputs = signature(function)
            found.setdefault(flow.kind, []).append((len(inputs), len(outputs)))
    return found


def test_a_scan_keeps_what_its_used_results_depend_on(model):
    def function(x, y, z):
        def step(carried, row):
            total, count, unused = carried
            stacked = row * 2.0, anp.sin(row), unused
            return (total + row * y, count + 1.0, unused * z), stacked

        start = anp.zeros(4), anp.zeros(()), anp.ones(4)
        (total, _, _), stacks = control.scan(step, start, x)
        return total, stacks[1]

    small = model(function, "f32[3, 4]", "f32[4]", "f32[4]")
    small.keeps_meaning_under("inline", "simplify")
    assert sizes_of_control(small.module) == {"scan": [(3, 2)]}
    assert not small.run("simplify")


def test_a_while_loop_keeps_what_its_condition_reads(model):
    def function(x):
        def body(carried):
            total, count, unused = carried
            return total * 2.0, count + 1.0, anp.sin(unused)

        start = x, anp.zeros(()), x
        return control.while_loop(lambda c: c[1] < 3.0, body, start)[0]

    small = model(function, "f32[4]")
    small.keeps_meaning_under("inline", "simplify")
    assert sizes_of_control(small.module) == {"while": [(2, 2)]}


def test_a_branch_computes_only_what_is_used(model):
    def function(x, y):
        flag = anp.sum(x) > 1.0
        found = control.cond(flag, lambda: (x, anp.sin(y)), lambda: (-x, y))
        return found[0]

    small = model(function, "f32[4]", "f32[5]")
    small.keeps_meaning_under("inline", "simplify")
    assert sizes_of_control(small.module) == {"switch": [(2, 1)]}


def test_loops_within_loops_lose_what_the_outer_one_lost(model):
    def function(x):
        def inner(carried, v):
            return (carried[0] + v, carried[1] * v), anp.sin(v)

        def outer(carried, row):
            (total, _), sines = control.scan(inner, (anp.zeros(()), carried[1]), row)
            return (carried[0] + total, carried[1]), anp.sum(sines)

        return control.scan(outer, (anp.zeros(()), anp.ones(())), x)[0][0]

    small = model(function, "f32[3, 4]")
    small.keeps_meaning_under("inline", "simplify")
    # the inner loop's operands: its start and the row
    assert sorted(sizes_of_control(small.module)["scan"]) == [(2, 1), (2, 1)]


def test_the_gradient_of_a_loop_saves_only_what_it_reads(model):
    def linear(x):
        return control.scan(lambda c, row: (c + 2.0 * row, c), anp.zeros(4), x)[0].sum()

    def curved(x):
        step = lambda c, row: (anp.sin(c) + row, c * 2.0)  # noqa: E731
        return control.scan(step, anp.zeros(4), x)[0].sum()

    found = []
    for function in (linear, curved):
        graded = model(aotc.grad(function), "f32[3, 4]")
        graded.run("autodiff", "inline")
        graded.keeps_meaning_under("simplify", "cse", "simplify")
        found.append(sizes_of_control(graded.module)["scan"])
    # backward alone; or forward, which returns what each step began with, and backward
    assert [len(each) for each in found] == [1, 2]


def test_effects_in_loops_stay(model):
    def function(x):
        def step(carried, row):
            debug.check(anp.sum(row) > 0.0, "positive rows")
            return carried + row, row

        return control.scan(step, anp.zeros(4), x)[1]

    small = model(function, "f32[3, 4]")
    small.run("inline", "simplify")
    assert "graph.assert" in str(small.module)
    assert sizes_of_control(small.module) == {"scan": [(1, 1)]}
