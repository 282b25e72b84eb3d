"""Random numbers are Threefry's, uniform or normal, and the same wherever computed."""

import math

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import random, reference
from aotc.errors import InputError
from aotc.random import distributions
from aotc.random.threefry import threefry
from aotc.random.threefry import words as draw_words
from aotc.tracing.assembly import trace

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
    found = threefry(words(key), *words(counter))
    assert tuple(word.item() for word in found) == result


def test_a_key_holds_the_64_bits_of_its_seed():
    assert random.key(1).tolist() == [0, 1]
    assert random.key(2**40 + 3).tolist() == [256, 3]
    assert random.key(-1).tolist() == [2**32 - 1] * 2
    assert random.key(0).dtype == "u32"


def test_the_first_draws_are_threefry_of_the_counter():
    bits = np.asarray(random.bits(random.key(0), (3,)))
    first, _ = threefry(words((0, 0)), *words((0, 2)))
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
    drawn = np.stack([np.asarray(w) for w in draw_words(key, (100,))], 1)
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
    assert "key = aotc.random.key(0)" in caught.value.hint


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
    drawn = np.asarray(random.uniform(random.key(1), MANY, "f32", low, high))
    assert drawn.dtype == "f4"
    assert low <= drawn.min()
    assert drawn.max() < high


def test_a_uniform_number_that_would_round_up_to_the_end_is_the_first(monkeypatch):
    most = anp.asarray(np.array([0, 2**32 - 1], "u4"))
    monkeypatch.setattr(distributions, "words", lambda key, shape: (most, most))
    assert random.uniform(random.key(0), (2,), "f32", 1.0, 2.0).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_uniform_numbers_have_all_the_bits_of_their_dtype(dtype):
    drawn = random.uniform(random.key(0), 4096, dtype)
    assert drawn.dtype == dtype
    numbers = np.unique(np.asarray(drawn).astype("f8"))
    expected = {"f16": 2048, "bf16": 256}.get(dtype)
    if expected is None:
        assert len(numbers) > 4094
    else:  # the spacing is that of the largest numbers
        assert np.all(numbers * expected % 1 == 0)
        assert len(numbers) > 0.8 * expected
    assert 0 <= numbers[0] < numbers[-1] < 1


def test_bounds_of_uniform_numbers_may_be_arrays():
    low = np.array([0, 10, 100], "f4")
    drawn = np.asarray(random.uniform(random.key(0), (MANY, 3), "f32", low, low + 2))
    assert np.all(low <= drawn)
    assert np.all(drawn < low + 2)
    np.testing.assert_allclose(drawn.mean(0), low + 1, atol=5e-3)


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


def test_bernoulli_takes_its_shape_from_its_probabilities():
    drawn = random.bernoulli(random.key(0), np.array([0, 1, 1, 0], "f4"))
    assert drawn.tolist() == [False, True, True, False]
    many = np.asarray(random.bernoulli(random.key(0), np.full(1000, 0.5, "f4")))
    assert 400 < many.sum() < 600


def test_rademacher_numbers_are_signs():
    drawn = np.asarray(random.rademacher(random.key(0), MANY))
    assert drawn.dtype == "i4"
    assert set(drawn.tolist()) == {-1, 1}
    assert abs(drawn.mean()) < 5 / np.sqrt(MANY)


def assert_frequencies(drawn, probabilities):
    found = np.bincount(np.asarray(drawn), minlength=len(probabilities)) / len(drawn)
    p = np.array(probabilities)
    assert np.all(abs(found - p) < 5 * np.sqrt(p * (1 - p) / len(drawn)) + 1e-9)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_bits_come_in_every_width(width):
    drawn = np.asarray(random.bits(random.key(0), 1000, f"u{width}"))
    assert drawn.dtype == f"u{width // 8}"
    ones = [np.mean(drawn >> np.array(bit, drawn.dtype) & 1) for bit in range(width)]
    assert np.all(abs(np.array(ones) - 0.5) < 0.08)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(-3, 7, "i32"), (0, 256, "u8"), (-128, 128, "i8"), (5, 6, "i64")],
)
def test_random_integers_are_uniform_in_their_range(low, high, dtype):
    drawn = random.randint(random.key(1), MANY, low, high, dtype)
    assert drawn.dtype == dtype
    shifted = np.asarray(drawn).astype("i8") - low
    assert_frequencies(shifted, [1 / (high - low)] * (high - low))


def test_random_integers_of_large_ranges_are_the_high_bits_of_a_long_product():
    first, second = (np.asarray(word) for word in draw_words(random.key(2), (50,)))
    pairs = list(zip(first, second, strict=True))
    for span in (1, 3, 2**31, 3 * 2**30 + 1, 2**32 - 1, 2**32):
        drawn = np.asarray(random.randint(random.key(2), 50, 0, span, "i64"))
        wide = [(int(a) * 2**32 + int(b)) * span >> 64 for a, b in pairs]
        assert drawn.tolist() == wide


def test_random_integers_may_have_arrays_for_bounds():
    low, high = np.array([0, -50], "i4"), np.array([3, 50], "i4")
    drawn = np.asarray(random.randint(random.key(0), (MANY, 2), low, high))
    assert_frequencies(drawn[:, 0], [1 / 3] * 3)
    assert_frequencies(drawn[:, 1] + 50, [0.01] * 100)


def test_categories_come_with_the_softmax_of_their_logits():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0]], "f4")
    with np.errstate(divide="ignore"):
        logits = np.log(p) + 3
    drawn = np.asarray(random.categorical(random.key(0), logits, shape=(MANY, 2)))
    assert drawn.dtype == "i4"
    for row in range(2):
        assert_frequencies(drawn[:, row], p[row])
    one = random.categorical(random.key(0), logits.T, axis=0)
    assert one.shape == (2,)


def test_a_permutation_has_every_number_once_and_anywhere():
    drawn = np.asarray(random.permutation(random.key(0), 1000))
    assert sorted(drawn.tolist()) == list(range(1000))
    keys = random.split(random.key(0), 100)
    firsts = np.array([random.permutation(key, 4).tolist() for key in keys])
    for place in range(4):
        assert_frequencies(firsts[:, place], [0.25] * 4)


def test_a_permutation_moves_whole_slices():
    x = np.arange(12).reshape(4, 3).astype("f4")
    rows = np.asarray(random.permutation(random.key(1), x))
    assert sorted(rows.tolist()) == x.tolist()
    columns = np.asarray(random.permutation(random.key(1), x, axis=1))
    assert sorted(columns.T.tolist()) == x.T.tolist()


def test_choices_follow_their_probabilities():
    p = np.array([0.1, 0.0, 0.6, 0.3], "f4")
    letters = np.array([10, 20, 30, 40], "i4")
    drawn = np.asarray(random.choice(random.key(0), letters, (MANY,), p=p))
    assert_frequencies(drawn // 10 - 1, p)
    drawn = np.asarray(random.choice(random.key(0), 5, (MANY,)))
    assert_frequencies(drawn, [0.2] * 5)


def test_choices_without_replacement_differ():
    p = np.array([0.1, 0.2, 0.3, 0.4], "f4")
    keys = random.split(random.key(0), 100)
    drawn = [random.choice(key, 4, (3,), replace=False, p=p).tolist() for key in keys]
    assert all(len(set(each)) == 3 for each in drawn)
    assert_frequencies([each[0] for each in drawn], p)
    plain = random.choice(random.key(0), 100, (10, 10), replace=False)
    assert sorted(np.asarray(plain).ravel().tolist()) == list(range(100))


# ---- what is refused ----------------------------------------------------------------

K = random.key(0)
BAD = {
    "bad-dtype": [
        lambda: random.bits(K, 3, "i32"),
        lambda: random.uniform(K, 3, "i32"),
        lambda: random.normal(K, 3, "u8"),
        lambda: random.randint(K, 3, 0, 5, "f32"),
        lambda: random.gamma(K, 1.0, dtype="i32"),
        lambda: random.poisson(K, 1.0, dtype="f32"),
        lambda: random.binomial(K, 3, 0.5, dtype="bool"),
        lambda: random.rayleigh(K, 1.0, dtype="i32"),
    ],
    "bad-range": [
        lambda: random.randint(K, 3, 5, 5),
        lambda: random.randint(K, 3, 0, 129, "i8"),
        lambda: random.randint(K, 3, 0, 2**32 + 1, "i64"),
    ],
    "shape-mismatch": [
        lambda: random.bernoulli(K, np.zeros(3, "f"), (4,)),
        lambda: random.uniform(K, (), "f32", np.zeros(3, "f"), 1.0),
        lambda: random.gamma(K, np.ones(3, "f"), (2,)),
        lambda: random.poisson(K, np.ones(3, "f"), (2,)),
        lambda: random.multivariate_normal(K, np.ones(3, "f"), np.eye(2)),
        lambda: random.multivariate_normal(K, np.ones((2, 3), "f"), np.eye(3), (3,)),
        lambda: random.categorical(K, np.zeros((4, 3), "f"), shape=(3,)),
        lambda: random.choice(K, 3, p=np.ones(2, "f")),
    ],
    "bad-axis": [
        lambda: random.categorical(K, np.zeros(3, "f"), axis=1),
        lambda: random.dirichlet(K, 1.0),
        lambda: random.permutation(K, np.zeros(3, "f"), axis=1),
    ],
    "bad-shape": [
        lambda: random.choice(K, 3, (4,), replace=False),
        lambda: random.normal(K, (2, -1)),
        lambda: random.orthogonal(K, -1),
    ],
}


@pytest.mark.parametrize(
    ("code", "draw"), [(code, draw) for code, draws in BAD.items() for draw in draws]
)
def test_bad_arguments_are_refused_by_name(code, draw):
    with pytest.raises(InputError) as caught:
        draw()
    assert caught.value.code == code


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


def test_a_known_key_is_kept_apart_from_what_is_drawn_with_it():
    # IREE takes a minute for 12 normal numbers that it finds to be constants.
    @aotc.entry(x=aotc.Spec((3, 4)))
    def entry(x):
        first, second = random.split(random.key(7))
        return x + random.normal(first, x.shape) + random.normal(second, x.shape)

    module = trace([entry], {}).module
    assert str(module).count("graph.barrier") == 1
    x = np.zeros((3, 4), "f4")
    (found,) = reference.evaluate(module, "entry", [x])
    first, second = random.split(random.key(7))
    wanted = random.normal(first, (3, 4)) + random.normal(second, (3, 4))
    assert found.tolist() == wanted.tolist()


# ---- rounding by chance -------------------------------------------------------------


def test_stochastic_rounding_gives_one_of_both_neighbours_and_the_number_in_the_mean():
    steps = np.float32(1) + np.linspace(0, 1, 9, dtype="f4") * np.float32(2**-7)
    numbers = np.concatenate([steps, -steps * 2**20])
    x = np.repeat(numbers, 20_000).reshape(18, -1)
    rounded = np.asarray(random.stochastic_round(random.key(5), x)).astype("f4")
    spacing = 2.0**-7 * np.where(x > 0, 1, 2**20)
    assert (np.abs(rounded - x) < spacing).all()
    off = (rounded.mean(1, dtype="f8") - numbers) / spacing[:, 0]
    assert np.abs(off).max() < 0.02
    kept = [0, 8, 9, 17]  # what bf16 can hold
    np.testing.assert_array_equal(rounded[kept], x[kept])
    assert all(len(np.unique(row)) == 2 for row in np.delete(rounded, kept, axis=0))


def test_stochastic_rounding_keeps_infinities_nan_and_signs_of_zeros():
    bits = np.array([0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFF800001, 1 << 31, 0], "u4")
    x = np.tile(bits.view("f4"), (50, 1))
    rounded = np.asarray(random.stochastic_round(random.key(1), x)).astype("f4")
    np.testing.assert_array_equal(rounded, x)
    np.testing.assert_array_equal(np.signbit(rounded[:, 4:]), np.signbit(x[:, 4:]))
    assert random.stochastic_round(random.key(1), x[:0]).shape == (0, 6)
    with pytest.raises(InputError, match="f32"):
        random.stochastic_round(random.key(1), x.astype("f2"))
