"""What a model may do with a traced array, and how it is told what it may not."""

import numpy
import pytest

import aotc.numpy as np
from aotc import reference
from aotc.errors import InputError

ENTRY = """\
import math
import numpy
import aotc
import aotc.numpy as np

seen = []

@aotc.entry(x=aotc.Spec(("batch", 4)), n=aotc.Spec((), "i32"))
def f(x, n):
    {body}
"""


def refused_entry(model, body, lines=1):
    """The error of an entry with this body, raised by its last line."""
    body = body.replace("\n", "\n    ")
    error = model.refused(ENTRY.format(body=body))
    assert error.where == f"model.py:{9 + lines}", error
    return error


@pytest.mark.parametrize(
    ("line", "wish", "hint"),
    [
        ("return x if x.sum() > 0 else -x", "decide a Python condition", "where"),
        ("return x if x.any() and n else x", "decide a Python condition", "where"),
        ("return x if n in (1, 2) else x", "decide a Python condition", "where"),
        ("return bool(n)", "decide a Python condition", "astype"),
        ("return int(n)", "be turned into a Python int", "astype"),
        ("return x * float(n)", "be turned into a Python float", "aotc.numpy"),
        ("return math.exp(n)", "be turned into a Python float", "aotc.numpy"),
        ("return [x for _ in range(n)]", "be used as a Python index", "fori_loop"),
        ("return [1, 2, 3][n]", "be used as a Python index", "take"),
        ("return x[:, :n]", "be used as a Python index", "dynamic_slice"),
        ("return n.item()", "be turned into a Python number", "inside the model"),
        ("return x.tolist()", "be turned into a list", "inside the model"),
        ("return numpy.asarray(x)", "be turned into a NumPy array", "aotc.numpy"),
        ("return numpy.array([n, n])", "be turned into a", "aotc.numpy"),
        (
            "return numpy.exp(x)",
            "be given to NumPy's own 'exp'",
            "write aotc.numpy.exp for",
        ),
        (
            "return numpy.mean(x)",
            "be given to NumPy's own 'mean'",
            "write aotc.numpy.mean for",
        ),
        ("return numpy.stack([x, x])", "own 'stack'", "write aotc.numpy.stack for"),
        (
            "return numpy.setxor1d(x, x)",
            "own 'setxor1d'",
            "aotc has no 'setxor1d'",
        ),
        (
            "return numpy.packbits(x)",
            "own 'packbits'",
            "aotc has no 'packbits'",
        ),
        ("return numpy.add.reduce(x)", "own 'add'", "use aotc.numpy.add"),
    ],
)
def test_a_traced_array_has_no_value(model, line, wish, hint):
    error = refused_entry(model, line)
    assert error.code == "traced-value"
    assert "has no value yet" in error.message
    assert wish in error.message
    assert hint in error.hint


def test_a_python_loop_cannot_wait_for_a_value(model):
    error = refused_entry(model, "while n < 3:\n    n = n + 1\nreturn n")
    assert error.code == "traced-value"
    assert "i1[]" not in error.message
    assert "(bool[])" in error.message


def test_arrays_are_not_assigned_to(model):
    error = refused_entry(model, "x[0] = 1\nreturn x")
    assert error.code == "immutable-array"
    assert "dynamic_update_slice" in error.hint


def test_augmented_assignment_makes_a_new_array(model):
    assert model.load(ENTRY.format(body="x += 1; return x"))


def test_printing_a_traced_array_shows_its_type(model, capsys):
    model.load(ENTRY.format(body="print(x, n, x.shape, x.T.dtype); return x"))
    assert (
        capsys.readouterr().out == "Array(f32[batch, 4]) Array(i32[]) (batch, 4) f32\n"
    )


def test_python_may_loop_and_branch_on_what_it_knows(model):
    body = "for i in range(x.ndim):\n        x = x + i if x.shape[1] == 4 else -x"
    assert model.load(ENTRY.format(body=f"{body}\n    return x"))


def test_dtypes_do_not_mix_and_the_line_is_told(model):
    for line in ("return x + n", "return x @ numpy.ones((4, 2))", "return n * 1.5"):
        error = refused_entry(model, line)
        assert error.code == "dtype-mismatch"
        assert "arrays of different dtypes do not mix" in error.message
        assert ".astype('float32')" in error.hint


def test_numpy_scalars_and_float64_numbers_are_python_numbers(model):
    body = "return x / numpy.sqrt(8) * numpy.prod([2, 3]) + numpy.float64(1) * x"
    program = model.load(ENTRY.format(body=body))
    assert str(program.entries[0].results[0].type.dtype) == "f32"


def test_operators_know_numpy_arrays_on_the_left(model):
    body = "return numpy.ones((2, 4), 'f4') @ x.T + numpy.float32(2) * x[0].sum()"
    assert model.load(ENTRY.format(body=body))


def test_a_shape_error_names_shapes_and_layers(model):
    body = "from aotc import nn\n    with nn.scope('head'): return x @ np.ones((3, 2))"
    error = model.refused(ENTRY.format(body=body))
    assert error.code == "shape-mismatch"
    assert "f32[batch, 4] and f32[3, 2]" in error.message
    assert error.where == "model.py:11 (head)"


# ---- arrays that leave their function -----------------------------------------------

TWO = (
    ENTRY
    + """\

@aotc.entry(x=aotc.Spec(("batch", 4)))
def g(x):
    {second}
"""
)


def test_storing_an_array_elsewhere_is_harmless(model):
    assert model.load(ENTRY.format(body="seen.append(x); return x"))


@pytest.mark.parametrize("second", ["return x + seen[0]", "return -seen[0]"])
def test_using_an_array_of_another_entry_is_refused(model, second):
    error = model.refused(
        TWO.format(body="seen.append(x * 2); return x", second=second)
    )
    assert error.code == "leaked-array"
    assert error.where == "model.py:14"
    assert "return it from that function" in error.hint


def test_returning_an_array_of_another_entry_is_refused(model):
    error = model.refused(
        TWO.format(body="seen.append(x); return x", second="return seen[0]")
    )
    assert error.code == "leaked-array"
    assert error.where == "model.py:12"


def test_an_array_of_a_differentiated_function_stays_in_it(model):
    error = model.refused(
        ENTRY.format(
            body="aotc.grad(lambda x: (seen.append(x), x.sum())[1])(x)\n"
            "    return seen[0] + 1"
        )
    )
    assert (error.code, error.where) == ("leaked-array", "model.py:11")


def test_an_array_used_after_tracing_is_refused(model):
    kept = []
    numpy.kept = kept
    try:
        model.load(ENTRY.format(body="numpy.kept.append(x); return x"))
    finally:
        del numpy.kept
    with pytest.raises(InputError) as caught:
        np.exp(kept[0])
    assert caught.value.code == "leaked-array"


# ---- symbolic sizes -----------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "return x if x.shape[0] > 3 else -x",
        "return [x for _ in range(x.shape[0])]",
        "return [row for row in x]",
        "return x * float(x.shape[0])",
        "return x[2]",
        "return x[x.shape[0] - 3 :]",
    ],
)
def test_what_only_a_size_could_decide_is_refused(model, line):
    error = refused_entry(model, line)
    assert error.code == "symbolic-size"
    assert "batch" in error.message


def test_a_reshape_that_does_not_divide_names_the_size(model):
    error = refused_entry(model, "return x.reshape(-1, 3)")
    assert error.code == "shape-mismatch"
    assert "batch * 4 elements do not provably divide by 3" in error.message


def test_a_symbolic_size_multiplies_an_array_from_either_side(model):
    program = model.load(
        """
        import aotc

        @aotc.entry(x=aotc.Spec(("n",)))
        def f(x):
            return x.shape[0] * x, x * x.shape[0]
        """
    )
    ones = numpy.ones(3, "float32")
    left, right = reference.evaluate(program.module, "f", [ones])
    assert left.tolist() == right.tolist() == [3, 3, 3]
