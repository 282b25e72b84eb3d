"""Mixtures of experts against a loop over tokens."""

import numpy as np
import pytest

from aotc import nn
from aotc.errors import InputError

GROUPS, TOKENS, EXPERTS, FEATURES = 3, 10, 4, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(GROUPS, TOKENS, FEATURES)).astype("f4")
LOGITS = RNG.normal(size=(GROUPS, TOKENS, EXPERTS)).astype("f4")
KERNELS = RNG.normal(size=(EXPERTS, FEATURES, FEATURES)).astype("f4")


def mixed(x, k, capacity, logits=LOGITS):
    return nn.mixture_of_experts(
        lambda xs: xs @ KERNELS, x, logits, k=k, capacity=capacity
    )


def one_by_one(k, capacity):
    """The result, the choices for each expert, and how many found no place."""
    y, choices, dropped = np.zeros_like(X), np.zeros(EXPERTS), 0
    for g in range(GROUPS):
        used = np.zeros(EXPERTS, int)
        for t in range(TOKENS):
            p = np.exp(LOGITS[g, t]) / np.exp(LOGITS[g, t]).sum()
            chosen = np.argsort(-p)[:k]
            scale = p[chosen].sum() if k > 1 else 1
            for e in chosen:
                if used[e] < capacity:
                    y[g, t] += p[e] / scale * (X[g, t] @ KERNELS[e])
                else:
                    dropped += 1
                used[e] += 1
        choices += used
    return y, choices, dropped


@pytest.mark.parametrize(("k", "capacity"), [(1, 2), (2, 4), (2, TOKENS), (4, 1)])
def test_each_token_is_computed_by_the_experts_that_have_a_place(k, capacity):
    y, routing = mixed(X, k, capacity)
    wanted, choices, dropped = one_by_one(k, capacity)
    np.testing.assert_allclose(y, wanted, 1e-5, 1e-5)
    np.testing.assert_allclose(routing.fractions, choices / choices.sum(), 1e-5)
    np.testing.assert_allclose(routing.dropped, dropped / choices.sum(), 1e-5, 1e-6)


def test_the_balance_is_one_for_experts_chosen_alike_and_their_number_for_one():
    alike = np.eye(EXPERTS, dtype="f4")[np.arange(GROUPS * 8) % EXPERTS]
    alike = 20 * alike.reshape(GROUPS, 8, EXPERTS)
    one = np.broadcast_to([20, 0, 0, 0], alike.shape).astype("f4")
    for logits, balance in ((alike, 1), (one, EXPERTS)):
        routing = mixed(X[:, :8], 1, 8, logits)[1]
        np.testing.assert_allclose(routing.balance, balance, 1e-5)


def test_a_token_depends_on_none_after_it():
    y = np.asarray(mixed(X, 2, 3)[0])
    logits = np.concatenate([LOGITS[:, :6], -LOGITS[:, 6:]], axis=1)
    later = np.asarray(mixed(X, 2, 3, logits)[0])
    np.testing.assert_array_equal(y[:, :6], later[:, :6])
    assert (y[:, 6:] != later[:, 6:]).any()


@pytest.mark.parametrize(
    "call",
    [
        lambda: mixed(X[0], 2, 3),
        lambda: mixed(X[:, 1:], 2, 3),
        lambda: mixed(X, 0, 3),
        lambda: mixed(X, EXPERTS + 1, 3),
        lambda: mixed(X, 2, 0),
    ],
)
def test_tokens_and_experts_that_do_not_fit_are_refused(call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.where.startswith("test_nn_routing.py:")


@pytest.mark.parametrize("sizes", [(20, 0, 17, 5), (0, 0, 50, 0), (16, 16, 16, 2)])
def test_rows_in_groups_are_multiplied_by_the_kernel_of_their_group(sizes):
    x = RNG.normal(size=(50, FEATURES)).astype("f4")
    wanted = np.zeros_like(x)
    group = np.repeat(np.arange(EXPERTS), sizes)
    wanted[: sum(sizes)] = np.einsum("if,ifg->ig", x[: sum(sizes)], KERNELS[group])
    found = nn.ragged_dot(x, KERNELS, np.array(sizes, "i4"))
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)
