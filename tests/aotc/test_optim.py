"""Optimizers take the steps that their papers, and optax, take."""

import ml_dtypes
import numpy as np
import pytest

import aotc
from aotc import optim, random, reference
from aotc.core.pytree import flatten
from aotc.errors import InputError
from aotc.tracing.assembly import trace

START = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
GRADS = [
    np.array([[0.1, -0.2, 0.3], [0.0, 0.4, -0.5]]),
    np.array([[-0.4, 0.5, 1e-6], [0.2, -0.1, 0.3]]),
    np.array([[1.0, 0.0, -2.0], [-0.3, 0.25, 0.1]]),
]

# What optax 0.2 makes of START after GRADS, in f64.
OPTAX = {
    "sgd": (
        optim.sgd(0.1),
        [[0.43, -1.03, 2.1699999], [1.51, 0.195, -0.74]],
    ),
    "momentum": (
        optim.sgd(0.1, 0.9),
        [[0.4489, -1.0408, 2.11869981], [1.492, 0.1356, -0.6815]],
    ),
    "nesterov": (
        optim.sgd(0.1, 0.9, nesterov=True),
        [[0.38401, -1.06672, 2.27682973], [1.5028, 0.09204, -0.67835]],
    ),
    "adagrad": (
        optim.adagrad(0.1),
        [[0.45809325, -1.02661184, 2.02888146], [1.50910208, 0.14744307, -0.7256184]],
    ),
    "rmsprop": (
        optim.rmsprop(0.1, momentum=0.5),
        [[0.11352748, -0.89008632, 1.75998499], [1.29292008, -0.35881752, -0.50851859]],
    ),
    "rmsprop, centered": (
        optim.rmsprop(0.1, centered=True, eps=1e-3, eps_in_sqrt=False),
        [[0.19117261, -0.9714244, 1.99578028], [1.43854572, -0.18499871, -0.64560227]],
    ),
    "adam": (
        optim.adam(0.1),
        [[0.41336602, -0.9784049, 1.88849401], [1.4468506, 0.03888551, -0.62706774]],
    ),
    "nadam": (
        optim.nadam(0.1),
        [[0.3708656, -0.97387479, 1.91288838], [1.44687325, 0.01241147, -0.63697217]],
    ),
    "adamw": (
        optim.adamw(optim.linear_schedule(0.1, 0.0, 4), weight_decay=0.1),
        [[0.4105381, -0.92900038, 1.83431726], [1.42159411, 0.07854388, -0.61831107]],
    ),
    "adamax": (
        optim.adamax(0.1),
        [[0.41418432, -0.9549601, 1.88500095], [1.46212857, 0.07101635, -0.63160652]],
    ),
    "adadelta": (
        optim.adadelta(1.0),
        [[0.49545283, -1.00101899, 2.00115748], [1.50061738, 0.24546578, -0.75014579]],
    ),
    "lion": (
        optim.lion(0.1),
        [[0.39986001, -1.09971003, 1.89943006], [1.49956004, 0.14993501, -0.84978502]],
    ),
    "lamb": (
        optim.lamb(0.1, weight_decay=0.01),
        [[0.37652625, -1.03995734, 1.86778032], [1.39735398, -0.12795729, -0.57290837]],
    ),
    "adafactor": (
        optim.adafactor(0.1, min_dim_size_to_factor=2),
        [[0.34703313, -1.06039852, 2.02610706], [1.52505657, 0.00366451, -0.77603376]],
    ),
    "chain": (
        optim.chain(optim.clip_by_global_norm(0.5), optim.ema(0.9)),
        [[0.46921145, -0.94964124, 2.19611649], [1.59138839, 0.6904546, -1.16579156]],
    ),
}


def steps(optimizer, params, grads):
    """The parameters after each gradient."""
    state = optimizer.init(params)
    for grad in grads:
        updates, state = optimizer.update(grad, state, params)
        params = optim.apply_updates(params, updates)
        yield params


@pytest.mark.parametrize("name", OPTAX)
def test_steps_are_those_of_optax(name):
    optimizer, expected = OPTAX[name]
    *_, params = steps(optimizer, START, GRADS)
    np.testing.assert_allclose(params, expected, rtol=0, atol=2e-7)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (optim.constant_schedule(0.5), [0.5] * 5),
        (optim.linear_schedule(1.0, 0.1, 10, 2), [1.0, 0.91, 0.82, 0.46, 0.1]),
        (optim.linear_schedule(1.0, 0.1, 0), [1.0] * 5),
        (optim.polynomial_schedule(1, 0.1, 2, 10), [1.0, 0.541, 0.424, 0.136, 0.1]),
        (
            optim.cosine_decay_schedule(1.0, 10, 0.1, 2.0),
            [1.0, 0.667239, 0.485543, 0.108207, 0.1],
        ),
        (optim.exponential_decay(1.0, 4, 0.5, 2, True, 0.3), [1.0, 1.0, 1.0, 0.5, 0.3]),
        (
            optim.piecewise_constant_schedule(1.0, {8: 0.1, 4: 0.5}),
            [1.0, 1.0, 0.5, 0.05, 0.05],
        ),
        (
            optim.join_schedules(
                [optim.constant_schedule(1.0), optim.exponential_decay(0.5, 4, 0.5)],
                [5],
            ),
            [1.0, 1.0, 1.0, 0.297302, 0.037163],
        ),
        (
            optim.warmup_cosine_decay_schedule(0.0, 1.0, 4, 10, 0.1),
            [0.0, 0.75, 1.0, 0.325, 0.1],
        ),
        (
            optim.warmup_exponential_decay_schedule(0.0, 1.0, 4, 4, 0.5),
            [0.0, 0.75, 1.0, 0.5, 0.0625],
        ),
    ],
)
def test_schedules_are_those_of_optax(schedule, expected):
    found = [float(schedule(count)) for count in (0, 3, 4, 8, 20)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def adam_in_f64(grads, rate, b1, b2, eps):
    """Algorithm 1 of Kingma and Ba (2015)."""
    params = START
    mean = square = np.zeros(START.shape)
    for t, grad in enumerate(grads.astype("f8"), 1):
        mean = b1 * mean + (1 - b1) * grad
        square = b2 * square + (1 - b2) * grad**2
        corrected = mean / (1 - b1**t), square / (1 - b2**t)
        params = params - rate * corrected[0] / (np.sqrt(corrected[1]) + eps)
        yield params


@pytest.mark.parametrize(("b1", "b2"), [(0.9, 0.999), (0.0, 0.9999), (0.5, 0.0)])
def test_adam_follows_its_paper_to_f32_precision(b1, b2):
    grads = np.random.default_rng(0).normal(size=(50, 2, 3)).astype("f4")
    ours = steps(optim.adam(0.01, b1, b2), START.astype("f4"), grads)
    paper = adam_in_f64(grads, 0.01, b1, b2, 1e-8)
    for params, wanted in zip(ours, paper, strict=True):
        np.testing.assert_allclose(params, wanted, rtol=0, atol=2e-6)


# ---- states -------------------------------------------------------------------------

TREE = {"w": np.ones((2, 3), "f4"), "b": [np.ones(3, ml_dtypes.bfloat16), None]}


@pytest.mark.parametrize("name", OPTAX)
def test_states_keep_their_form_and_dtypes(name):
    optimizer, _ = OPTAX[name]
    state = optimizer.init(TREE)
    updates, after = optimizer.update(TREE, state, TREE)
    params = optim.apply_updates(TREE, updates)
    stored = [aotc.State((p, s)) for p, s in ((TREE, state), (params, after))]
    assert stored[0].structure == stored[1].structure
    for before, now in zip(stored[0].arrays, stored[1].arrays, strict=True):
        assert (before.shape, before.dtype) == (now.shape, now.dtype)


def test_averages_may_have_a_dtype_of_their_own():
    params = START.astype(ml_dtypes.bfloat16)
    optimizer = optim.adam(0.1, mu_dtype="f32")
    state = optimizer.init(params)
    assert (state[0].mu.dtype, state[0].nu.dtype) == ("f32", "bf16")
    updates, after = optimizer.update(params, state, params)
    assert (after[0].mu.dtype, after[0].nu.dtype) == ("f32", "bf16")
    wide = optim.adam(0.1).init(
        START.astype("f4")
    )  # as docs/training.md has it for bf16
    updates, after = optim.adam(0.1).update(params, wide, params)
    assert {x.dtype for x in (updates, after[0].mu, after[0].nu)} == {"f32"}
    assert optim.apply_updates(params, updates).dtype == "bf16"


def test_updates_too_small_for_bf16_count_in_the_mean_if_rounded_by_chance():
    """An update is an eighth of a step of bf16 at 1; f32 is not rounded."""
    params = {"w": np.ones(4000, ml_dtypes.bfloat16), "b": np.ones(3, "f4")}
    updates = {"w": np.full(4000, 2.0**-10, "f4"), "b": np.full(3, 2.0**-10, "f4")}
    assert (np.asarray(optim.apply_updates(params, updates)["w"]) == 1).all()
    key = random.key(3)
    for step in range(16):
        params = optim.apply_updates(params, updates, random.fold_in(key, step))
    assert (params["w"].dtype, params["b"].dtype) == ("bf16", "f32")
    np.testing.assert_array_equal(np.asarray(params["b"]), np.float32(1 + 2**-6))
    mean = np.asarray(params["w"]).astype("f8").mean()
    assert abs(mean - (1 + 2**-6)) < 2**-10
    with pytest.raises(InputError, match="bf16"):
        optim.apply_updates(np.ones(3, "f2"), np.ones(3, "f4"), key)


def step_of(make_optimizer, params, **state):
    """The program of one training step."""
    state = {"params": params, **state}
    stored = aotc.State(state | {"opt": make_optimizer(state).init(params)})

    @aotc.entry(state=stored, grads=aotc.Spec(params.shape))
    def step(state, grads):
        optimizer = make_optimizer(state)
        updates, opt = optimizer.update(grads, state["opt"], state["params"])
        params = optim.apply_updates(state["params"], updates)
        return {**state, "params": params, "opt": opt}

    return trace([step], {id(stored): "state"})


def test_a_rate_may_be_a_part_of_the_state():
    params, grads = START.astype("f4"), GRADS[0].astype("f4")
    program = step_of(lambda state: optim.adam(state["rate"]), params, rate=0.25)
    names = [name.removeprefix("state.") for name in program.parameters]
    given = [*program.parameters.values(), grads]
    found = reference.evaluate(program.module, "step", given)
    (wanted,) = steps(optim.adam(0.25), params, [grads])
    np.testing.assert_allclose(found[names.index("params")], wanted, rtol=1e-6)


def test_adam_is_few_operations():
    text = str(step_of(lambda _: optim.adam(0.1), START.astype("f4")).module)
    assert text.count("graph.cast") <= 2  # the count of steps, for each average
    assert text.count("graph.power") == 0
    computing = [
        line
        for line in text.splitlines()
        if "graph." in line
        and not any(word in line for word in ("constant", "broadcast", "func.func"))
    ]
    assert len(computing) <= 30


# ---- some parameters, some steps ----------------------------------------------------


@pytest.mark.parametrize(
    "mask",
    [
        {"w": {"kernel": True, "bias": True}, "norm": False},
        {"w": True, "norm": False},
        lambda tree: {"w": True, "norm": False},
    ],
)
def test_what_is_masked_stays_as_it_is(mask):
    params = {"w": {"kernel": START, "bias": START[0]}, "norm": START[1]}
    optimizer = optim.masked(optim.adam(0.1), mask)
    state = optimizer.init(params)
    assert len(flatten(state)[0]) == 1 + 2 * 2  # a count, and two averages of two
    updates, _ = optimizer.update(params, state, params)
    np.testing.assert_array_equal(updates["norm"], params["norm"])
    np.testing.assert_allclose(updates["w"]["bias"], -0.1 * np.sign(START[0]), 1e-6)


def test_weights_decay_where_the_mask_says_so():
    params = {"w": START, "b": START[0]}
    zeros = {"w": 0 * START, "b": 0 * START[0]}
    optimizer = optim.adamw(0.5, weight_decay=0.1, mask={"w": True, "b": False})
    (after,) = steps(optimizer, params, [zeros])
    np.testing.assert_allclose(after["w"], 0.95 * START)
    np.testing.assert_array_equal(after["b"], START[0])


def test_accumulated_gradients_make_one_step_of_their_mean():
    optimizer = optim.MultiSteps(optim.adam(0.1), 3)
    first, second, third, fourth = steps(optimizer, START, [*GRADS, GRADS[0]])
    np.testing.assert_array_equal(first, START)
    np.testing.assert_array_equal(second, START)
    (wanted,) = steps(optim.adam(0.1), START, [np.mean(GRADS, axis=0)])
    np.testing.assert_allclose(third, wanted, rtol=1e-6)
    np.testing.assert_array_equal(fourth, third)


def test_how_many_gradients_make_a_step_may_follow_a_schedule():
    each = optim.MultiSteps(
        optim.sgd(1.0), lambda step: step + 1, False, accumulator_dtype="f64"
    )
    state, stepped = each.init(START), []
    for _ in range(6):
        _, state = each.update(START, state)
        stepped.append(bool(each.has_updated(state)))
    assert stepped == [True, False, True, False, False, True]


def test_the_loss_scale_finds_its_size_and_leaves_out_steps_that_overflow():
    optimizer = optim.dynamic_loss_scale(optim.sgd(0.5), 8.0, growth_interval=2)
    params = {"w": np.array([1.0, 2.0], "f4")}
    state, scales = optimizer.init(params), []
    for gradient in (1.0, np.inf, 1.0, 1.0, 1.0, np.nan):
        grads = {"w": gradient * np.asarray(state.scale) * np.ones(2, "f4")}
        updates, state = optimizer.update(grads, state, params)
        step = 0.0 if not np.isfinite(gradient) else -0.5 * gradient
        np.testing.assert_array_equal(updates["w"], [step, step])
        scales.append(float(np.asarray(state.scale)))
    assert scales == [8.0, 4.0, 4.0, 8.0, 8.0, 4.0]


def test_gradients_that_are_not_finite_change_nothing():
    optimizer = optim.apply_if_finite(optim.adam(0.1), 1)
    bad = np.where(START > 1.9, np.inf, START)
    state = optimizer.init(START)
    updates, skipped = optimizer.update(bad, state)
    assert not np.any(updates)
    assert int(skipped.inner_state[0].count) == 0
    assert (bool(skipped.last_finite), int(skipped.total_notfinite)) == (False, 1)
    updates, taken = optimizer.update(bad, skipped)  # the second one in a row
    assert not np.all(np.isfinite(updates))
    _, well = optimizer.update(START, skipped)
    assert (int(well.notfinite_count), int(well.inner_state[0].count)) == (0, 1)


def test_parameters_are_averaged():
    average = optim.ema(0.75)
    state, total = average.init(START), 0.0
    for age, params in enumerate((START, 2 * START, -START)):
        found, state = average.update(params, state)
        total = 0.75 * total + 0.25 * params
        np.testing.assert_allclose(found, total / (1 - 0.75 ** (age + 1)), rtol=1e-12)
    moved = optim.incremental_update(np.ones(3), np.zeros(3), 0.25)
    np.testing.assert_allclose(moved, [0.25] * 3)


def test_norms_of_half_precision_do_not_overflow():
    grads = {"a": np.full(100, 300, "f2"), "b": np.zeros((2, 2), "f2")}
    assert float(optim.global_norm(grads)) == 3000
    clip = optim.clip_by_global_norm(1.0)
    updates, _ = clip.update(grads, clip.init(grads))
    assert updates["a"].dtype == "f16"
    np.testing.assert_allclose(updates["a"], np.full(100, 0.1), rtol=1e-3)


# ---- bad input ----------------------------------------------------------------------


def updated(optimizer, grads, params, state=None):
    """What one update gives."""
    state = optimizer.init(params) if state is None else state
    updates, _ = optimizer.update(grads, state, params)
    return optim.apply_updates(params, updates)


WRONG = {
    "expected parameters, gradients and moments of one form; got {b: *} and {a: *}": (
        lambda: updated(optim.adam(0.1), {"b": START}, {"a": START})
    ),
    "expected arrays of one shape at 'a'; got f64[2, 3] and f64[3]": (
        lambda: optim.apply_updates({"a": START}, {"a": START[0]})
    ),
    "expected arrays of floats at 'n'; got i32[2]": (
        lambda: optim.adam(0.1).init({"n": np.zeros(2, "i4")})
    ),
    "expected the states of 2 transformations; got ()": (
        lambda: updated(optim.adam(0.1), START, START, ())
    ),
    "a ScaleByAdamState; got f64[2, 3]": (
        lambda: optim.scale_by_adam().update(START, START)
    ),
    "this optimizer needs the parameters": (
        lambda: optim.lamb(0.1).update(START, optim.lamb(0.1).init(START))
    ),
    "expected 'learning_rate(count)' to be a number or a float scalar; got f64[2, 3]": (
        lambda: updated(optim.sgd(lambda count: START), START, START)
    ),
    "expected 'learning_rate' to be a number or a float scalar; got np.int32(1)": (
        lambda: optim.sgd(np.int32(1))
    ),
    "expected 'transition_steps' to be 0 or more; got -1": (
        lambda: optim.linear_schedule(0.1, 0.0, -1)
    ),
    "expected 'decay_steps' to be 11 or more; got 10": (
        lambda: optim.warmup_cosine_decay_schedule(0.0, 0.1, 10, 10)
    ),
    "expected 'b2' to be at least 0 and below 1; got 1.0": (
        lambda: optim.adam(0.1, b2=1.0)
    ),
    "expected a mask of True and False; got 1": (
        lambda: updated(optim.masked(optim.adam(0.1), 1), START, START)
    ),
    "or of the upper part of it; got {b: *} for {a: *}": (
        lambda: optim.adamw(0.1, mask={"b": True}).init({"a": START})
    ),
    "expected 'every_k_schedule' to be 1 or more": (
        lambda: optim.MultiSteps(optim.adam(0.1), 0)
    ),
    "expected 'opt' to be an optimizer; got 7": lambda: optim.MultiSteps(7, 2),
    "expected 'max_consecutive_errors' to be 0 or more; got -1": (
        lambda: optim.apply_if_finite(optim.adam(0.1), -1)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_are_told(message):
    with pytest.raises(InputError) as caught:
        WRONG[message]()
    assert message in caught.value.message
    assert "test_optim.py" in (caught.value.where or "")
