"""Random numbers are Threefry's, uniform or normal, and the same wherever computed."""

import math

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import random, reference
from aotc.errors import InputError
from aotc.frontends.assembly import trace

MANY = 200_000

# Of Random123's known answers ("threefry2x32 20"): counter, key, result.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def words(pair):
    """Two scalars of u32."""
    return tuple(anp.asarray(np.uint32(word)) for word in pair)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_threefry_gives_the_published_answers(counter, key, result):
    found = random.threefry(words(key), *words(counter))
    assert tuple(word.item() for word in found) == result


def test_a_key_holds_the_64_bits_of_its_seed():
    assert random.key(1).tolist() == [0, 1]
    assert random.key(2**40 + 3).tolist() == [256, 3]
    assert random.key(-1).tolist() == [2**32 - 1] * 2
    assert random.key(0).dtype == "u32"


def test_the_first_draws_are_threefry_of_the_counter():
    bits = np.asarray(random.bits(random.key(0), (3,)))
    first, _ = random.threefry(words((0, 0)), *words((0, 2)))
    assert bits[0] == 0x6B200159
    assert bits[2] == first.item()


def test_draws_do_not_depend_on_the_shape_they_are_put_in():
    key = random.key(7)
    line = np.asarray(random.bits(key, 24))
    np.testing.assert_array_equal(random.bits(key, (2, 3, 4)), line.reshape(2, 3, 4))
    np.testing.assert_array_equal(random.bits(key, 5), line[:5])
    assert random.bits(key).shape == ()


# ---- keys ---------------------------------------------------------------------------


def test_split_fold_in_and_draws_of_one_key_never_meet():
    key = random.key(5)
    split = np.asarray(random.split(key, 100))
    folded = np.stack([np.asarray(random.fold_in(key, n)) for n in range(100)])
    drawn = np.stack(
        [np.asarray(w) for w in random._drawn(random.lift(key), (100,))], 1
    )
    every = np.concatenate([split, folded, drawn])
    assert len({tuple(pair) for pair in every.tolist()}) == 300


def test_split_keys_unpack_and_differ():
    one, two = random.split(random.key(0))
    assert one.shape == two.shape == (2,)
    assert one.tolist() != two.tolist()
    assert random.split(random.key(0), 5).shape == (5, 2)


def test_numbers_of_split_keys_are_not_correlated():
    keys = random.split(random.key(0), 4)
    draws = np.stack([np.asarray(random.normal(key, MANY)) for key in keys])
    correlation = np.corrcoef(draws) - np.eye(4)
    assert np.abs(correlation).max() < 5 / np.sqrt(MANY)


def test_fold_in_takes_any_integer():
    key = random.key(3)
    for data in (7, np.int32(7), np.uint8(7), anp.asarray(7)):
        assert random.fold_in(key, data).tolist() == random.fold_in(key, 7).tolist()
    assert random.fold_in(key, 8).tolist() != random.fold_in(key, 7).tolist()


@pytest.mark.parametrize("key", [0, np.zeros(2, "i4"), np.zeros((3, 2), "u4")])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(InputError, match="expected a random key") as caught:
        random.uniform(key, (3,))
    assert caught.value.code == "bad-key"
    assert "aotc.random.key(seed)" in caught.value.hint


# ---- distributions ------------------------------------------------------------------


def farthest(sample, cumulative):
    """Kolmogorov and Smirnov's distance of a sample from a distribution."""
    sample = np.sort(np.asarray(sample).astype("f8").ravel())
    steps = np.arange(1, sample.size + 1) / sample.size
    return np.abs(cumulative(sample) - steps).max()


# exceeded by one sample of a million
BOUND = np.sqrt(np.log(2e6) / 2 / MANY)


def test_uniform_numbers_fill_the_unit_interval():
    drawn = np.asarray(random.uniform(random.key(0), MANY))
    assert drawn.dtype == "f4"
    assert 0 <= drawn.min() < 1e-4
    assert 1 - 1e-4 < drawn.max() < 1
    assert farthest(drawn, lambda x: x) < BOUND


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 2.0), (-3.0, 5.0), (1e6, 1e6 + 1), (0, 3)]
)
def test_uniform_numbers_stay_below_the_upper_end(low, high):
    drawn = np.asarray(random.uniform(random.key(1), MANY, low, high))
    assert drawn.dtype == "f4"
    assert low <= drawn.min()
    assert drawn.max() < high


def test_the_largest_uniform_number_does_not_round_up(monkeypatch):
    most = anp.asarray(np.array([0, 2**32 - 1], "u4"))
    monkeypatch.setattr(random, "bits", lambda key, shape: most)
    low, high = random.uniform(random.key(0), (2,), 1.0, 2.0).tolist()
    assert low == 1
    assert high == 2 - 2.0**-23


def test_normal_numbers_have_the_normal_moments_and_distribution():
    drawn = np.asarray(random.normal(random.key(0), (MANY,))).astype("f8")
    assert np.isfinite(drawn).all()
    error = 5 / np.sqrt(MANY)
    assert abs(drawn.mean()) < error
    assert abs(drawn.var() - 1) < error * np.sqrt(2)
    assert abs((drawn**3).mean()) < error * np.sqrt(15)
    assert abs((drawn**4).mean() - 3) < error * np.sqrt(96)
    erf = np.vectorize(math.erf)
    assert farthest(drawn, lambda x: (1 + erf(x / np.sqrt(2))) / 2) < BOUND


def test_bernoulli_holds_with_its_probability():
    for p in (0.0, 0.25, 1.0):
        drawn = np.asarray(random.bernoulli(random.key(2), p, (MANY,)))
        assert drawn.dtype == bool
        assert abs(drawn.mean() - p) < 5 * np.sqrt(p * (1 - p) / MANY) + 1e-9


# ---- traced -------------------------------------------------------------------------


def test_numbers_are_the_same_traced_and_at_once():
    def draw(key, x):
        one, two = random.split(random.fold_in(key, 3))
        return random.uniform(one, x.shape), random.normal(two, x.shape), two

    @aotc.entry(key=aotc.Spec(2, "u32"), x=aotc.Spec(("n", 3)))
    def entry(key, x):
        return draw(key, x)

    key, x = random.key(9), np.zeros((5, 3), "f4")
    module = trace([entry], {}).module
    traced = reference.evaluate(module, "entry", [np.asarray(key), x])
    for ours, at_once in zip(traced, draw(key, x), strict=True):
        np.testing.assert_array_equal(ours, at_once)


def test_a_key_in_a_state_gives_other_numbers_at_each_call():
    state = aotc.State(random.key(0))

    @aotc.entry(key=state)
    def entry(key):
        new, now = random.split(key)
        return new, random.uniform(now)

    module = trace([entry], {}).module
    key, seen = np.asarray(random.key(0)), set()
    for _ in range(4):
        key, number = reference.evaluate(module, "entry", [key])
        seen.add(float(number))
    assert len(seen) == 4
