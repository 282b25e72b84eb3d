"""Sizes in the code of a model: Python is told of their values, or refused."""

import math
from pathlib import Path

import numpy
import pytest

import aotc
import aotc.numpy as np
from aotc import control, reference
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.errors import InputError
from aotc.tracing.assembly import trace
from aotc.tracing.call_sizes import CallSize, in_compiler_sizes
from aotc.tracing.source_locations import source_root
from benchmarks.fuzz.evaluated import without_compiler

# what Python asks of the size n of x: true, false or a number, by its value
QUESTIONS = {
    "==": lambda x, n: n == 3,
    "!=": lambda x, n: n != 3,
    "reversed ==": lambda x, n: 3 == n,  # noqa: SIM300
    "<": lambda x, n: n < 4,
    "fraction": lambda x, n: n < 3.5,
    "float": lambda x, n: n == 3.0,
    "NumPy's": lambda x, n: numpy.int64(3) == n,
    "odd": lambda x, n: n % 2 == 1,
    "truth": lambda x, n: bool(n - 3),
    "not": lambda x, n: not n == 3,  # noqa: SIM201
    "and": lambda x, n: n == 3 and x.size == 6,
    "in": lambda x, n: n in (3, 7),
    "in a set": lambda x, n: n in {3, 7},
    "in a range": lambda x, n: n in range(3),
    "shape": lambda x, n: x.shape == (3, 2),
    "shape !=": lambda x, n: x.shape != (3, 2),
    "in a shape": lambda x, n: 3 in x.shape,
    "order of shapes": lambda x, n: x.shape < (4, 2),
    "key": lambda x, n: {3: 10, 4: 20}.get(n, 30),
    "dict of sizes": lambda x, n: len({n: 1, 3: 2}),
    "set": lambda x, n: len({n, 3}),
    "index": lambda x, n: (n, 3, 9).index(3),
    "count": lambda x, n: (n, 3, 3).count(3),
    "sorted": lambda x, n: sorted((n, 3, 1))[1],
    "min": lambda x, n: min(n, 3),
    "array_equal": lambda x, n: numpy.array_equal(x.shape, (3, 2)),
    "str": lambda x, n: len(str(n * 5)),
    "format": lambda x, n: int(f"{n:03d}") + int(f"{n}") + int("%d" % n),  # noqa: UP031
    "hash": lambda x, n: hash(n),
    "int": lambda x, n: int(n) + int(float(n)) + n.__index__(),
    "divided": lambda x, n: n / 2 + math.sqrt(n),
    "range": lambda x, n: sum(i for i in range(n)),
    "length": lambda x, n: len(x) + len([0] * n),
    "negative divisor": lambda x, n: n // -2 + n % -3,
    "divisor that may be 0": lambda x, n: 12 // (n - 1) if n > 1 else 0,
    "shifts": lambda x, n: (n << 2) + (n >> 1) + (n & 1) + (n | 1) + n**2,
    "where": lambda x, n: np.where(n == 3, 1.0, 2.0),
    "cond": lambda x, n: control.cond(n == 3, lambda: x[:1].sum(), lambda: x.sum()),
    "product": lambda x, n: x.sum() * (n == 3) - (n < 5),
    "arrays": lambda x, n: np.array_equal(x, np.ones((3, 2))).astype("f32"),
    "squeeze": lambda x, n: np.squeeze(x[:, :1]).ndim + 0 * n,
}  # fmt: skip
CALLS = (4, 5, 3, 1, 7, 4, 3)


def asked(question):
    """A function of x that adds the answer of a question to its elements."""

    def function(x):
        return x + question(x, x.shape[0]) * 1.0

    return function


def ones(rows):
    return numpy.ones((rows, 2), "f")


@pytest.fixture(autouse=True)
def _without_compiler():
    with without_compiler():
        yield


def in_numpy(name, rows):
    """The answer to a question in plain Python."""
    x = ones(rows)
    answers = {
        "where": lambda: 1.0 if rows == 3 else 2.0,
        "cond": lambda: 2.0 if rows == 3 else 2.0 * rows,
        "arrays": lambda: rows == 3,
    }
    return x + answers.get(name, lambda: QUESTIONS[name](x, rows))() * 1.0


@pytest.mark.parametrize("make", [aotc.jit, aotc.hybrid], ids=["jit", "hybrid"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_functions_that_are_called_answer_as_python_does(name, make):
    function = make(asked(QUESTIONS[name]))
    for rows in CALLS:
        numpy.testing.assert_allclose(function(ones(rows)), in_numpy(name, rows), 1e-6)


@pytest.mark.parametrize("name", QUESTIONS)
def test_entries_answer_as_python_does_or_refuse(name):
    refusals = []
    for least in (1, 2, 4):

        @aotc.entry(x=aotc.Spec((aotc.Dim("n", min=least), 2)))
        def ask(x):
            return asked(QUESTIONS[name])(x)

        try:
            with source_root(Path(__file__).parent):
                module = trace([ask], {}).module
        except InputError as error:
            refusals.append(error)
            continue
        for rows in (least, 3, 4, 5):
            if rows >= least:
                (found,) = reference.evaluate(module, "ask", [ones(rows)])
                numpy.testing.assert_allclose(found, in_numpy(name, rows), 1e-6)
    for error in refusals:
        assert error.code == "symbolic-size"
        assert "test_call_sizes.py:" in error.where
        assert error.hint


@pytest.mark.parametrize("name", ["where", "cond", "product", "arrays"])
def test_a_condition_that_arrays_are_chosen_by_is_no_refusal(name):
    @aotc.entry(x=aotc.Spec(("n", 2)))
    def ask(x):
        return asked(QUESTIONS[name])(x)

    module = trace([ask], {}).module
    for rows in (1, 3, 4):
        (found,) = reference.evaluate(module, "ask", [ones(rows)])
        numpy.testing.assert_allclose(found, in_numpy(name, rows), 1e-6)


def test_what_contracts_decide_is_decided():
    facts = []

    def decide(x, y):
        n, m, k = x.shape[0], x.shape[1], y.shape[0]
        facts.extend(
            [
                (n == 3) is False, (n != 3) is True, (n == n) is True,  # noqa: PLR0124
                (2 * m == 3) is False, (m * 2 % 2 == 0) is True, (k % 4 == 0) is True,
                (k == 6) is False, (n <= 2) is True, (m == 2.5) is False,
                (x.shape == x.shape) is True, (n == "n") is False,
                (m == math.inf) is False, (m < math.inf) is True, n in (n, 9),
                (4 * m + 2 * n == k * 3 + 1) is False,
            ]
        )  # fmt: skip
        return x

    few, times = aotc.Dim("n", max=2), aotc.Dim("k", multiple_of=4)
    trace([aotc.entry(x=aotc.Spec((few, "m")), y=aotc.Spec((times,)))(decide)], {})
    assert all(facts)


def test_calls_that_decide_alike_share_code_and_the_report_names_the_condition():
    @aotc.jit
    def scaled(x):
        return x * 2 if x.shape[0] > 6 else x + 100

    for rows in (4, 5, 6, 3, 9, 8, 7, 4):
        wanted = 2 if rows > 6 else 101
        assert (scaled(ones(rows)) == wanted).all()
    assert len(scaled.variants) == 3  # the first call's, and one for each answer
    report = scaled.report()
    conditions = [each["size_guards"] for each in report["variants"]]
    names = {guard["name"] for each in conditions for guard in each}
    assert names == {"x_0 > 6", "x_0 <= 6"}
    assert all("test_call_sizes.py:" in g["where"] for each in conditions for g in each)
    assert report["guard_failures"]["x_0 <= 6"] == 1


def test_a_size_that_is_used_as_a_number_leaves_the_others_symbols():
    @aotc.jit
    def repeated(x):
        return sum((x[i] for i in range(x.shape[0])), np.zeros(x.shape[1]))

    for shape in ((2, 4), (3, 5), (2, 6), (3, 7), (2, 8)):
        found = repeated(numpy.ones(shape, "f"))
        assert found.tolist() == [shape[0]] * shape[1]
    sizes = [each.to_json()["sizes"][0] for each in repeated.variants]
    assert sizes == [[2, 4], [3, "x_1"], [2, "x_1"]]
    assert not repeated.report()["notes"]


def test_sizes_that_were_equal_in_all_calls_are_asked_again_when_they_are_not():
    @aotc.jit
    def compared(x, y):
        return np.sum(x) + np.sum(y) + (100 if x.shape == y.shape else 0)

    for n, m in ((2, 2), (3, 3), (4, 4), (4, 5), (5, 5), (5, 4), (6, 6)):
        found = compared(numpy.ones(n, "f"), numpy.ones(m, "f"))
        assert found == n + m + 100 * (n == m)


def test_a_condition_in_a_loop_or_a_derivative_is_guarded_too():
    @aotc.jit
    def total(x):
        def step(carried, row):
            return carried + (row.sum() if x.shape[0] == 3 else row.max()), None

        def loss(x):
            return np.sum(x * x) if x.shape[1] == 3 else np.sum(x)

        return control.scan(step, 0.0, x)[0] + np.sum(aotc.grad(loss)(x))

    for n, m in ((4, 4), (5, 5), (3, 4), (4, 3), (3, 3), (6, 2)):
        x = numpy.ones((n, m), "f")
        wanted = (n * m if n == 3 else n) + n * m * (2 if m == 3 else 1)
        assert total(x) == wanted


def test_refusals_of_entries_say_the_line_and_the_ways_out():
    @aotc.entry(x=aotc.Spec(("batch", "length")))
    def padded(x):
        if x.shape[1] % 2 == 1:
            x = np.pad(x, ((0, 0), (0, 1)))
        return x

    with pytest.raises(InputError, match="'length % 2 == 1' is only known") as caught:
        trace([padded], {})
    for word in ("min, max, multiple_of", "route:", "aotc.jit", "where", "cond"):
        assert word in caught.value.hint
    assert "test_call_sizes.py:" in caught.value.where


@pytest.mark.parametrize(
    "size", [lambda n: int(n * 0.7), lambda n: int(0.7 * n), lambda n: int(n / 2)]
)
def test_a_size_in_floats_is_refused_with_the_form_in_whole_numbers(size):
    @aotc.entry(x=aotc.Spec(("n",)))
    def part(x):
        return x[: size(x.shape[0])]

    with pytest.raises(InputError, match="use it as a number") as caught:
        trace([part], {})
    assert "n * 7 // 10 for n * 0.7" in caught.value.hint


def test_messages_of_a_model_show_the_names_of_sizes():
    @aotc.entry(x=aotc.Spec(("batch", 4)))
    def refused(x):
        raise ValueError(f"bad shape {x.shape} of {x.shape[0]!r}")

    with pytest.raises(InputError, match=r"bad shape \(batch, 4\) of batch"):
        trace([refused], {})


def test_types_and_ops_have_the_compilers_sizes():
    seen = []

    def look(x):
        seen.extend([x.shape[0], x.size, np.shape(x)[0], np.size(x), x.shape[0] + 1])
        seen.extend([2 * x.shape[0], -x.shape[0], x.shape[0] // 2, x.shape[0] % 3])
        seen.append(np.broadcast_shapes(x.shape, (1, 2))[0])
        assert type(x.type.shape[0]) is SymbolicDim
        with pytest.raises(TypeError, match="the compiler's sizes"):
            Tensor(x.shape, "f32")
        return np.zeros((x.shape[0] + 1, 2))

    trace([aotc.entry(x=aotc.Spec(("n", 2)))(look)], {})
    assert all(type(size) is CallSize for size in seen)
    assert all(type(size) is SymbolicDim for size in in_compiler_sizes(tuple(seen)))


def test_what_python_decided_on_is_a_condition_of_what_is_exported():
    @aotc.jit
    def scaled(x):
        return x * 2 if x.shape[0] > 6 else x + 100

    scaled(ones(4))
    scaled(ones(5))
    (variant,) = [each for each in scaled.variants if each.is_dynamic]
    program = variant.specialization.program
    (entry,) = program.entries
    assert [guard.condition for guard in entry.guards] == ["x_0 <= 6"]
    scaled(ones(8))
    with pytest.raises(InputError, match="Python decided on sizes") as caught:
        scaled.export("never-written.aotc")
    assert caught.value.code == "several-forms"


@pytest.mark.parametrize("mode", ["same", "valid"])
def test_the_shorter_of_two_vectors_moves_along_the_longer_one(mode):
    kernel = numpy.array([1, 2, 3], "f")

    def blurred(x):
        return np.convolve(x, kernel, mode), np.correlate(kernel, x, mode)

    compiled = aotc.jit(blurred)
    for count in (4, 5, 2, 3, 1, 6):
        x = numpy.arange(count, dtype="f")
        wanted = numpy.convolve(x, kernel, mode), numpy.correlate(kernel, x, mode)
        for one, other in zip(compiled(x), wanted, strict=True):
            numpy.testing.assert_allclose(one, other, 1e-6)
    with pytest.raises(InputError, match="not provably inside"):
        trace([aotc.entry(x=aotc.Spec(("n",)))(blurred)], {})


def test_arrays_of_two_symbols_are_equal_where_their_sizes_are():
    @aotc.entry(x=aotc.Spec(("n", "k")), y=aotc.Spec(("m", "k")))
    def same(x, y):
        return np.array_equal(x, y), np.array_equal(x, x), np.array_equal(x, y[0])

    module = trace([same], {}).module
    for n, m in ((2, 2), (2, 3), (3, 2), (1, 1)):
        x, y = (numpy.arange(2 * k, dtype="f").reshape(k, 2) for k in (n, m))
        found = reference.evaluate(module, "same", [x, y])
        assert [bool(each) for each in found] == [n == m, True, False]
        assert not reference.evaluate(module, "same", [x, y + 1])[0]
