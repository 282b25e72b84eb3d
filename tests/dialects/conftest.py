"""Fixtures of the rule tests: the cases of every op (`tests/dialects/cases.py`).

A test that asks for `case` runs once for each; one that asks for `smooth_case` for
those that have derivatives, in f64.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects import context
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import call, find, signature
from aotc.dialects.functions.transform import Batch, Jvp, Vjp, derive
from aotc.dialects.graph import as_tuple
from aotc.dialects.ops.binary import Binary
from aotc.dialects.ops.unary import Unary
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.tracing.tracing import Array, Trace
from tests.dialects.cases import Case, all_cases, cases_of, smooth_cases


def pytest_generate_tests(metafunc: Any) -> None:
    """Run tests of a `case` for each of them."""
    for name, cases in _LISTS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, cases(), ids=str)
    if "compiled_case" in metafunc.fixturenames:
        wide = metafunc.config.option.markexpr == "slow"
        mark = [pytest.mark.slow] if wide else []
        chosen = [
            pytest.param(case, marks=mark, id=str(case))
            for case in all_cases()
            if case.is_narrow != wide
        ]
        metafunc.parametrize("compiled_case", chosen)


_LISTS = {
    "case": all_cases,
    "smooth_case": smooth_cases,
    "symbolic_case": lambda: [case for case in all_cases() if case.symbols],
}


# ---- derivatives of one op ----------------------------------------------------------


class Differentiate:
    """The rules of an op as functions: evaluated by the reference, or built only.

    Only the float results of an op take part.
    """

    def jvp(self, case: Case, active: Sequence[int]) -> Callable[[list[Any]], Any]:
        """Return the jvp as a function of the inputs, then tangents of `active`."""
        module = new_module()

        def body(trace: Trace, *values: Any) -> list[Any]:
            op = self._op(trace, case, values)
            tangents = {i: _argument(trace, values[i].type) for i in active}
            given = map(tangents.get, range(len(values)))
            dys = as_tuple(case.cls.jvp(Builder(), op, *given))
            return [
                Builder().full_like(y, 0.0) if dy is None else dy
                for y, dy in zip(op.results, dys, strict=True)
                if dtypes.is_float(Tensor.of(y).dtype)
            ]

        case.build(module, body)
        return lambda inputs: reference.evaluate(module, str(case), inputs)

    def vjp(self, case: Case) -> Callable[[list[Any]], Any]:
        """Return the vjp as a function of the inputs and the results' cotangents."""
        module = new_module()
        self.build_vjp(case, module)
        return lambda inputs: reference.evaluate(module, str(case), inputs)

    def build_vjp(self, case: Case, module: Any) -> None:
        """The function that `vjp` evaluates."""

        def body(trace: Trace, *values: Any) -> list[Any]:
            op = self._op(trace, case, values)
            dys = [
                _argument(trace, y.type)
                if dtypes.is_float(Tensor.of(y).dtype)
                else None
                for y in op.results
            ]
            cotangents = case.cls.vjp(Builder(), op, *dys)
            assert len(cotangents) == len(values)
            return [
                Builder().full_like(values[i], 0.0) if cotangents[i] is None
                else cotangents[i]
                for i in case.active_sets()[0]
            ]  # fmt: skip

        case.build(module, body)

    def second(self, case: Case) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The vjp of a case, and its jvp along the inputs; written by the pass.

        Both take inputs and cotangents; the second a tangent per float input, too.
        """
        module = new_module()
        inner = case.build(module)
        wrt = tuple(case.active_sets()[0])
        functions = {"once": [Vjp(inner.name, wrt)]}
        functions["twice"] = [*functions["once"], Jvp(f"{inner.name}.vjp", wrt)]
        for name, chain in functions.items():
            self._derived(module, name, inner, chain)
        run_passes(module, ["autodiff"])
        first, second = (
            lambda inputs, name=name: reference.evaluate(module, name, inputs)
            for name in functions
        )
        return first, second

    def _derived(self, module: Any, name: str, inner: Trace, chain: Any) -> None:
        """A function `name` that calls the last of a chain of derived functions."""
        types = self._taken(inner, chain[-1])
        outer = Trace(module, name, types, inner.contracts)
        with outer.active(), ir.Location.unknown(), ir.InsertionPoint(outer.block):
            called = [derive(each) for each in chain][-1]
            inputs, _ = signature(find(called))
            for kind in inputs[len(types) :]:
                _argument(outer, kind.to_mlir())
            results = call(called, list(outer.block.arguments))
            outer.finish([Array(value=value, trace=outer) for value in results])

    def batch(
        self, case: Case, batched: Sequence[bool], size: int
    ) -> Callable[[list[Any]], Any]:
        """Return the batched function: inputs in `batched` have a leading axis."""
        module = new_module()
        inner = case.build(module)
        wrt = tuple(i for i, has in enumerate(batched) if has)
        self._derived(module, "batched", inner, [Batch(inner.name, wrt, size)])
        run_passes(module, ["autodiff"])
        return lambda inputs: reference.evaluate(module, "batched", inputs)

    def _taken(self, inner: Trace, derived: Any) -> list[Tensor]:
        """Return types of the derived function's arguments, for those of `inner`."""
        types = [Tensor.of(v) for v in inner.block.arguments]
        return derived.signature(types, [])[0] if type(derived) is Batch else types

    def _op(self, trace: Trace, case: Case, values: Sequence[Any]) -> Any:
        sizes = {name: SymbolicDim.symbol(i) for i, name in enumerate(case.symbols)}
        trace.build(case.op, *values, **case.attributes(sizes))
        return trace.block.operations[len(trace.block.operations) - 1]


def _argument(trace: Trace, kind: Any) -> Any:
    return trace.block.add_argument(kind, ir.Location.unknown())


@pytest.fixture
def differentiate() -> Differentiate:
    """The derivative rules of a case as functions."""
    return Differentiate()


# ---- modules ------------------------------------------------------------------------


def new_module() -> Any:
    """A module of graph functions."""
    with context(), ir.Location.unknown():
        return ir.Module.create()


@pytest.fixture
def graph() -> Any:
    """An empty module."""
    return new_module()


@pytest.fixture
def empty_module() -> Any:
    """Another empty module."""
    return new_module()


@pytest.fixture
def first_case() -> Callable[[str], Case]:
    """The first case of an op."""
    return lambda name: next(cases_of(name))


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    """All of them."""
    return all_cases()


@pytest.fixture(scope="session")
def structured_cases() -> list[Case]:
    """The differentiable ones of ops that are not elementwise."""
    return [
        case for case in smooth_cases() if not issubclass(case.cls, (Unary, Binary))
    ]


@pytest.fixture(scope="session")
def build_all() -> Callable[[Sequence[Case]], Any]:
    """A module with a function for each of some cases."""

    def build(cases: Sequence[Case]) -> Any:
        module = new_module()
        for case in cases:
            case.build(module)
        return module

    return build
