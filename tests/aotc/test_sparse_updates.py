"""Sparse updates: the layers of a network that learn are listed, or fit in memory."""

import numpy as np
import pytest

import aotc
from aotc import nn
from aotc import numpy as anp
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace

RNG = np.random.default_rng(5)


def array(*shape):
    return RNG.normal(size=shape).astype("f4")


PARAMS = {f"block_{n}": {"kernel": array(16, 16), "bias": array(16)} for n in range(4)}
PARAMS["head"] = {"kernel": array(16, 3), "count": np.arange(3)}
X = array(32, 16)
ROW = 32 * 16 * 4  # bytes of a value between blocks


def network(params, x):
    for n in range(4):
        block = params[f"block_{n}"]
        x = anp.tanh(x @ block["kernel"] + block["bias"])
    return x @ params["head"]["kernel"]


def gradients(tuned, learned):
    def loss(learned):
        return anp.mean(tuned(learned, PARAMS, X) ** 2)

    return aotc.grad(loss)(learned)


def test_learned_weights_begin_as_the_given_ones_and_patterns_choose_them():
    tuned = nn.sparse_update(network, layers=["head.*", "*.bias"])
    learned = tuned.init(PARAMS, aotc.Spec(X.shape))
    assert [*learned] == [*(f"block_{n}.bias" for n in range(4)), "head.kernel"]
    found, wanted = tuned(learned, PARAMS, X), network(PARAMS, X)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_gradients_are_those_of_the_whole_network():
    def loss(params):
        return anp.mean(network(params, X) ** 2)

    floats = {**PARAMS, "head": {"kernel": PARAMS["head"]["kernel"]}}
    wanted = aotc.grad(loss)(floats)
    tuned = nn.sparse_update(network, layers=["block_2.*", "head.kernel"])
    found = gradients(tuned, tuned.init(PARAMS, X))
    for name, gradient in found.items():
        layer, leaf = name.split(".")
        np.testing.assert_allclose(
            np.asarray(gradient), np.asarray(wanted[layer][leaf]), rtol=1e-5, atol=1e-6
        )


def test_merged_weights_compute_what_learned_ones_do():
    tuned = nn.sparse_update(network, layers="block_1.*")
    learned = {name: x + 1 for name, x in tuned.init(PARAMS, X).items()}
    merged = tuned.merge(learned, PARAMS)
    found, wanted = tuned(learned, PARAMS, X), network(merged, X)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    assert merged["block_0"]["kernel"] is PARAMS["block_0"]["kernel"]


def test_more_memory_lets_layers_learn_from_the_last_to_the_first():
    def names(memory):
        return [*nn.sparse_update(network, memory=memory).init(PARAMS, X)]

    # the weight, its gradient and two moments; what is multiplied by it; the result
    head = 4 * PARAMS["head"]["kernel"].nbytes + ROW + 32 * 3 * 4
    assert names(head) == ["head.kernel"]
    with pytest.raises(InputError) as caught:
        names(head - 1)
    assert caught.value.code == "no-layers"
    assert names(head + 4 * ROW) == ["block_3.bias", "head.kernel"]
    assert [*names("1MB")] == [*nn.sparse_update(network).init(PARAMS, X)]
    counts = [len(names(n * ROW)) for n in range(2, 24)]
    assert counts == sorted(counts)


def test_a_step_within_memory_keeps_nothing_of_the_layers_that_stay():
    def op_count(tuned):
        start = tuned.init(PARAMS, X)

        @aotc.entry(weights=aotc.Weights(PARAMS), state=aotc.State(start))
        def step(state, weights):
            def loss(learned):
                return anp.mean(tuned(learned, weights, X) ** 2)

            value, grads = aotc.value_and_grad(loss)(state)
            return {n: state[n] - 0.1 * g for n, g in grads.items()}, value

        program = trace([step], {})
        run_passes(program.module, PASS_STAGES[0].passes())
        return str(program.module).count("graph.dot_general")

    products = 5
    assert op_count(nn.sparse_update(network, layers="head.*")) == products + 1
    # of each block that learns: by the kernel and, but for the first, by its input
    last = nn.sparse_update(network, layers=["block_3.*", "head.*"])
    assert op_count(last) == products + 3


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("no-layers", lambda: nn.sparse_update(network, "third.*").init(PARAMS, X)),
        ("no-layers", lambda: nn.sparse_update(network, "*.count").init(PARAMS, X)),
        ("no-layers", lambda: nn.sparse_update(network, memory=10).init(PARAMS, X)),
        ("bad-memory", lambda: nn.sparse_update(network, memory="ten")),
        ("bad-memory", lambda: nn.sparse_update(network, memory=-3)),
        ("bad-memory", lambda: nn.sparse_update(network, memory=0)),
        (
            "bad-spec",
            lambda: nn.sparse_update(network, memory=1000).init(
                PARAMS, aotc.Spec(("n", 16))
            ),
        ),
        (
            "not-learned",
            lambda: nn.sparse_update(network)({"block_9.bias": X}, PARAMS, X),
        ),
        (
            "not-learned",
            lambda: nn.sparse_update(network).merge({"head.kernel": X}, PARAMS),
        ),
    ],
)
def test_bad_input_is_refused(code, call):
    with pytest.raises(InputError) as raised:
        call()
    assert raised.value.code == code
