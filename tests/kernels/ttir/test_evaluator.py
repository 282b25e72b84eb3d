"""The evaluator of Triton's IR computes kernels, and finds what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from aotc.errors import CompileError
from aotc.kernels.ttir.evaluator import evaluate
from aotc.kernels.ttir.memory import Buffer

SIZE, BLOCK = 20, 8  # elements, and those of a program
GRID = (3, 1, 1)
PTRS = f"tensor<{BLOCK}x!tt.ptr<f32>>"
INTS, FLOATS, BITS = (f"tensor<{BLOCK}x{kind}>" for kind in ("i32", "f32", "i1"))


def constant(kind: str, value: object) -> str:
    said = f"dense<{value}> : {kind}" if kind.startswith("tensor") else f"{value} : i32"
    return f'"arith.constant"() <{{value = {said}}}> : () -> {kind}'


def op(name: str, given: str, kinds: str, result: str, attributes: str = "") -> str:
    held = f" <{{{attributes}}}>" if attributes else ""
    return f'"{name}"({given}){held} : ({kinds}) -> {result}'


def module(kinds: Sequence[str], lines: Sequence[str]) -> str:
    """A kernel `k` of arguments %a0, …, in the generic form."""
    taken = ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(kinds))
    return "\n".join(
        [
            '"builtin.module"() ({',
            f'"tt.func"() <{{function_type = ({", ".join(kinds)}) -> (), '
            'sym_name = "k", sym_visibility = "public"}> ({',
            f"^bb0({taken}):",
            *lines,
            '"tt.return"() : () -> ()',
            "}) : () -> ()",
            "}) : () -> ()",
        ]
    )


def doubling(
    *,
    mask: str = "%inside",
    offset: str = "%at",
    step: int = BLOCK,
    source: str = "%a0",
) -> str:
    """y = 2 x for 20 elements, of which each program has 8."""
    lines = [
        "%p = " + op("tt.get_program_id", "", "", "i32", "axis = 0 : i32"),
        "%step = " + constant("i32", step),
        "%first = " + op("arith.muli", "%p, %step", "i32, i32", "i32"),
        "%range = "
        + op("tt.make_range", "", "", INTS, f"start = 0 : i32, end = {BLOCK} : i32"),
        "%firsts = " + op("tt.splat", "%first", "i32", INTS),
        "%at = " + op("arith.addi", "%firsts, %range", f"{INTS}, {INTS}", INTS),
        "%zero = " + constant(INTS, 0),
        "%size = " + constant(INTS, SIZE),
        "%far = " + constant(INTS, 1 << 20),
        "%inside = "
        + op(
            "arith.cmpi", "%at, %size", f"{INTS}, {INTS}", BITS, "predicate = 2 : i64"
        ),
        "%all = " + constant(BITS, "true"),
        "%other = " + constant(FLOATS, "0.0"),
        "%x = " + op("tt.splat", source, "!tt.ptr<f32>", PTRS),
        "%y = " + op("tt.splat", "%a1", "!tt.ptr<f32>", PTRS),
        "%xs = " + op("tt.addptr", "%x, %at", f"{PTRS}, {INTS}", PTRS),
        "%ys = " + op("tt.addptr", f"%y, {offset}", f"{PTRS}, {INTS}", PTRS),
        "%v = "
        + op("tt.load", f"%xs, {mask}, %other", f"{PTRS}, {BITS}, {FLOATS}", FLOATS),
        "%w = " + op("arith.addf", "%v, %v", f"{FLOATS}, {FLOATS}", FLOATS),
        op("tt.store", "%ys, %w, %inside", f"{PTRS}, {FLOATS}, {BITS}", "()"),
    ]
    return module(["!tt.ptr<f32>"] * 2, lines)


def run(
    text: str, *, size: int = SIZE, programs: Sequence[int] | None = None
) -> Buffer:
    x = np.arange(SIZE, dtype="f")
    result = Buffer.of_unknown("y", size, x.dtype)
    evaluate(text, [Buffer.of("x", x), result], GRID, programs)
    return result


def test_runs_all_programs_of_a_grid() -> None:
    np.testing.assert_array_equal(
        run(doubling()).written_elements(), 2 * np.arange(SIZE)
    )


def test_runs_some_programs() -> None:
    found = run(doubling(), programs=[0, 2])
    assert [*found.is_known] == [True] * 8 + [False] * 8 + [True] * 4


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (r"program 2 reads x\[20\], which has 20 elements", doubling(mask="%all")),
        (r"program 0 writes y\[1048576\]", doubling(offset="%far")),
        (r"program 1 writes y\[4\], which program 0 writes", doubling(step=4)),
        (r"two lanes of program 0 write one element of y", doubling(offset="%zero")),
        (r"program 0 reads y\[0\] before it is known", doubling(source="%a1")),
    ],
    ids=["read outside", "write outside", "two programs", "two lanes", "unknown"],
)
def test_finds_what_a_device_would_do_silently(said: str, text: str) -> None:
    with pytest.raises(CompileError, match=said) as caught:
        run(text)
    assert caught.value.code == "bad-kernel"


def test_finds_results_that_are_left_out() -> None:
    found = run(doubling(), size=SIZE + 3)
    with pytest.raises(CompileError, match=r"3 of 23 .* never .* first of them at 20"):
        found.written_elements()


def test_finds_programs_that_read_what_others_write() -> None:
    """In place it would depend on the order of the programs, and so it is refused."""
    both = Buffer.of("x", np.arange(2 * SIZE, dtype="f"))
    with pytest.raises(
        CompileError, match=r"program 0 writes x\[0\], which others read"
    ):
        evaluate(doubling(), [both, both], GRID)


def test_refuses_arguments_of_other_types() -> None:
    x = Buffer.of("x", np.arange(SIZE))
    with pytest.raises(CompileError, match="x is of int64; the kernel takes float32"):
        evaluate(doubling(), [x, x], GRID)
    with pytest.raises(CompileError, match="takes 2 arguments; got 1"):
        evaluate(doubling(), [x], GRID)


def test_multiplies_and_reduces_in_a_loop() -> None:
    """Row sums of a product, whose blocks a loop goes through."""
    rows, depth = 4, 8
    square, sums = f"tensor<{rows}x{rows}xf32>", f"tensor<{rows}xf32>"
    ptrs, ints = f"tensor<{rows}x!tt.ptr<f32>>", f"tensor<{rows}xi32>"
    column, row = (f"tensor<{shape}xi32>" for shape in (f"{rows}x1", f"1x{rows}"))
    many = f"tensor<{rows}x{rows}xi32>"
    places = f"tensor<{rows}x{rows}x!tt.ptr<f32>>"
    loop = [
        "^bb0(%k: i32, %held: " + square + "):",
        "%ks = " + op("tt.splat", "%k", "i32", many),
        "%x_at = " + op("arith.addi", "%xy, %ks", f"{many}, {many}", many),
        "%base = " + op("tt.splat", "%a0", "!tt.ptr<f32>", places),
        "%xp = " + op("tt.addptr", "%base, %x_at", f"{places}, {many}", places),
        "%xv = " + op("tt.load", "%xp", places, square),
        "%yv = " + op("tt.trans", "%xv", square, square, "order = array<i32: 1, 0>"),
        "%new = "
        + op(
            "tt.dot",
            "%xv, %yv, %held",
            f"{square}, {square}, {square}",
            square,
            "inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32",
        ),
        '"scf.yield"(%new) : (' + square + ") -> ()",
    ]
    lines = [
        "%range = "
        + op("tt.make_range", "", "", ints, f"start = 0 : i32, end = {rows} : i32"),
        "%i = " + op("tt.expand_dims", "%range", ints, column, "axis = 1 : i32"),
        "%j = " + op("tt.expand_dims", "%range", ints, row, "axis = 0 : i32"),
        "%long = " + constant(column, depth),
        "%start = " + op("arith.muli", "%i, %long", f"{column}, {column}", column),
        "%starts = " + op("tt.broadcast", "%start", column, many),
        "%js = " + op("tt.broadcast", "%j", row, many),
        "%xy = " + op("arith.addi", "%starts, %js", f"{many}, {many}", many),
        "%zero = " + constant("i32", 0),
        "%end = " + constant("i32", depth),
        "%by = " + constant("i32", rows),
        "%none = " + constant(square, "0.0"),
        '%total = "scf.for"(%zero, %end, %by, %none) ({',
        *loop,
        f"}}) : (i32, i32, i32, {square}) -> {square}",
        '%sum = "tt.reduce"(%total) <{axis = 1 : i32}> ({',
        "^bb0(%l: f32, %r: f32):",
        "%s = " + op("arith.addf", "%l, %r", "f32, f32", "f32"),
        '"tt.reduce.return"(%s) : (f32) -> ()',
        f"}}) : ({square}) -> {sums}",
        "%y = " + op("tt.splat", "%a1", "!tt.ptr<f32>", ptrs),
        "%ys = " + op("tt.addptr", "%y, %range", f"{ptrs}, {ints}", ptrs),
        op("tt.store", "%ys, %sum", f"{ptrs}, {sums}", "()"),
    ]
    x = np.random.default_rng(0).normal(size=(rows, depth)).astype("f")
    result = Buffer.of_unknown("y", rows, x.dtype)
    text = module(["!tt.ptr<f32>"] * 2, lines)
    evaluate(text, [Buffer.of("x", x), result], (1, 1, 1))
    np.testing.assert_allclose(result.written_elements(), (x @ x.T).sum(1), rtol=1e-5)


INTEGERS = np.array([-7, -1, 0, 3, 2**31 - 1, -(2**31), 5, 9], "i4")
OTHERS = np.array([2, -3, 5, 3, 4, 7, -5, 1], "i4")
NUMBERS = np.array([-1.5, np.nan, 0.0, 2.25, np.inf, -0.0, 3e-39, 7], "f")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("divsi", [-3, 0, 0, 1, 536870911, -306783378, -1, 9]),
        ("remsi", [-1, -1, 0, 0, 3, -2, 0, 0]),
        ("divui", [2147483644, 1, 0, 1, 536870911, 306783378, 0, 9]),
        ("remui", [1, 2, 0, 0, 3, 2, 5, 0]),
        ("maxui", [-7, -1, 5, 3, 2147483647, -2147483648, -5, 9]),
    ],
)
def test_integers_are_divided_as_the_ir_says(name: str, wanted: list[int]) -> None:
    lines = _elementwise("i32", op(f"arith.{name}", "%x, %y", f"{INTS}, {INTS}", INTS))
    result = Buffer.of_unknown("r", BLOCK, INTEGERS.dtype)
    given = [Buffer.of("x", INTEGERS), Buffer.of("y", OTHERS), result]
    evaluate(module(["!tt.ptr<i32>"] * 3, lines), given, (1, 1, 1))
    assert [*result.written_elements()] == wanted


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        ("false", lambda x, y: np.zeros(8, bool)),
        ("oeq", lambda x, y: x == y),
        ("ogt", lambda x, y: x > y),
        ("oge", lambda x, y: x >= y),
        ("olt", lambda x, y: x < y),
        ("ole", lambda x, y: x <= y),
        ("one", lambda x, y: (x < y) | (x > y)),
        ("ord", lambda x, y: ~np.isnan(x + y)),
        ("ueq", lambda x, y: ~((x < y) | (x > y))),
        ("ugt", lambda x, y: ~(x <= y)),
        ("uge", lambda x, y: ~(x < y)),
        ("ult", lambda x, y: ~(x >= y)),
        ("ule", lambda x, y: ~(x > y)),
        ("une", lambda x, y: x != y),
        ("uno", lambda x, y: np.isnan(x + y)),
        ("true", lambda x, y: np.ones(8, bool)),
    ],
)
def test_floats_are_compared_as_the_ir_says(predicate: str, wanted) -> None:
    order = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true"
    number = order.split().index(predicate)
    said = f"predicate = {number} : i64"
    lines = _elementwise(
        "f32",
        op("arith.cmpf", "%x, %y", f"{FLOATS}, {FLOATS}", BITS, said),
        "%z = " + op("arith.uitofp", "%b", BITS, FLOATS),
    )
    x, y = NUMBERS, np.roll(NUMBERS, 1).round()
    result = Buffer.of_unknown("r", BLOCK, x.dtype)
    given = [Buffer.of("x", x), Buffer.of("y", y), result]
    evaluate(module(["!tt.ptr<f32>"] * 3, lines), given, (1, 1, 1))
    assert [*result.written_elements()] == [*wanted(x, y)]


def _elementwise(kind: str, made: str, *rest: str) -> list[str]:
    """Lines that load %x and %y, make %b of them, and store %z, or %b."""
    ptrs, many = f"tensor<{BLOCK}x!tt.ptr<{kind}>>", f"tensor<{BLOCK}x{kind}>"
    lines = [
        "%range = "
        + op("tt.make_range", "", "", INTS, f"start = 0 : i32, end = {BLOCK} : i32")
    ]
    for number, name in enumerate("xyr"):
        lines += [
            f"%{name}p = " + op("tt.splat", f"%a{number}", f"!tt.ptr<{kind}>", ptrs),
            f"%{name}a = "
            + op("tt.addptr", f"%{name}p, %range", f"{ptrs}, {INTS}", ptrs),
        ]
    loads = [f"%{name} = " + op("tt.load", f"%{name}a", ptrs, many) for name in "xy"]
    last = "%z" if rest else "%b"
    store = op("tt.store", f"%ra, {last}", f"{ptrs}, {many}", "()")
    return [*lines, *loads, f"%b = {made}", *rest, store]
