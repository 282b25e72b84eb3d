"""Inputs of checks have structure; integers are what they are used for."""

from dataclasses import replace

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import control, nn
from aotc.checks.draws import Draw, IntegerRange, StructureLevel
from aotc.checks.inputs import InputOptions, samples_of
from aotc.checks.judging import Rounding, judge
from aotc.checks.uses import Use, uses_of_inputs
from aotc.programs.program import Program
from aotc.tracing.assembly import trace

S = aotc.Spec


@aotc.entry(x=S((2, 3), "f32"), i=S((4,), "i32"), j=S((), "i32"), t=S((30, 3), "f32"))
def indexing(x, i, j, t):
    return t[i] + anp.dynamic_slice(t, [j, 0], (4, 3))


@aotc.entry(x=S((1, 3), "f32"), position=S((), "i32"), cache=S((64, 3), "f32"))
def step(x, position, cache):
    return anp.dynamic_update_slice(cache, x, [position, 0])


@aotc.entry(x=S((6, "n"), "f32"), lengths=S((6,), "i32"), label=S((6,), "i32"))
def lengths_and_labels(x, lengths, label):
    seen = anp.arange(x.shape[1]) < lengths[:, None]
    return anp.where(seen, x, 0.0), anp.arange(10) == label[:, None]


@aotc.entry(x=S((5, 3), "f32"), i=S((), "i32"), t=S((30, 3), "f32"))
def in_a_loop(x, i, t):
    return control.scan(lambda c, row: (c + t[i], row), anp.zeros(3), x)


@aotc.entry(
    s=S((2, 5, 5), "f32"),
    bias=S((1, 5, 5), "f32"),
    seen=S((2, 5), "f32"),
    other=S((2, 5, 5), "f32"),
)
def masks(s, bias, seen, other):
    scores = s * other + bias
    hidden = (1.0 - seen)[:, None, :] * -1e9
    return nn.softmax(scores * 0.5), nn.softmax(scores + hidden)


@aotc.entry(q=S((1, 5, 2, 4), "f32"), bias=S((1, 1, 5, 5), "f32"))
def attention(q, bias):
    return nn.attention(q, q, q, bias=bias)


@aotc.entry(
    x=S((4, 3), "f32"), start=S((), "i32"), length=S((), "i32"), cache=S((64, 3), "f32")
)
def prefill(x, start, length, cache):
    """Four rows from `start` on, of which each sees those up to its own."""
    seen = anp.arange(64) <= (anp.arange(4) + start)[:, None]
    hidden = anp.arange(64) >= length
    return anp.where(seen, 1, 0), hidden, anp.dynamic_update_slice(cache, x, [start, 0])


@aotc.entry(s=S((2, 5, 5), "f32"), mask=S((2, 5), "i64"), t=S((9, 3), "f32"))
def integer_mask(s, mask, t):
    """As exporters write it: positions are counted, and numbers are hidden by it."""
    hidden = (1.0 - mask.astype("f32"))[:, None, :] * -3.4e38
    return nn.softmax(s * s + hidden), t[anp.cumsum(mask, 1) - 1]


@aotc.entry(s=S((5, 9), "f32"), position=S((5,), "i32"), t=S((9, 3), "f32"))
def biased_by_distance(s, position, t):
    distance = (anp.arange(9) - position[:, None]).astype("f32")
    return nn.softmax(s * s - 0.1 * distance), t[position]


def uses(entry):
    module = trace([entry], {}).module
    (point,) = Program(module).entry_points
    return uses_of_inputs(module, point), module, point


@pytest.mark.parametrize(
    ("entry", "limits"),
    [
        (indexing, {"i": 30, "j": 27}),
        (step, {"position": 64}),
        (lengths_and_labels, {"lengths": 8, "label": 10}),
        (in_a_loop, {"i": 30}),
        (prefill, {"start": 61, "length": 65}),
    ],
)
def test_positions_and_lengths_are_read_from_use(entry, limits):
    found, _, _ = uses(entry)
    assert {name: use.limit([7]) for name, use in found.items()} == limits


def test_a_length_leaves_something_to_see_and_a_position_is_within_its_axis():
    _, module, point = uses(prefill)
    choice = InputOptions(samples=9, structure=StructureLevel.SOME)
    drawn = [s.arrays for s in samples_of(module, point, choice, None)]
    assert {int(x[1]) for x in drawn} >= {0, 60}
    assert {int(x[2]) for x in drawn} >= {1, 64}
    assert all(0 <= x[1] <= 60 and 1 <= x[2] <= 64 for x in drawn)


def test_an_integer_mask_is_bits_and_a_position_that_biases_scores_is_not():
    for entry, most in ((integer_mask, 1), (biased_by_distance, 8)):
        _, module, point = uses(entry)
        for integers in IntegerRange:
            choice = InputOptions(integers=integers, structure=StructureLevel.SOME)
            drawn = [s.arrays[1] for s in samples_of(module, point, choice, None)]
            is_free = most > 1 and integers is IntegerRange.ANY  # beyond the axis, too
            assert np.max(drawn) == most or is_free
            assert np.min(drawn) >= 0 or is_free


def test_masks_that_are_added_to_scores_are_read_from_use():
    found, _, _ = uses(masks)
    assert found == {"bias": Use(is_bias=True), "seen": Use(is_factor=True)}
    assert uses(attention)[0] == {"bias": Use(is_bias=True)}


def test_first_last_and_other_positions_are_drawn_in_turn():
    _, module, point = uses(step)
    choice = InputOptions(samples=6, structure=StructureLevel.SOME)
    drawn = [int(s.arrays[1]) for s in samples_of(module, point, choice, None)]
    assert {0, 63} < set(drawn)
    assert all(0 <= position < 64 for position in drawn)


def draw(structure, *, positive=False, turn=0):
    rng = np.random.default_rng(turn)
    return Draw(rng, positive, IntegerRange.BITS, structure, turn)


@pytest.mark.parametrize("positive", [False, True])
def test_floats_have_ties_and_equal_rows_and_random_numbers_beside_them(positive):
    x = draw(StructureLevel.SOME, positive=positive).floats((12, 40), Use())
    assert len(np.unique(x[::2])) == 240
    assert len(np.unique(x[1::2])) < 20
    assert (x[3] == x[1]).all()
    assert (x > 0).all() or not positive
    few = np.unique(x[1::2])
    assert not {0.0, 1.0} & {*few.tolist()}


@pytest.mark.parametrize("turn", range(9))
@pytest.mark.parametrize("shape", [(1, 1), (5, 2), (3, 4, 4), (1, 1, 6, 6), (2, 9)])
def test_a_mask_beside_random_numbers_hides_no_row_as_a_whole(shape, turn):
    x = draw(StructureLevel.SOME, turn=turn).floats(shape, Use(is_bias=True))
    assert (x == 0).any(-1).all() or shape[-1] == 1


def test_masks_that_show_the_first_position_are_those_with_it():
    for turn in range(6):
        plain = draw(StructureLevel.SOME, turn=turn)
        shown = replace(draw(StructureLevel.SOME, turn=turn), shows_first=True)
        mask = plain.bits((2, 1, 8, 8))
        mask[..., 0] = True
        assert (shown.bits((2, 1, 8, 8)) == mask).all()


def test_structure_alone_has_exact_zeros():
    x = draw(StructureLevel.ALL).floats((12, 40), Use())
    assert len(np.unique(x)) < 20
    assert (x[1] == 0).all()
    assert not np.signbit(x[x == 0]).any()


def test_masks_are_windows_prefixes_all_and_none():
    drawn = [draw(StructureLevel.ALL, turn=turn).bits((75,)) for turn in range(5)]
    counts = [int(mask.sum()) for mask in drawn]
    assert {0, 75} < set(counts)
    edges = [int(np.abs(np.diff(mask.astype(int))).sum()) for mask in drawn]
    assert max(edges) <= 2
    assert any(mask[0] and not mask[-1] for mask in drawn)


@pytest.mark.parametrize("turn", range(0, 60, 5))
def test_a_window_hides_the_first_vectors_of_a_block_that_is_seen(turn):
    mask = draw(StructureLevel.ALL, turn=turn).bits((75,))
    first = int(np.argmax(mask))
    block = mask[first - first % 32 :][:32]
    assert block.any()
    assert not block[: min(16, len(block) - 1)].any()


def test_each_query_of_a_matrix_and_each_row_has_a_mask():
    masks = draw(StructureLevel.SOME).bits((4, 1, 9, 9))
    assert len(np.unique(masks.reshape(4, -1), axis=0)) > 1
    rows = draw(StructureLevel.SOME).bits((7, 30))
    assert len(np.unique(rows, axis=0)) > 1


def test_random_draws_of_others_stay_without_structure():
    x = draw(StructureLevel.NONE).floats((12, 40), Use(is_bias=True))
    assert len(np.unique(x)) == x.size


# ---- what is open -------------------------------------------------------------------


def verdict(wrong, shown):
    """The verdict where elements of `wrong` are NaN and runs show some to be open.

    Args:
        wrong: elements that were found to be NaN.
        shown: for each run with noise, the elements that were.
    """
    expected = [np.linspace(1, 2, 1000, dtype=np.float32)]
    runs = iter(shown)

    def evaluate(noise):
        found = expected[0].copy()
        found[list(next(runs, ()))] = np.nan
        return [found]

    found = expected[0].copy()
    found[list(wrong)] = np.nan
    return judge(["y"], [found], expected, Rounding(expected, evaluate))[0]


def test_one_open_element_excuses_no_other():
    one = [[0]] * 16
    assert verdict([0], one).passed
    for count in (1, 2, 16):
        found = verdict([0, *range(1, count + 1)], one)
        assert not found.passed
        assert f"{count} of 1000 elements wrong" in found.wrong


def test_as_many_as_a_further_run_would_show_are_open():
    rng = np.random.default_rng(0)
    drawn = [rng.choice(1000, 60, replace=False) for _ in range(17)]
    assert verdict(drawn[0], drawn[1:]).passed
    assert not verdict(range(0, 1000, 2), drawn[1:]).passed


# ---- what moves by a step -----------------------------------------------------------


def verdict_of_steps(wrong, shown, step=0.5):
    """The verdict where elements are a step of 0.5 off, and runs show some that are.

    Args:
        wrong: elements that were found to be off by `step`.
        shown: for each run with noise, the elements that were off by 0.5.
        step: how far those of `wrong` are off.
    """
    expected = [np.arange(1000, dtype=np.float32)]
    runs = iter(shown)

    def evaluate(noise):
        found = expected[0].copy()
        found[list(next(runs, ()))] += 0.5
        return [found]

    found = expected[0].copy()
    found[list(wrong)] += step
    return judge(["y"], [found], expected, Rounding(expected, evaluate))[0]


def test_as_many_elements_as_noise_moves_may_be_a_step_off():
    rng = np.random.default_rng(0)
    drawn = [rng.choice(1000, 60, replace=False) for _ in range(17)]
    found = verdict_of_steps(drawn[0], drawn[1:])
    assert found.passed
    assert found.distance.max_abs == 0.5  # and it is said
    assert not verdict_of_steps(range(0, 1000, 2), drawn[1:]).passed
    # further than noise moves any element, by their own noise and beside it
    assert not verdict_of_steps(drawn[0], drawn[1:], step=16.0).passed


def test_the_scatter_of_how_many_elements_move_is_allowed_for():
    """Four that one run of 16 showed: a quarter is expected, and two may well be."""
    shown = [[number] if number < 4 else [] for number in range(16)]
    assert verdict_of_steps([500, 501], shown).passed
    assert not verdict_of_steps([500, 501, 502], shown).passed


def test_no_element_is_a_step_off_where_noise_moves_none():
    assert not verdict_of_steps([3], [[]] * 16).passed
    always = [[0]] * 16  # what moves in every run excuses no other
    assert not verdict_of_steps([0, 1], always).passed
