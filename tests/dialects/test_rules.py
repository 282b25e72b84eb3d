"""Every op × every rule that NumPy can judge; test_lowering.py compiles them."""

import inspect

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects import OPS, context
from aotc.dialects.builder import Builder
from aotc.dialects.graph import RULES, Reason, as_tuple, evaluate
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.mlir import ir

# Central differences with this step are exact to about 1e-9 in f64.
STEP = 1e-5
SLACK = 1e-7


@pytest.mark.parametrize("name", OPS)
def test_every_rule_is_filled_or_says_why_not(name):
    op = OPS[name]
    for rule in RULES:
        value = op.rule(rule)
        assert value is not None, f"{name} has no {rule}"
        if isinstance(value, Reason):
            with pytest.raises(CompileError, match=value.text):
                value()
    assert op.samples


@pytest.mark.parametrize("name", OPS)
def test_every_op_and_rule_is_described(name):
    op = OPS[name]
    assert op.__doc__.startswith(("y = ", "y[")), "the formula comes first"
    assert op.why, f"{name} does not say why it is an op"
    for rule in ("infer", "jvp", "vjp", "batch"):
        value = inspect.unwrap(op.rule(rule))
        assert isinstance(value, Reason) or value.__doc__, f"{name}.{rule}"


def test_verify_accepts_what_infer_builds(case, graph):
    trace = case.build(graph)
    assert graph.operation.verify()
    (op, _) = trace.block.operations
    with context():
        inferred = op.infer(*map(Tensor.of, op.operands), **op.attributes_of(op))
        assert tuple(map(Tensor.of, op.results)) == as_tuple(inferred)


@pytest.mark.parametrize("name", OPS)
def test_verify_names_the_op_whose_result_type_is_wrong(name, first_case, graph):
    trace = first_case(name).build(graph)
    (op, ret) = trace.block.operations
    first, *rest = [*map(Tensor.of, op.results), Tensor((), "f32")]
    wrong = [first.with_shape((*first.shape, 7)), *rest[:-1]]
    with context(), ir.Location.unknown(), ir.InsertionPoint(ret):
        ir.Operation.create(
            op.OPERATION_NAME,
            results=[kind.to_mlir() for kind in wrong],
            operands=list(op.operands),
            attributes={n: op.operation.attributes[n] for n in op.operation.attributes},
        )
    with pytest.raises(ir.MLIRError) as failure:
        graph.operation.verify()
    assert f"graph.{name}: the operands give" in str(failure.value)


def test_reference_computes_what_infer_says(case, graph):
    case.build(graph)
    for sizes in case.size_choices():
        results = reference.evaluate(graph, str(case), case.inputs(sizes))
        for result, expected in zip(results, case.infer(sizes), strict=True):
            assert result.shape == expected.shape
            assert dtypes.canonical_dtype(result.dtype) == expected.dtype


def test_symbolic_and_static_shapes_agree(symbolic_case, graph, empty_module):
    case = symbolic_case
    case.build(graph)
    sizes = next(case.size_choices())
    symbolic = reference.evaluate(graph, str(case), case.inputs(sizes))
    static = case.with_static_sizes(sizes)
    static.build(empty_module)
    results = reference.evaluate(empty_module, str(static), case.arrays(sizes))
    for one, other in zip(symbolic, results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mask", ["all", "first", "last"])
def test_batched_op_is_the_op_for_each(case, mask, graph, differentiate):
    count = len(case.sample.operands)
    if isinstance(case.cls.batch, Reason) or (mask != "all" and count < 2):
        return
    batched = [
        mask == "all" or i == {"first": 0, "last": count - 1}[mask]
        for i in range(count)
    ]
    case.build(graph)
    sizes, size = next(case.size_choices()), 3
    inputs = case.inputs(sizes)
    marks = [*batched, *[False] * (len(inputs) - count)]
    stacks = [
        np.stack([x, *(case.permute(x, by) for by in range(1, size))]) if has else x
        for x, has in zip(inputs, marks, strict=True)
    ]
    together = differentiate.batch(case, batched, size)(stacks)
    for number in range(size):
        alone = [x[number] if has else x for x, has in zip(stacks, marks, strict=True)]
        for one, all_ in zip(
            reference.evaluate(graph, str(case), alone), together, strict=True
        ):
            case.assert_equal(all_[number], one)


# ---- derivatives --------------------------------------------------------------------


def test_jvp_agrees_with_finite_differences(smooth_case, graph, differentiate):
    case = smooth_case
    case.build(graph)
    sizes = next(case.size_choices())
    for active in case.active_sets():
        inputs, tangents = case.inputs(sizes), case.tangents(sizes, active)
        jvp = differentiate.jvp(case, active)
        slopes = jvp([*inputs, *tangents.values()])

        def moved(by, tangents=tangents, inputs=inputs):
            shifted = [
                x + by * tangents[i] if i in tangents else x
                for i, x in enumerate(inputs)
            ]
            results = reference.evaluate(graph, str(case), shifted)
            return [
                y for y in results if dtypes.is_float(dtypes.canonical_dtype(y.dtype))
            ]

        for slope, ahead, behind in zip(slopes, moved(STEP), moved(-STEP), strict=True):
            expected = (ahead - behind) / (2 * STEP)
            np.testing.assert_allclose(slope, expected, rtol=SLACK, atol=SLACK)


def test_vjp_is_the_transpose_of_jvp(smooth_case, differentiate):
    case = smooth_case
    for sizes in case.size_choices():
        active = case.active_sets()[0]
        inputs, tangents = case.inputs(sizes), case.tangents(sizes, active)
        slopes = differentiate.jvp(case, active)([*inputs, *tangents.values()])
        rng = case.rng()
        weights = [rng.standard_normal(slope.shape) for slope in slopes]
        cotangents = differentiate.vjp(case)([*inputs, *weights])
        pairs = zip(tangents.values(), cotangents, strict=True)
        transposed = sum(np.vdot(v, c) for v, c in pairs)
        forward = sum(map(np.vdot, slopes, weights))
        np.testing.assert_allclose(forward, transposed, atol=1e-11)
        for i, cotangent in zip(tangents, cotangents, strict=True):
            assert cotangent.shape == inputs[i].shape


def test_second_derivatives_agree_with_finite_differences(smooth_case, differentiate):
    case = smooth_case
    once, twice = differentiate.second(case)
    sizes = next(case.size_choices())
    active = case.active_sets()[0]
    inputs, tangents = case.inputs(sizes), case.tangents(sizes, active)
    floats = [y for y in case.infer(sizes) if dtypes.is_float(y.dtype)]
    cotangents = [case.rng().standard_normal(y.shape) for y in floats]
    outputs, wanted = len(case.infer(sizes)), len(active)

    def gradients(by):
        moved = [
            x + by * tangents[i] if i in tangents else x for i, x in enumerate(inputs)
        ]
        return once([*moved, *cotangents])[outputs:]

    found = twice([*inputs, *cotangents, *tangents.values()])[-wanted:]
    for slope, ahead, behind in zip(
        found, gradients(STEP), gradients(-STEP), strict=True
    ):
        expected = (ahead - behind) / (2 * STEP)
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)


def test_builder_offers_every_op_and_nothing_else():
    builder = Builder()
    assert builder.add == OPS["add"].build
    with pytest.raises(AttributeError, match="no op 'subtrac'"):
        _ = builder.subtrac


def test_evaluate_gives_the_dtype_of_the_result(graph, first_case):
    trace = first_case("argmax").build(graph)
    with context():
        op = trace.block.operations[0]
        (result,) = evaluate(op, [np.zeros((2, 3, 4), "f")], [])
        assert result.dtype == np.int32
