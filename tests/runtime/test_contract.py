"""The loader finds what each symbol is, and refuses shapes that fit no symbols."""

import numpy as np
import pytest

from aotc.artifacts.manifest import Leaf, Symbol
from aotc.errors import InputError
from aotc.runtime.contract import CallContract

SYMBOLS = {"n": Symbol(2, 10, 1), "m": Symbol(1, None, 4)}


def check(*inputs):
    """Check inputs, each (declared sizes, shape of what comes)."""
    leaves = [
        Leaf(f"x{number}", "f32", declared)
        for number, (declared, _) in enumerate(inputs)
    ]
    arrays = [np.zeros(shape, "f4") for _, shape in inputs]
    found, shapes = CallContract("f", leaves, SYMBOLS).arrays(arrays)
    assert shapes == tuple(array.shape for array in found)
    return found


def test_sizes_say_what_a_symbol_is():
    check((("n * 2",), (8,)))
    check((("n * 2 + m", "m"), (14, 8)))
    check((("n + 3", "min(n, 4)"), (5, 2)), (("max(n, m) * n", "m"), (16, 8)))
    check((("n // 2 + 1", "n"), (4, 7)))
    check((("n * m", "m"), (12, 4)))


def test_refuses_masked_elements_and_takes_arrays_that_have_none():
    contract = CallContract("f", [Leaf("x", "f32", (3,))], SYMBOLS)
    values = np.arange(3, dtype="f4")
    (array,), _ = contract.arrays([np.ma.masked_array(values)])
    assert array.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="masked") as caught:
        contract.arrays([np.ma.masked_array(values, values > 1)])
    assert caught.value.hint.endswith("x.filled(0)")


@pytest.mark.parametrize(
    ("inputs", "code", "words"),
    [
        (
            [(("n * 2",), (7,))],
            "shape-mismatch",
            "the size 7: 'n * 2' is that for no n",
        ),
        ([(("n * 2",), (22,))], "shape-contract", "n at least 2, at most 10, got 11"),
        ([(("n * 2",), (8,)), (("n * 2",), (6,))], "shape-mismatch", "n * 2 is 8"),
        ([(("n + m", "m"), (9, 6))], "shape-contract", "a multiple of 4, got 6"),
        ([(("n", "n // 2"), (7, 4))], "shape-mismatch", "n // 2 is 3"),
        ([(("n * 2 + m", "m"), (9, 8))], "shape-mismatch", "is that for no n"),
    ],
)
def test_shapes_that_fit_no_symbols_are_refused(inputs, code, words):
    with pytest.raises(InputError) as caught:
        check(*inputs)
    assert caught.value.code == code
    assert words in caught.value.message
    assert "f: input 'x" in caught.value.message


class _Nameless:
    """A dtype that equals f32, and that no message can be made of."""

    def __eq__(self, other):
        return other == np.float32

    __hash__ = None


def test_no_message_is_made_of_an_input_that_is_right():
    """To ask a dtype for its name takes a tenth of a call of a small model."""
    contract = CallContract("f", [Leaf("x", "f32", (2,))], SYMBOLS)
    (spec,) = contract.inputs
    spec.dtype = _Nameless()
    given = np.zeros(2, "f4").view(np.recarray)  # of no exact type
    [found], _ = contract.arrays([given])
    assert found.dtype == np.float32
