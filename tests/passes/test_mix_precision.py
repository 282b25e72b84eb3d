"""mix-precision: builds in bf16 and f16 of models that say nothing of them."""

from collections import Counter

import numpy as np
import pytest

import aotc
from aotc import control, nn, optim, random, reference
from aotc import numpy as anp
from aotc.checks import nonfinite
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.mlir import func
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.loss_scaling import INITIAL, INTERVAL, LEAST, MOST
from aotc.passes.mix_precision import MixPrecision
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace

RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 8)).astype("f4")
Y = RNG.normal(size=(6, 3)).astype("f4")
START = {
    "w": RNG.normal(size=(8, 3)).astype("f4"),
    "b": np.zeros(3, "f4"),
}


def loss(params, x, y):
    return anp.mean((x @ params["w"] + params["b"] - y) ** 2)


class Built:
    """An entry, called by the names of what it takes, by the reference evaluator."""

    def __init__(self, entry, compute=None):
        self.unit = Unit(trace([entry], {}))
        if compute is not None:
            run_passes(self.unit, [MixPrecision(compute)])
        self.graph = str(self.unit.module)
        run_passes(self.unit, PASS_STAGES[0].passes())
        (self.entry,) = self.unit.program.entries
        self.stored = dict(self.unit.program.parameters)

    def __call__(self, **inputs):
        """The outputs; states are kept, as a loaded model keeps them."""
        known = {**self.stored, **inputs}
        arrays = [np.asarray(known[port.name]) for port in self.entry.arguments]
        results = reference.evaluate(self.unit.module, self.entry.name, arrays)
        named = list(zip(self.entry.results, results, strict=True))
        self.stored |= {p.name: x for p, x in named if p.kind == "state"}
        return [x for p, x in named if p.kind != "state"]

    @property
    def dtypes(self):
        """The dtypes of all products."""
        return {
            Tensor.of(op.results[0]).dtype
            for function in functions_of(self.unit.module).values()
            if not function.is_external
            for op in function.entry_block.operations
            if op.operation.name in ("graph.dot_general", "graph.conv_general")
        }


def stepping(compute=None, differentiated=loss):
    """A step of gradient descent."""

    @aotc.entry(
        x=aotc.Spec(X.shape), y=aotc.Spec(Y.shape), state=aotc.State(dict(START))
    )
    def step(state, x, y):
        value, grads = aotc.value_and_grad(differentiated)(state, x, y)
        return {name: state[name] - 0.1 * grads[name] for name in state}, value

    return Built(step, compute)


def scale_of(built):
    return [built.stored[f"step_loss_scale.{x}"] for x in ("scale", "finite_steps")]


@pytest.mark.parametrize(("compute", "digits"), [("bf16", 3e-2), ("f16", 4e-3)])
def test_training_in_mixed_precision_follows_that_in_f32(compute, digits):
    exact, mixed = stepping(), stepping(compute)
    assert mixed.dtypes == {compute}
    for _ in range(20):
        (wanted,), (found,) = exact(x=X, y=Y), mixed(x=X, y=Y)
        assert found.dtype == np.float32
        assert 0 < abs(found - wanted) < digits * wanted
    assert mixed.stored["state.w"].dtype == np.float32


def test_a_step_with_infinite_gradients_is_left_out_and_halves_the_scale():
    built = stepping("f16")
    before = {name: x.copy() for name, x in built.stored.items()}
    built(x=X * 1e5, y=Y)  # beyond what f16 holds
    assert scale_of(built) == [INITIAL / 2, 0]
    for name in ("state.w", "state.b"):
        np.testing.assert_array_equal(built.stored[name], before[name])
    built(x=X, y=Y)
    assert scale_of(built) == [INITIAL / 2, 1]
    assert (built.stored["state.w"] != before["state.w"]).any()


def tiny(params, x, y):
    return loss(params, x, y) * 1e-6


def test_the_scale_grows_after_many_steps_and_stays_within_its_limits():
    built = stepping("f16", tiny)
    for scale, wanted in ((INITIAL, 2 * INITIAL), (MOST, MOST)):
        built.stored["step_loss_scale.finite_steps"] = np.int32(INTERVAL - 1)
        built.stored["step_loss_scale.scale"] = np.float32(scale)
        built(x=X, y=Y)
        assert scale_of(built) == [wanted, 0]
    built.stored["step_loss_scale.scale"] = np.float32(LEAST)
    built(x=X * 1e5, y=Y)
    assert scale_of(built) == [LEAST, 0]


def test_gradients_that_f16_has_no_numbers_for_arrive():
    start = stepping("f16", tiny)
    before = start.stored["state.w"]
    start(x=X, y=Y)
    exact = stepping(None, tiny)
    exact(x=X, y=Y)
    moved, wanted = (each.stored["state.w"] - before for each in (start, exact))
    assert np.abs(wanted).max() > 0
    np.testing.assert_allclose(moved, wanted, rtol=0.2, atol=1e-8)


def test_what_an_entry_updates_is_not_rounded():
    cache = RNG.normal(size=(4, 8)).astype("f4")

    @aotc.entry(x=aotc.Spec((1, 8)), state=aotc.State({"cache": cache}))
    def step(state, x):
        kept = anp.dynamic_update_slice(state["cache"], x, [2, 0])
        return {"cache": kept}, x @ kept.T

    mixed = Built(step, "bf16")
    mixed(x=X[:1])
    wanted = cache.copy()
    wanted[2] = X[0]
    others = [0, 1, 3]
    np.testing.assert_array_equal(mixed.stored["state.cache"][others], wanted[others])
    assert mixed.dtypes == {"bf16"}


def test_what_the_source_has_decided_stays():
    own = stepping("bf16", lambda *given: loss(*given) + loss(*given))
    assert own.graph.count("graph.precision") == 1

    def decided(params, x, y):
        return aotc.mixed_precision(loss, "f16")(params, x, y)

    with pytest.raises(InputError) as refused:
        stepping("bf16", decided)
    assert refused.value.code == "no-products"


def test_a_bias_is_rounded_before_it_is_repeated():
    @aotc.entry(x=aotc.Spec((64, 8)), w=aotc.Spec((8, 4)), b=aotc.Spec((4,)))
    def dense(x, w, b):
        return x @ w + b

    built = Built(dense, "bf16")
    function = functions_of(built.unit.module)["dense"]
    rounded = [
        Tensor.of(op.results[0]).shape
        for op in function.entry_block.operations
        if op.operation.name == "graph.cast" and op.dtype == "bf16"
    ]
    assert sorted(rounded) == [(4,), (8, 4), (64, 8)]


def test_a_loop_computes_in_mixed_precision():
    def deep(params, x, y):
        def turn(h, w):
            return anp.tanh(h @ w), None

        h, _ = control.scan(turn, x, anp.stack([params["w"] @ params["w"].T] * 2))
        return loss(params, h, y)

    exact, mixed = stepping(None, deep), stepping("bf16", deep)
    assert mixed.dtypes == {"bf16"}
    (wanted,), (found,) = exact(x=X, y=Y), mixed(x=X, y=Y)
    assert 0 < abs(found - wanted) < 0.05 * wanted


def test_a_network_with_norms_keeps_sums_in_f32():
    def normed(params, x, y):
        h = nn.layer_norm(x, anp.ones(8), anp.zeros(8))
        return anp.mean(nn.softmax(h @ params["w"]) * y) + loss(params, x, y)

    exact, mixed = stepping(None, normed), stepping("bf16", normed)
    (wanted,), (found,) = exact(x=X * 300, y=Y), mixed(x=X * 300, y=Y)
    assert abs(found - wanted) < 0.02 * abs(wanted)


# ---- what is made of whole numbers --------------------------------------------------


def both(entry, **inputs):
    """The first result in f32, and by each of the cheaper dtypes."""
    return [Built(entry, compute)(**inputs)[0] for compute in (None, "bf16", "f16")]


def test_random_numbers_are_those_of_f32():
    @aotc.entry(x=aotc.Spec((64, 8)), w=aotc.Spec((8, 8)))
    def drop(x, w):
        kept = nn.dropout(random.key(3), anp.ones((64, 8)), 0.3)
        return kept, random.uniform(random.key(1), (64,)), x @ w

    x, w = RNG.normal(size=(64, 8)).astype("f4"), np.eye(8, dtype="f4")
    exact, *mixed = (Built(drop, each)(x=x, w=w) for each in (None, "bf16", "f16"))
    for found in mixed:
        for one, other in zip(exact[:2], found[:2], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("made", ["traced", "constant"])
def test_angles_of_positions_are_those_of_f32(made):
    @aotc.entry(x=aotc.Spec((3000, 8)), w=aotc.Spec((8, 4)), steps=aotc.Spec((4,)))
    def turn(x, w, steps):
        places = np.arange(3000, dtype="f4")
        if made == "traced":
            places = anp.arange(3000).astype("f32") + anp.sum(x[:1, :1]) * 0
        angles = places[:, None] * steps
        return (x @ w) * anp.cos(angles)

    x = RNG.normal(size=(3000, 8)).astype("f4")
    w, steps = np.ones((8, 4), "f4"), np.float32([1, 0.3, 0.1, 0.01])
    exact, *mixed = both(turn, x=x, w=w, steps=steps)
    for found in mixed:
        assert np.abs(found - exact).max() < 0.1


def test_weights_of_few_bits_stay_integers():
    data = RNG.integers(-8, 8, (32, 64)).astype("i1")
    scale = np.full((32, 2), 0.1, "f4")
    tree = {
        "few": nn.QuantizedWeights(data, scale, axis=1, block=32, bits=4),
        "full": RNG.normal(size=(32, 8)).astype("f4"),
    }

    @aotc.entry(x=aotc.Spec((4, 64)), weights=aotc.Weights(tree))
    def predict(weights, x):
        return weights["few"].linear(x) @ weights["full"]

    built = Built(predict, "bf16")
    assert built.dtypes == {"f32", "bf16"}
    text = str(built.unit.module)
    assert '"graph.dequantize"' in text
    assert "64x32xbf16" not in text


# ---- what is refused ----------------------------------------------------------------


def refused(entry, compute):
    with pytest.raises(InputError) as found:
        Built(entry, compute)
    return found.value.code, found.value.message


def test_f16_without_a_state_for_the_scale_is_refused():
    @aotc.entry(x=aotc.Spec(X.shape), w=aotc.Spec((8, 3)))
    def gradient(x, w):
        return aotc.grad(lambda w: anp.sum((x @ w) ** 2))(w)

    code, message = refused(gradient, "f16")
    assert code == "loss-not-scaled"
    assert "no State" in message
    assert Built(gradient, "bf16").dtypes == {"bf16"}


def test_f16_within_a_loop_is_refused():
    @aotc.entry(x=aotc.Spec((2, *X.shape)), state=aotc.State({"w": START["w"]}))
    def accumulating(state, x):
        def turn(total, part):
            found = aotc.grad(lambda w: anp.sum((part @ w) ** 2))(state["w"])
            return total + found, None

        total, _ = control.scan(turn, anp.zeros((8, 3)), x)
        return {"w": state["w"] - total}, anp.sum(total)

    code, message = refused(accumulating, "f16")
    assert code == "loss-not-scaled"
    assert "loop" in message


def test_a_model_without_products_is_refused():
    @aotc.entry(x=aotc.Spec((4,)))
    def plain(x):
        return anp.exp(x)

    assert refused(plain, "bf16")[0] == "no-products"


def test_an_optimizer_in_the_source_keeps_its_moments_in_f32():
    optimizer = optim.adam(1e-2)
    state = {"params": dict(START), "moments": optimizer.init(dict(START))}

    @aotc.entry(x=aotc.Spec(X.shape), y=aotc.Spec(Y.shape), state=aotc.State(state))
    def step(state, x, y):
        value, grads = aotc.value_and_grad(loss)(state["params"], x, y)
        updates, moments = optimizer.update(grads, state["moments"], state["params"])
        params = optim.apply_updates(state["params"], updates)
        return {"params": params, "moments": moments}, value

    built = Built(step, "f16")
    losses = [float(built(x=X, y=Y)[0]) for _ in range(10)]
    assert losses[-1] < losses[0]
    built(x=X * 1e6, y=Y)
    count = next(x for name, x in built.stored.items() if name.endswith("count"))
    assert count == 10  # the step that was left out is not counted


def test_f16_through_a_rule_of_the_model_is_refused():
    @aotc.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (anp.clip(g, -0.01, 0.01),))
    code, message = refused_of(lambda p, x, y: clipped(loss(p, x, y)), "f16")
    assert code == "loss-not-scaled"
    assert "custom_vjp" in message


def refused_of(differentiated, compute):
    with pytest.raises(InputError) as found:
        stepping(compute, differentiated)
    return found.value.code, found.value.message


def test_gradients_in_f16_are_divided_by_scales_that_f16_does_not_hold():
    start = {"w": START["w"].astype("f2")}

    @aotc.entry(x=aotc.Spec(X.shape), state=aotc.State(dict(start)))
    def step(state, x):
        def small(w):
            return anp.mean((x @ w.astype("f32")) ** 2) * 1e-4

        value, slope = aotc.value_and_grad(small)(state["w"])
        return {"w": state["w"] - slope * 100.0}, value

    built = Built(step, "f16")
    built.stored["step_loss_scale.scale"] = np.float32(2**17)
    built(x=X)
    assert (built.stored["state.w"] != start["w"]).any()


def test_what_is_not_finite_is_found_in_the_dtype_that_it_was_built_in(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import aotc\n\n\n"
        "@aotc.entry(x=aotc.Spec((2, 4)), w=aotc.Spec((4, 2)))\n"
        "def f(x, w):\n    return (x @ w) * 100.0\n"
    )
    values = {"x": np.full((2, 4), 1e3, "f4"), "w": np.ones((4, 2), "f4")}
    assert not nonfinite.find(model, "f", values).found
    assert nonfinite.find(model, "f", values, "f16").found


# ---- what hides scores --------------------------------------------------------------

LOWEST = float(np.finfo("f4").min)
SEEN = np.array([[True, False, True], [False] * 3, [True] * 3])
QUERY, KEY = (RNG.normal(size=(3, 4)).astype("f4") for _ in range(2))
VALUE = RNG.normal(size=(3, 2)).astype("f4")
SHAPES = {"q": aotc.Spec((3, 4)), "k": aotc.Spec((3, 4)), "v": aotc.Spec((3, 2))}
GIVEN = {"q": QUERY, "k": KEY, "v": VALUE}


def attended(q, k, v, score):
    return nn.softmax(score(q @ k.T)) @ v


def of_heads(q, k, v, bias):
    return nn.attention(*(x[None, :, None] for x in (q, k, v)), bias=bias)[0, :, 0]


def hiding(number):
    """Ways in which models hide scores by a number, with inputs of their own."""
    bias, chosen = np.where(SEEN, 0, number).astype("f4"), (~SEEN).astype("f4")
    spec = {"b": aotc.Spec((3, 3))}

    @aotc.entry(**SHAPES)
    def chosen_by_mask(q, k, v):
        return attended(q, k, v, lambda s: anp.where(SEEN, s, number))

    @aotc.entry(**SHAPES, **spec)
    def added(q, k, v, b):
        return attended(q, k, v, lambda s: s + b)

    @aotc.entry(**SHAPES, **spec)
    def added_for_each(q, k, v, b):
        return attended(q, k, v, lambda s: s + (b * number)[:, :])

    @aotc.entry(**SHAPES, **spec)
    def bias_of_attention(q, k, v, b):
        return of_heads(q, k, v, b)

    @aotc.entry(**SHAPES)
    def constant_bias(q, k, v):
        return of_heads(q, k, v, bias)

    return {
        "chosen by a mask": (chosen_by_mask, {}),
        "added": (added, {"b": bias}),
        "times what is hidden": (added_for_each, {"b": chosen}),
        "the bias of attention": (bias_of_attention, {"b": bias}),
        "a constant bias": (constant_bias, {}),
    }


@pytest.mark.parametrize("compute", ["bf16", "f16"])
@pytest.mark.parametrize("number", [LOWEST, -1e9])
def test_numbers_that_hide_as_padding_or_computed_from_constants_stay_finite(
    number, compute
):
    def padded(q, k):
        return nn.softmax(anp.pad(q @ k.T, ((0, 1), (0, 2)), constant_values=number))

    def computed(q, k):
        return nn.softmax(anp.where(SEEN, q @ k.T, -anp.asarray(-number, "f32")))

    for function in (padded, computed):
        entry = aotc.entry(q=aotc.Spec((3, 4)), k=aotc.Spec((3, 4)))(function)
        (exact,) = Built(entry)(q=QUERY, k=KEY)
        (mixed,) = Built(entry, compute)(q=QUERY, k=KEY)
        eager = aotc.mixed_precision(function, compute)(QUERY, KEY)
        for found in (mixed, np.asarray(eager)):
            np.testing.assert_allclose(found, exact, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("compute", ["bf16", "f16"])
@pytest.mark.parametrize("number", [LOWEST, -1e9, -1e4])
@pytest.mark.parametrize("way", hiding(LOWEST))
def test_a_row_that_numbers_hide_as_a_whole_is_a_mean_as_in_f32(way, number, compute):
    entry, more = hiding(number)[way]
    (exact,) = Built(entry)(**GIVEN, **more)
    (mixed,) = Built(entry, compute)(**GIVEN, **more)
    assert np.isfinite(exact).all()
    seen = [0, 2]
    np.testing.assert_allclose(mixed[seen], exact[seen], rtol=3e-2, atol=3e-2)
    # of a number without digits for scores beside it, scores may count or not
    low, high = VALUE.min(0), VALUE.max(0)
    assert ((mixed[1] >= low - 0.02) & (mixed[1] <= high + 0.02)).all()


@pytest.mark.parametrize("way", ["chosen by a mask", "added", "the bias of attention"])
def test_a_row_that_infinity_hides_stays_nan_or_zeros(way):
    entry, more = hiding(-np.inf)[way]
    exact, mixed = (Built(entry, each)(**GIVEN, **more)[0] for each in (None, "bf16"))
    np.testing.assert_array_equal(np.isnan(exact), np.isnan(mixed))


@pytest.mark.parametrize("compute", ["bf16", "f16"])
def test_gradients_beside_rows_that_numbers_hide_are_finite(compute):
    start = {"q": QUERY, "k": KEY}

    @aotc.entry(v=aotc.Spec((3, 2)), b=aotc.Spec((3, 3)), state=aotc.State(start))
    def step(state, v, b):
        def loss(state):
            y = attended(state["q"], state["k"], v, lambda s: s + b)
            z = attended(
                state["q"], state["k"], v, lambda s: anp.where(SEEN, s, LOWEST)
            )
            return anp.sum(y**2 + z**2)

        value, slopes = aotc.value_and_grad(loss)(state)
        return {n: state[n] - 0.1 * slopes[n] for n in state}, value

    inputs = {"v": VALUE, "b": np.where(SEEN, 0, LOWEST).astype("f4")}
    exact, mixed = Built(step), Built(step, compute)
    exact(**inputs)
    mixed(**inputs)
    for name in ("state.q", "state.k"):
        np.testing.assert_allclose(
            mixed.stored[name], exact.stored[name], rtol=3e-2, atol=3e-2
        )


def test_an_epsilon_that_f16_has_no_number_for_keeps_f32():
    @aotc.entry(x=aotc.Spec((2, 4)), w=aotc.Spec((4, 2)))
    def shares(x, w):
        y = x @ w
        return y / (y + 1e-12)

    zeros = np.zeros((2, 4), "f4"), np.ones((4, 2), "f4")
    for compute in (None, "f16"):
        (found,) = Built(shares, compute)(x=zeros[0], w=zeros[1])
        np.testing.assert_array_equal(found, np.zeros((2, 2), "f4"))


def test_numbers_in_mixed_precision_stay_finite_where_ops_compute_at_once():
    def function(x, w):
        return nn.softmax(anp.where(SEEN, x @ w, LOWEST))

    found = aotc.mixed_precision(function)(QUERY, KEY.T)
    assert np.isfinite(np.asarray(found)).all()


IMAGES = (8, 16, 16, 16)


def test_tensors_between_convolutions_and_norms_go_through_memory_in_bf16():
    """Who reads them widens them, in the kernels that a step in f32 has."""
    kernels = RNG.normal(size=(3, 3, 3, 16, 16)).astype("f4")
    ones, zeros = np.ones(16, "f4"), np.zeros(16, "f4")
    statistics = {"mean": zeros, "variance": ones}

    def convolved(x, kernel, affine):
        x = nn.conv2d(x, kernel, padding="SAME")
        return nn.batch_norm_training(x, **statistics, **affine)[0]

    def network(params, x):
        first, second, third = params["kernels"]
        h = nn.relu(convolved(x, first, params["affine"]))
        h = nn.relu(convolved(h, second, params["affine"]) + h)
        return anp.mean(nn.relu(convolved(h, third, params["affine"])) ** 2)

    start = {"kernels": list(kernels), "affine": {"scale": ones, "bias": zeros}}

    @aotc.entry(x=aotc.Spec(IMAGES), state=aotc.State(start))
    def step(state, x):
        value, grads = aotc.value_and_grad(network)(state, x)
        return optim.apply_updates(state, grads), value

    families = {}
    for compute in (None, "bf16"):
        unit = Built(step, compute).unit.fork(Target.parse("x86_64-v4-dot"))
        run_passes(unit, PASS_STAGES[1].passes())
        functions = functions_of(unit.module)
        calls = [
            op
            for op in functions["step"].entry_block.operations
            if isinstance(op, func.CallOp) and fused_of(functions[callee_of(op)])
        ]
        families[compute] = Counter(
            fused_of(functions[callee_of(op)]).kernel for op in calls
        )
        made = [Tensor.of(x) for op in calls for x in op.results]
        images = {each.dtype for each in made if each.shape == IMAGES}
        assert images == {compute or "f32"}
    for family in ("contraction", "columns", "elementwise"):
        assert families["bf16"][family] == families[None][family] > 0
