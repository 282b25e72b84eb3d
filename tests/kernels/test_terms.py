"""The term of a region, computed as it is, gives what the region's ops give."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.views import View
from aotc.dialects.sizes.symbols import contracts_of, known_contracts, symbol_bounds
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import CompileError
from aotc.importers import load
from aotc.kernels.families import FAMILIES
from aotc.kernels.reference import evaluate
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Read, Statement, Term
from aotc.machine.target import Target
from aotc.mlir import Function
from aotc.passes import run_passes
from aotc.pipeline import build
from aotc.programs.files import read_program
from benchmarks.frontends.kernel_sizes import thresholds
from benchmarks.fuzz.weighted import Settings, differences_by_passes, model_source
from tests.kernels.evaluation import Regions

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# a model that has regions of each family; others go beside their compiled kernels
CASES = {
    "attention": "symbolic.py",
    "attention_gradient": "symbolic.py",
    "chain": "chains.py",
    "columns": "rows.py",
    "contraction": "contractions.py",
    "decoder": "symbolic.py",
    "depthwise": "windows.py",
    "elementwise": "normed_images.py",
    "movement": "concatenations.py",
    "nests": "loops.py",
    "pooling": "windows.py",
    "quantization": "quantizations.py",
    "rows": "rows.py",
    "sort": "sorts.py",
    "transpose": "transposes.py",
    "updates": "updates.py",
}
OTHERS = ["dequantised.py", "gates.py", "integers.py", "joined.py", "narrow_floats.py"]


@cache
def regions_of(model: str) -> dict[str, list[Function]]:
    """The regions of a model beside this file, by families."""
    found: dict[str, list[Function]] = {}
    known = Regions.of(HERE / model)
    for family, function in known:
        found.setdefault(family, []).append(function)
    _KEPT.append(known)
    return found


_KEPT: list[Regions] = []  # what the functions are of


def drawn(
    function: Function, symbols: list[int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Arguments of a region, for some values of its symbols."""
    found = []
    for kind in map(Tensor.of, function.entry_block.arguments):
        shape = [evaluate_size(n, symbols) for n in kind.shape]
        x = rng.normal(size=shape)
        if not dtypes.is_float(kind.dtype):
            x = rng.integers(0 if kind.dtype in dtypes.UNSIGNED else -3, 4, shape)
        found.append(x.astype(dtypes.to_numpy(kind.dtype)))
    return found


def computed(
    function: Function, symbols: list[int], hidden: float = 0, **options: Any
) -> None:
    """Require of the term of a region what its ops give, for drawn arguments.

    Args:
        function: the region.
        symbols: the values of its symbols.
        hidden: the share of the last argument that is -infinity.
        options: of the evaluation.
    """
    contracts = contracts_of(function)
    with function.context, known_contracts(contracts):
        term = term_of(function)
        assert term is not None, str(function)
        arguments = drawn(function, symbols, np.random.default_rng(0))
    if hidden:
        last = arguments[-1]
        last[np.random.default_rng(1).random(last.shape) < hidden] = -np.inf
    found = evaluate(term, arguments, symbols, **options)
    module = function.operation.parent.opview
    wanted = reference.evaluate(module, str(function.name.value), arguments)
    for mine, theirs in zip(found, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        mine, theirs = mine.astype("f8"), theirs.astype("f8")
        narrow = {"bf16": 2e-2, "f16": 2e-3}
        kinds = [Tensor.of(v).dtype for v in function.entry_block.arguments]
        bound = max(narrow.get(kind, 1e-4) for kind in kinds)
        scale = abs(theirs[np.isfinite(theirs)]).max(initial=1.0)
        np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound * scale)


def some_symbols(function: Function) -> list[int]:
    with known_contracts(contracts_of(function)):
        bounds = [symbol_bounds(n) for n in range(len(contracts_of(function)))]
    return [int(min(low + 2, high)) for low, high in bounds]


@pytest.mark.parametrize("model", [*dict.fromkeys(CASES.values()), *OTHERS])
def test_terms_of_regions_compute_what_their_ops_do(model: str) -> None:
    found = regions_of(model)
    for function in (each for some in found.values() for each in some):
        if fused_of(function).kernel != "scan":  # whose regions have terms each
            computed(function, some_symbols(function))
    assert {*found} >= {family for family, each in CASES.items() if each == model}


def test_a_term_of_winograd_reads_the_kernel_that_its_weight_is_made_of(
    tmp_path: Path,
) -> None:
    target, found = Target.parse("x86_64-v4"), []
    asked = {"targets": [target], "stop_after": "regions", "numerics": "relaxed"}
    build(HERE / "convolutions_of_three.py", dump=tmp_path, **asked)
    program = read_program(tmp_path / str(target) / "regions.mlir")
    for function in functions_of(program.module).values():
        fused = fused_of(function)
        if fused is not None and fused.kernel == "winograd":
            computed(function, some_symbols(function))
            found.append(function)
    assert found


def test_every_family_has_a_case_and_every_anchor_a_term() -> None:
    assert {*CASES, "winograd", "scan"} == {*FAMILIES}

    def says(op: type[GraphOp], rule: str) -> bool:
        return getattr(op, rule).__func__ is not getattr(GraphOp, rule).__func__

    for op in (op for family in FAMILIES.values() for op in family.anchors):
        has_nests = not inspect.ismethod(op.nests) or says(op, "nests")
        has_view = not inspect.ismethod(op.view)
        is_elementwise = op.on_scalars  # a statement by itself
        assert has_nests or op.cascade is not None or has_view or is_elementwise, op


@pytest.mark.filterwarnings("ignore:.*is not used")
def test_random_entries_mean_the_same_by_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in thresholds():
        monkeypatch.setattr(module, name, 1)
    model = tmp_path / "model.py"
    model.write_text(model_source(seed=6, entries=6))
    asked = Settings(Target.parse("x86_64-v3"))
    assert [*differences_by_passes(model, asked)] == []


SYMBOLIC = ["symbolic.py", "rows.py", "concatenations.py", "sorts.py", "transposes.py"]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SYMBOLIC), st.integers(0, 99), st.data())
def test_sizes_that_calls_decide_may_be_any(
    model: str, number: int, data: st.DataObject
) -> None:
    functions = [
        function
        for some in regions_of(model).values()
        for function in some
        if contracts_of(function)
    ]
    function = functions[number % len(functions)]
    with known_contracts(contracts_of(function)):
        bounds = [symbol_bounds(n) for n in range(len(contracts_of(function)))]
    symbols = [
        data.draw(st.integers(int(low), int(min(low + 4, high))))
        for low, high in bounds
    ]
    computed(function, symbols)


@cache
def softmaxes(is_attention: bool) -> list[Function]:
    """The regions whose terms have sums that are rescaled."""
    return [
        function
        for family, some in regions_of(
            "symbolic.py" if is_attention else "rows.py"
        ).items()
        for function in some
        if is_attention == (family in ("attention", "decoder"))
        and rescaled(required_term(function))
    ]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 99),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([0, 0.2, 0.9, 1]),
)
def test_a_softmax_is_made_in_one_pass_over_its_row(
    number: int, block: int, is_attention: bool, hidden: float
) -> None:
    functions = softmaxes(is_attention)
    function = functions[number % len(functions)]
    block = block if is_attention else 100 * block
    computed(function, some_symbols(function), hidden, block=block)


def required_term(function: Function) -> Term:
    with function.context, known_contracts(contracts_of(function)):
        term = term_of(function)
    assert term is not None
    return term


def rescaled(term: Term) -> list[Statement]:
    return [each for each in term.statements if term.rescaled_by(each)]


def test_sums_of_an_attention_are_rescaled_and_those_of_a_norm_are_not() -> None:
    found = regions_of("symbolic.py")
    for function in (*found["attention"], *found["decoder"]):
        total, values = rescaled(required_term(function))
        assert len(total.factors) == 1
        assert len(values.factors) == 2
    counts = {len(rescaled(required_term(f))) for f in regions_of("rows.py")["rows"]}
    assert counts == {0, 1}  # norms and sums, softmaxes


def refusal(term: Term, statements: list[Statement], arguments: Any) -> str:
    with pytest.raises(CompileError, match=r"no code .*") as caught:
        evaluate(replace(term, statements=tuple(statements)), arguments)
    assert caught.value.code == "bad-term"
    return caught.value.message


def static_term(family: str) -> tuple[Term, list[np.ndarray]]:
    """The largest term of a family whose sizes are static, and arguments."""
    functions = [
        function
        for model in CASES.values()
        for function in regions_of(model).get(family, ())
        if not contracts_of(function)
    ]
    function = max(functions, key=lambda f: len(required_term(f).statements))
    return required_term(function), drawn(function, [], np.random.default_rng(0))


def planted(statement: Statement) -> Iterator[Statement]:
    """Yield a statement with each of its reads in turn one element further on."""
    for place, factor in enumerate(statement.factors):
        if not isinstance(factor, Read) or factor.view is None:
            continue
        view = factor.view
        for axis, size in enumerate(view.source):
            is_whole = view == View.identity(view.source)
            if size != 1 and view.fill is None and is_whole:
                begin = [*view.begin]
                begin[axis] += 1
                shifted = replace(view, begin=tuple(begin))
                read = replace(factor, views=(shifted,))
                factors = [*statement.factors]
                factors[place] = read
                yield replace(statement, factors=tuple(factors))


@pytest.mark.parametrize("family", ["movement", "pooling", "rows", "transpose"])
def test_what_is_read_outside_of_memory_is_found(family: str) -> None:
    term, arguments = static_term(family)
    statements = [*term.statements]
    for number, statement in enumerate(statements):
        for wrong in planted(statement):
            rest = [*statements[:number], wrong, *statements[number + 1 :]]
            assert "outside of a source" in refusal(term, rest, arguments)


SYMBOLIC_ALONE = {"attention", "attention_gradient", "decoder"}


@pytest.mark.parametrize("family", sorted({*CASES} - SYMBOLIC_ALONE))
def test_a_hole_and_an_overlap_are_found(family: str) -> None:
    term, arguments = static_term(family)
    *rest, last = term.statements
    assert "several times" in refusal(term, [*rest, last, last], arguments)
    again = [*term.statements, term.statements[0]]
    assert "several times" in refusal(term, again, arguments)
    missing = refusal(term, rest, arguments)
    assert "no statement" in missing or " 0 several" in missing


def test_parts_that_are_misplaced_are_found() -> None:
    term, arguments = static_term("movement")
    first, *rest = term.statements
    second = rest[0]
    assert first.nest.place is not None

    def at_the_first(whole: View) -> View | None:
        place = second.nest.place(whole) if second.nest.place else None
        return place and replace(place, begin=(0,) * len(place.begin))

    wrong = replace(second, nest=replace(second.nest, place=at_the_first))
    why = refusal(term, [first, wrong, *rest[1:]], arguments)
    assert "never and" in why


def test_what_is_read_before_it_is_written_is_found() -> None:
    term, arguments = static_term("chain")
    assert "no statement" in refusal(term, [*term.statements[::-1]], arguments)


MANY = """
import aotc
import aotc.numpy as np

@aotc.entry(x=aotc.Spec((64, 64)))
def many(x):
    for _ in range(60):
        x = np.tanh(x) - x
    return np.sum(x, 1)
"""


def test_what_many_ops_read_twice_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MANY)
    program = load(tmp_path / "model.py")
    run_passes(program.module, ("inline",), silently=True)
    function = functions_of(program.module)["many"]
    computed(function, [])
    assert str(required_term(function)).count("tanh") == 60


MODEL = """
import aotc
import aotc.numpy as np
from aotc import nn

@aotc.entry(x=aotc.Spec(("n", 64)))
def share(x):
    return nn.softmax(x)

@aotc.entry(x=aotc.Spec((1, 8, 8, 16), "bf16"), w=aotc.Spec((3, 3, 16, 32), "bf16"))
def windows(x, w):
    return nn.relu(nn.conv2d(x, w, padding="SAME"))

@aotc.entry(x=aotc.Spec((6, 40)), y=aotc.Spec((6, 2, 30)))
def joined(x, y):
    return np.concatenate([x, 2 * y.reshape(6, 60)], 1)
"""
TEXTS = [
    """\
rows(a0: f32[n, 64])
  t0[i]: f32 = maximum.f32(a0[i, j]), i < n, j < 64
  t1[i]: f32 = add.f32(exp(subtract(a0[i, j], t0[i]))), i < n, j < 64, rescaled by t0
  r0[i, j]: f32 = divide(exp(subtract(a0[i, j], t0[i])), t1[i]), i < n, j < 64""",
    """\
contraction(a0: bf16[1, 8, 8, 16], a1: bf16[3, 3, 16, 32])
  t0[0, i, j, k]: bf16 = add.f32(a0[0, i + l - 1, j + m - 1, n] else 0 \
* a1[l, m, n, k]), i < 8, j < 8, k < 32, l < 3, m < 3, n < 16
  r0[0, i, j, k]: bf16 = relu(t0[0, i, j, k]), i < 8, j < 8, k < 32""",
    """\
movement(a0: f32[6, 40], a1: f32[6, 2, 30])
  r0[i, j]: f32 = a0[i, j], i < 6, j < 40
  r0[i, j + 40]: f32 = multiply(2, a1[i, j floordiv 30, j mod 30]), i < 6, j < 60\
""",
]


def test_a_term_has_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in thresholds():
        monkeypatch.setattr(module, name, 1)
    (tmp_path / "model.py").write_text(MODEL)
    found = Regions.of(tmp_path / "model.py")
    assert [str(required_term(function)) for _, function in found] == TEXTS
    page = (ROOT / "docs" / "terms.md").read_text(encoding="utf-8")
    assert "\n".join(["```", *TEXTS, "```"]) in page
