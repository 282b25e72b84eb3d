"""aotc.numpy.einsum gives NumPy's results, by products in a good order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc
import aotc.numpy as anp
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.tracing.assembly import trace

rng = np.random.default_rng(0)

CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij->ji", (2, 3)),
    ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)), ("i,j->ij", (2,), (3,)),
    ("ij->", (2, 3)), ("ji", (2, 3)), (" i j , j k -> i k ", (2, 3), (3, 4)),
    ("bhqk,bkhd->bqhd", (2, 4, 3, 6), (2, 6, 4, 5)), ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,k->i", (2, 3), (4,)), ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5)),
    ("i,i", (3,), (3,)), ("i->i", (3,)), (",->", (), ()), ("ij,jk->ki", (2, 3), (3, 4)),
    ("ab,bc,ca->", (2, 3), (3, 4), (4, 2)), ("ji,ij->i", (3, 2), (2, 3)),
    # diagonals
    ("ii->i", (3, 3)), ("ii", (3, 3)), ("iij->ij", (3, 3, 2)), ("iii->i", (2, 2, 2)),
    ("ii,i->i", (3, 3), (3,)), ("ijij->ij", (2, 3, 2, 3)),
    # axes that are not named
    ("...->...", (2, 3)), ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk", (6, 1, 2, 3), (5, 3, 4)), ("i...->i...", (3, 4, 2)),
    ("...i,i->...", (2, 4, 3), (3,)), ("i...,i...->...", (3, 2), (3, 5, 2)),
    ("b...d,d->...b", (2, 5, 4, 3), (3,)), ("...,...", (), (2, 3)),
    # sizes of one stretch
    ("ij,ij->ij", (1, 3), (2, 3)), ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,ij->j", (2, 1), (2, 3)),
    # zero sizes
    ("ij,jk->ik", (2, 0), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_results_agree_with_numpy(case):
    subscripts, *shapes = case
    arrays = [rng.integers(-3, 4, shape).astype("f4") for shape in shapes]
    got, want = anp.einsum(subscripts, *arrays), np.einsum(subscripts, *arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_product_of_named_axes_agrees_with_numpy(data):
    letters = "abcde"
    sizes = {c: data.draw(st.integers(1, 3)) for c in letters}
    word = st.text(letters, max_size=4)
    words = data.draw(st.lists(word, min_size=1, max_size=4))
    used = sorted(set("".join(words)))
    output = data.draw(st.permutations(used))[: data.draw(st.integers(0, len(used)))]
    text = f"{','.join(words)}->{''.join(output)}"
    arrays = [
        rng.integers(-3, 4, [sizes[c] for c in word]).astype("i4") for word in words
    ]
    got = anp.einsum(text, *arrays)
    np.testing.assert_array_equal(np.asarray(got), np.einsum(text, *arrays))


def largest_intermediate(text, *shapes):
    """The elements of the largest value that is computed on the way."""

    @aotc.entry(xs=[aotc.Spec(shape) for shape in shapes])
    def product(xs):
        return anp.einsum(text, *xs)

    module = trace([product], {}).module
    ops = module.body.operations[0].entry_block.operations
    types = [Tensor.of(y) for op in ops if isinstance(op, GraphOp) for y in op.results]
    return max(
        np.prod([n if isinstance(n, int) else 9 for n in t.shape]) for t in types
    )


def test_no_outer_product_is_made_where_an_order_avoids_it():
    # from left to right, ab,cd would be first: 64 times as large
    assert largest_intermediate("ab,cd,bc->ad", (8, 8), (8, 8), (8, 8)) == 64
    # a vector at the end of a chain goes first
    assert largest_intermediate("ab,bc,cd,d->a", *[(64, 64)] * 3, (64,)) == 64
    # symbolic sizes count as large
    names = aotc.Dim("n"), aotc.Dim("m")
    shapes = (names[0], 4), (4, 5), (5, names[1]), (names[1],)
    assert largest_intermediate("nd,de,em,m->n", *shapes) <= 9 * 4


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("ij->k", "bad-subscripts", "in an operand"),
        ("ij,jk->ik", "bad-subscripts", "for 2 arrays; got 1"),
        ("ijk->i", "bad-subscripts", "'ijk' does not name each axis of f32[2, 3]"),
        ("ijk...->i", "bad-subscripts", "does not name each axis"),
        ("ij->jj", "bad-subscripts", "each letter of the result once"),
        ("i1->i", "bad-subscripts", "letters and one '...'"),
        ("i......->i", "bad-subscripts", "letters and one '...'"),
        ("i...->i", "bad-subscripts", "'...' is missing in the result"),
        ("ii->i", "shape-mismatch", "'i' stands for the sizes 2 and 3"),
        (3, "bad-argument", "to be a string; got 3"),
    ],
)
def test_refuses_what_names_no_product(text, code, words):
    with pytest.raises(InputError) as caught:
        anp.einsum(text, np.ones((2, 3), "f4"))
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.where.startswith("test_einsum.py:")


def test_names_the_letter_whose_sizes_differ():
    with pytest.raises(InputError, match="'j' stands for sizes 3 and 4"):
        anp.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((4, 2)))
